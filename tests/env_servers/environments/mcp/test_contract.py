"""The MCP environment keeps the contract of all environments, with its example server."""

import random

import pytest

from env_servers.sdk import EnvironmentConfig, ResetOptions
from env_servers.sdk.contract import EnvironmentContract, Terms

# Each episode that calls a tool starts a process.
pytestmark = pytest.mark.slow


class TestMcp(EnvironmentContract):
    environment_name = "mcp"
    terms = Terms(items_per_split=1, expert_items_per_split=20, steps=8)


def test_a_random_player_solves_none_of_the_examples():
    environment = TestMcp.subject().environment
    tasks = environment.load_tasks(EnvironmentConfig())
    rng = random.Random(0)
    rewards = []
    for split, size in tasks.splits().items():
        for item in tasks.item_ids(split, 0, size):
            episode = environment(tasks)
            last = episode.reset(tasks.get(item), ResetOptions(profile="fixed"))
            for _ in range(environment.spec.max_rounds):
                last = episode.step(episode.advise_random(rng).action)
                if last.terminated:
                    break
            episode.close()
            rewards.append(last.reward)
    assert rewards == [0.0] * 29
