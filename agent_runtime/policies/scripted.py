"""Scripted players as policies: the environment's own expert, random and no-op.

The environment gives the advice, rendered in the episode's action format, so one policy plays every
environment. No tokens are sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agent_runtime.conversation import Message
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies.base import (
    Completion,
    EpisodeContext,
    LiveEpisode,
    Policy,
    PolicySession,
)
from agent_runtime.spending import Pricing
from agentgym.env.v1 import environment_pb2

__all__ = ["ScriptedPolicy"]

_ADVISORS: Final[Mapping[str, environment_pb2.Advisor]] = {
    "expert": environment_pb2.ADVISOR_EXPERT,
    "random": environment_pb2.ADVISOR_RANDOM,
    "noop": environment_pb2.ADVISOR_NOOP,
}


class ScriptedPolicy(Policy):
    """`expert`, `random` or `noop`; raises PolicyMisconfigured for other names."""

    pricing = Pricing.FREE

    def __init__(self, name: str, *, actions_only: bool = False) -> None:
        if name not in _ADVISORS:
            raise PolicyMisconfigured(f"unknown scripted policy {name!r}")
        self.name = name
        self._advisor = _ADVISORS[name]
        self._actions_only = actions_only

    def open(self, context: EpisodeContext) -> PolicySession:
        return _ScriptedSession(context.live, self._advisor, actions_only=self._actions_only)


class _ScriptedSession(PolicySession):
    def __init__(
        self, live: LiveEpisode, advisor: environment_pb2.Advisor, *, actions_only: bool
    ) -> None:
        self._live = live
        self._advisor = advisor
        self._actions_only = actions_only

    @property
    def takes_images(self) -> bool:
        return True

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """The advice for the episode's current state; raises what consulting it raises."""
        advice = await self._live.consult(self._advisor, seed)
        return Completion(text=_without_thought(advice) if self._actions_only else advice.reply)


def _without_thought(advice: environment_pb2.Advice) -> str:
    """Return a reply in the form `Thought: ... Action: ...` from its action on."""
    thought = f"Thought:\n{advice.thought}\n\n"
    if not advice.reply.startswith(thought):
        raise PolicyMisconfigured(
            "actions_only: replies of this environment, or of this action format, have no "
            f"thought that can be left out: {advice.reply[:200]!r}"
        )
    return advice.reply.removeprefix(thought)
