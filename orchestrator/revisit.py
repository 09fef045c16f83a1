"""Going back to a turn of a recorded episode: its state on a live server, proven to be the one.

The recorded inputs are played on a scratch episode, which is closed afterwards. Every answer on the
way is compared with the recorded one, state hashes included. Nothing recorded is changed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from agent_runtime.episode import RemoteEpisode, Transition
from agent_runtime.errors import AgentRuntimeError
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import ReplayDiverged, UsageError
from orchestrator.fleet import Fleet, Place
from orchestrator.replay import find_difference, recorded_reset, recorded_transitions

__all__ = ["ScratchEpisode", "check_turn", "revisit"]

_CLOSE_SECONDS: Final = 5.0
"""For which the end of an episode is waited for."""


def check_turn(record: episode_pb2.Episode, turn: int) -> None:
    """Raise UsageError for a turn of which no answer was recorded; 0 = the reset."""
    last = len(record.steps) - 1
    if not 0 <= turn <= last:
        raise UsageError(f"the episode has no turn {turn}: 0 to {last} were played")


@asynccontextmanager
async def revisit(
    record: episode_pb2.Episode, turn: int, fleet: Fleet
) -> AsyncGenerator[RemoteEpisode]:
    """Open a scratch episode in the state after a turn; 0 = after the reset.

    Raises what `ScratchEpisode` raises.
    """
    scratch = await ScratchEpisode.open(record, fleet)
    try:
        await scratch.advance(turn)
        yield scratch.live
    finally:
        await scratch.close()


class ScratchEpisode:
    """An episode on a live server that goes through the states of a recorded one, forwards."""

    def __init__(self, record: episode_pb2.Episode, place: Place) -> None:
        """Describe it at a place that was acquired; `open` acquires one."""
        self.live = RemoteEpisode(
            place.connection, f"revisit-{secrets.token_hex(8)}", recorded_reset(record)
        )
        self.turn = -1
        """After which it stands; -1 = before the reset."""
        self._record = record
        self._place = place
        self._last: Transition | None = None
        self._transitions = recorded_transitions(self.live, record)

    @classmethod
    async def open(cls, record: episode_pb2.Episode, fleet: Fleet) -> Self:
        """Find a server for it. Raises ConnectionLost where none is left."""
        return cls(record, await fleet.acquire(record.environment))

    async def close(self) -> None:
        """End it on the server; where that does not answer, its lease ends it."""
        await self._transitions.aclose()
        self._place.release()
        with suppress(AgentRuntimeError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.live.end()

    async def advance(self, turn: int) -> Transition:
        """Play the recorded inputs up to a turn, and return what that led to.

        Where this fails the scratch episode is of no more use.

        Raises:
            UsageError: The turn was not played, or lies behind.
            ReplayDiverged: An answer is another than the recorded one.
            AgentRuntimeError: The server is gone, or refuses what was recorded.
        """
        check_turn(self._record, turn)
        if turn < self.turn:
            raise UsageError(f"turn {turn} lies behind: the episode stands after {self.turn}")
        while self._last is None or self.turn < turn:
            self._last = await anext(self._transitions)
            self.turn += 1
            found = find_difference(self._record, self._record.steps[self.turn], self._last)
            if found is not None:
                raise ReplayDiverged(
                    f"turn {found.seq} of {self._record.item_id} does not come out as it was "
                    f"recorded: {found.field} was {found.recorded[:200]!r} and is "
                    f"{found.replayed[:200]!r}. Is it another version of the environment, or other "
                    "data?"
                )
        return self._last
