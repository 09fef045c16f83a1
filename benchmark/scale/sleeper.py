"""`benchmark.scale.sleeper:policy:SECONDS`: a player of echo whose every reply takes as long.

It waits as a player waits for a model server, so a run's speed is known but for what the system
adds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_runtime.conversation import Message
from agent_runtime.policies.base import Completion, EpisodeContext, Policy, PolicySession
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.spending import Pricing

__all__ = ["policy"]

_REPLY = Completion(text="Thought:\nIt is my turn.\n\nAction:\nmessage")


def policy(target: str, config: PolicyConfig) -> Policy:
    """Return the policy whose replies take `target` seconds; 0 = none."""
    return _Sleeper(float(target))


class _Sleeper(Policy):
    name = "sleeper"
    pricing = Pricing.FREE

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def open(self, context: EpisodeContext) -> PolicySession:
        return _Session(self._seconds)


class _Session(PolicySession):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """Return the same words after a while."""
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return _REPLY
