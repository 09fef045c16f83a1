"""Going back to a turn of a recorded episode: its state on a live server, proven to be the one.

The recorded inputs are played on a scratch episode, which is closed afterwards. Every answer on the
way is compared with the recorded one, state hashes included. Nothing recorded is changed.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_runtime.episode import RemoteEpisode
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import ReplayDiverged, UsageError
from orchestrator.fleet import Fleet
from orchestrator.replay import find_difference, recorded_reset, recorded_transitions

__all__ = ["revisit"]


@asynccontextmanager
async def revisit(
    record: episode_pb2.Episode, turn: int, fleet: Fleet
) -> AsyncGenerator[RemoteEpisode]:
    """Open a scratch episode in the state after a turn; 0 = after the reset.

    Raises UsageError for a turn that was not played, ReplayDiverged where an answer is another than
    the recorded one, and what `RemoteEpisode` raises.
    """
    if not 0 <= turn < len(record.steps):
        raise UsageError(
            f"the episode has no turn {turn}: 0 to {len(record.steps) - 1} were played"
        )
    played = episode_pb2.Episode()
    played.CopyFrom(record)
    del played.steps[turn + 1 :]
    handle = await fleet.acquire(record.environment)
    live = RemoteEpisode(
        handle.connection, f"revisit-{secrets.token_hex(8)}", recorded_reset(record)
    )
    try:
        steps = iter(played.steps)
        async for transition in recorded_transitions(live, played):
            found = find_difference(record, next(steps), transition)
            if found is not None:
                raise ReplayDiverged(
                    f"turn {found.seq} of {record.item_id} does not come out as it was recorded: "
                    f"{found.field} was {found.recorded[:200]!r} and is {found.replayed[:200]!r}. "
                    "Is it another version of the environment, or other data?"
                )
        yield live
    finally:
        live.close()
        fleet.release(handle)
