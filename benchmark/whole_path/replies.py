"""Replies that were worked out before, as a policy: an agent that costs nothing.

`--policy replies:policy:FILE` with this folder on PYTHONPATH; FILE is a JSON object {item id:
replies}.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from agent_runtime.conversation import Message
from agent_runtime.policies.base import Completion, EpisodeContext, Policy, PolicySession
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.spending import Pricing
from env_servers.sdk import EnvironmentConfig, ResetOptions, load_environment

__all__ = ["Player", "policy", "write_replies"]


Player = Literal["expert", "random"]
"""Who has worked the replies out."""


def write_replies(name: str, items: int, file: Path, player: Player = "expert") -> list[str]:
    """Play train tasks as a scripted player does and write its replies; returns the item ids."""
    environment = load_environment(name)
    tasks = environment.load_tasks(EnvironmentConfig())
    spec, replies = environment.spec, dict[str, list[str]]()
    action_format = next(iter(spec.conversation_starts))
    for seed, item_id in enumerate(tasks.item_ids("train", 0, items)):
        episode = environment(tasks)
        episode.reset(tasks.get(item_id), ResetOptions())
        drawing = random.Random(seed)
        said = replies[item_id] = list[str]()
        while len(said) < spec.max_rounds:
            advice = (
                episode.advise_expert(seed)
                if player == "expert"
                else episode.advise_random(drawing)
            )
            said.append(episode.grammar.write(advice, action_format))
            if episode.step(advice.action).terminated:
                break
        episode.close()
    tasks.close()
    file.write_text(json.dumps(replies))
    return list(replies)


def policy(target: str, config: PolicyConfig) -> Policy:
    """Return the policy that says what is in the file `target`."""
    return _Recorded(json.loads(Path(target).read_text()))


class _Recorded(Policy):
    name = "recorded"
    pricing = Pricing.FREE

    def __init__(self, replies: Mapping[str, Sequence[str]]) -> None:
        self._replies = replies

    def open(self, context: EpisodeContext) -> PolicySession:
        return _Session(self._replies[context.item_id])


class _Session(PolicySession):
    def __init__(self, replies: Sequence[str]) -> None:
        self._replies = replies

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """Return the reply of this turn; after the last one it is said again."""
        return Completion(text=self._replies[min(turn, len(self._replies) - 1)])
