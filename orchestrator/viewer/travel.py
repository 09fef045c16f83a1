"""Time travel: the states of recorded episodes, as live servers show them.

A scratch episode per recorded one that is looked at: the next turn costs one step, an earlier one a
replay from the start. What was once shown is kept, so that going back and forth asks no server. All
is bounded: scratch episodes in number and idle time, what is kept in bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent_runtime.errors import AgentRuntimeError, ConnectionLost
from agent_runtime.logs import get_logger
from agent_runtime.supervision import Supervisor
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import FleetError
from orchestrator.manifest import EnvironmentIdentity
from orchestrator.revisit import ScratchEpisode, check_turn
from orchestrator.viewer.live_servers import LiveServers

__all__ = ["State", "Travel"]

log = get_logger(__name__)

_MOST_SCRATCH: Final = 8
"""Scratch episodes that live at once."""
_IDLE_SECONDS: Final = 120.0
"""After which a scratch episode is closed."""
_MOST_BYTES: Final = 64 * 1024 * 1024
"""Of views that are kept; those of one state have 8 MiB at most."""
_MOST_STATES: Final = 500
_CLOSE_SECONDS: Final = 10.0
"""For which the end of all of them is waited for."""
_PATIENCE: Final = 120.0
"""Seconds for a state, the start of a server included."""

_Key = tuple[Path, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a recorded episode after a turn, from a live server."""

    turn: int
    state_hash: str
    """Equal to the recorded one, as those of all turns before are."""
    info: Mapping[str, Any] | None
    """What the environment said beside its observation."""
    server: EnvironmentIdentity
    """What was asked; the record may be another version's, and come out the same."""
    views: Sequence[pb.View]
    draws: bool
    """Whether the environment can draw at all."""

    @property
    def size(self) -> int:
        """Bytes of the views."""
        return sum(len(view.content) for view in self.views)


class Travel:
    """States of recorded episodes. Any thread may ask."""

    def __init__(self, servers: LiveServers) -> None:
        """Ask these servers."""
        self._servers = servers
        self._lock = threading.Lock()
        self._states: OrderedDict[tuple[_Key, int], State] = OrderedDict()
        """What was shown, the latest last; under the lock."""
        self._scratch: OrderedDict[_Key, tuple[ScratchEpisode, asyncio.TimerHandle]] = OrderedDict()
        """Those that nobody plays on now, the latest last; on the servers' loop alone."""
        self._closing = Supervisor()

    def close(self) -> None:
        """End all scratch episodes: servers that were found, not started, live on."""
        if self._scratch:
            with suppress(FleetError):
                self._servers.run(self._end(), timeout=_CLOSE_SECONDS)

    def state(self, folder: Path, record: episode_pb2.Episode, turn: int) -> State:
        """Return the state of a run's episode after a turn; 0 = after the reset.

        Raises what `LiveServers.fleet` and `ScratchEpisode.advance` raise.
        """
        check_turn(record, turn)  # before a server is started for it
        key = folder, record.episode_id
        known = self.known(folder, record.episode_id, turn)
        if known is not None:
            return known
        state = self._servers.run(self._visit(key, record, turn), timeout=_PATIENCE)
        with self._lock:
            self._states[key, turn] = state
            kept = self._states
            while len(kept) > _MOST_STATES or sum(it.size for it in kept.values()) > _MOST_BYTES:
                kept.popitem(last=False)
        return state

    def known(self, folder: Path, episode_id: str, turn: int) -> State | None:
        """Return a state that was shown and is still kept."""
        key = (folder, episode_id), turn
        with self._lock:
            state = self._states.get(key)
            if state is not None:
                self._states.move_to_end(key)
            return state

    async def _visit(self, key: _Key, record: episode_pb2.Episode, turn: int) -> State:
        fleet = await self._servers.fleet(key[0], record.environment)
        described = fleet.described[record.environment]
        kept = await self._take(key, turn)
        if kept is not None:
            try:
                return await self._look(key, kept, turn, described)
            except AgentRuntimeError as error:
                # Its server ended, or forgot it. What is wrong with the state itself comes again.
                log.info("scratch episode lost", episode_id=key[1], error=str(error))
        try:
            scratch = await ScratchEpisode.open(record, fleet)
        except ConnectionLost as error:
            raise FleetError(
                f"no server of {described.name} answers any more: start it again, or view with "
                "--spawn 1 to have one started"
            ) from error
        return await self._look(key, scratch, turn, described)

    async def _look(
        self, key: _Key, scratch: ScratchEpisode, turn: int, described: pb.GetEnvironmentResponse
    ) -> State:
        """Go on to a turn and return the state; keeps the scratch episode for the next one."""
        draws = pb.CAPABILITY_RENDER in described.capabilities
        try:
            reached = await scratch.advance(turn)
            live = scratch.live
            views = (await live.connection.render(live.episode_id)).views if draws else ()
        except BaseException:
            await scratch.close()
            raise
        await self._keep(key, scratch)
        return State(
            turn=turn,
            state_hash=reached.state_hash.hex(),
            info=reached.info,
            server=EnvironmentIdentity(
                name=described.name, version=described.version, digest=described.digest
            ),
            views=tuple(views),
            draws=draws,
        )

    async def _end(self) -> None:
        kept = [self._scratch.popitem()[1] for _ in range(len(self._scratch))]
        await asyncio.gather(*(scratch.close() for scratch, _ in kept))

    async def _take(self, key: _Key, turn: int) -> ScratchEpisode | None:
        """Return the kept scratch episode from which a turn can be reached; nobody else gets it."""
        if key not in self._scratch:
            return None
        scratch, expiry = self._scratch.pop(key)
        expiry.cancel()
        if scratch.turn <= turn:
            return scratch
        await scratch.close()
        return None

    async def _keep(self, key: _Key, scratch: ScratchEpisode) -> None:
        """Keep a scratch episode for a while, in the place of another one of the same episode."""

        def expire() -> None:
            if self._scratch.get(key, (None,))[0] is scratch:
                del self._scratch[key]
                self._closing.start(scratch.close(), "close idle scratch episode")

        before = self._scratch.pop(key, None)
        expiry = asyncio.get_running_loop().call_later(_IDLE_SECONDS, expire)
        self._scratch[key] = scratch, expiry
        if before is None and len(self._scratch) > _MOST_SCRATCH:
            before = self._scratch.popitem(last=False)[1]
        if before is not None:
            before[1].cancel()
            await before[0].close()
