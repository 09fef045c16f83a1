"""Task sets shared by the weather tests, and where recorded data is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from env_servers.environments.weather import Weather
from env_servers.sdk import EnvironmentConfig, Observation, ResetOptions
from env_servers.toolkit.tool_calls import ToolTaskSet, write_call
from tests.kit.data import data_fixture

data_dir = data_fixture("tools/weather.jsonl")


@pytest.fixture(scope="session")
def embedded() -> ToolTaskSet:
    return Weather.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> ToolTaskSet:
    return Weather.load_tasks(EnvironmentConfig(data_dir))


def begin(tasks: ToolTaskSet, item: str, profile: str = "agentgym", **options: object) -> Weather:
    """An episode just begun."""
    episode = Weather(tasks)
    episode.reset(tasks.get(item), ResetOptions(profile=profile, options=options))
    return episode


def shown(seen: Observation) -> str:
    """What a tool returned, as text."""
    return seen.text.removeprefix("Observation: ").removesuffix("\nGive me one action.")


def ask(episode: Weather, tool: str, **arguments: object) -> str:
    """What a call returns, as text."""
    return shown(episode.step(write_call(tool, arguments)))


def play_expert(episode: Weather, wording: int = 0) -> tuple[Observation, int]:
    """(last observation, steps) of the expert's episode."""
    seen = Observation("")
    for step in range(1, episode.spec.max_rounds + 1):
        seen = episode.step(episode.advise_expert(wording).action)
        if seen.terminated:
            return seen, step
    return seen, episode.spec.max_rounds
