"""A run shows the episodes that it is playing to who connects to the socket in its folder.

Readers can look and change nothing. What they cost the run is bounded however many there are and
whatever they send: connections are accepted at a pace, each has one question, nothing is queued for
a slow reader (it gets the latest state when it has taken the one before), and after work for
readers comes a rest many times as long. Nothing is computed while nobody looks.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from agent_runtime.live_record import LiveRecord, Seen
from agent_runtime.logs import get_logger
from agent_runtime.private_files import PRIVATE_FILE
from agent_runtime.supervision import Supervisor, cancel_tasks, supervise
from orchestrator.live_messages import (
    SOCKET_FILE,
    Answer,
    EpisodeState,
    Listing,
    Question,
    Refusal,
    Update,
    socket_address,
)

__all__ = ["Broadcast"]

log = get_logger(__name__)

_MOST_READERS: Final = 16
_PACE: Final = 0.02
"""Seconds between two connections that are accepted, and two updates of one."""
_REST: Final = 50
"""Times as long as work for readers took, until there is more of it."""
_PATIENCE: Final = 20.0
"""Seconds for a reader to ask, or to take what it is sent."""
_FAREWELL: Final = 0.5
"""Seconds that a run waits at its end for readers to take the last update."""
_LISTED: Final = 500
_QUESTION_BYTES: Final = 1024
_ROOT: Final = 0
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Broadcast:
    """What one run shows; `open` it while the run is played. Use it in one event loop."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the run's, whose lock this process holds."""
        self._folder = folder
        self._shown: dict[str, LiveRecord] = {}
        self._readers = Supervisor()
        self._reading = 0
        self._spent = 0.0
        """Seconds of work for readers since the last connection was accepted."""

    @contextmanager
    def episode(self, episode_id: str) -> Generator[LiveRecord]:
        """Show an episode while the block lasts; gives where it is written to."""
        shown = self._shown[episode_id] = LiveRecord()
        try:
            yield shown
        finally:
            del self._shown[episode_id]
            shown.end()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Let readers connect until the block ends.

        Where a socket cannot be made (a file system without them), the run goes on unseen, and its
        log says why.
        """
        try:
            listening = _listen(self._folder)
        except OSError as error:
            log.warning("live episodes cannot be watched", error=str(error))
            yield
            return
        accepting = supervise(self._accept(listening), "let readers connect")
        try:
            yield
        finally:
            await cancel_tasks(accepting)
            (self._folder / SOCKET_FILE).unlink(missing_ok=True)
            listening.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await self._readers.finish()
            await self._readers.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(listening)
            except OSError as error:  # for example no more descriptors
                log.warning("a reader could not connect", error=str(error))
                await asyncio.sleep(1)
                continue
            if _is_ours(peer):
                self._readers.start(self._answer(peer), "show live episodes")
            else:
                peer.close()
            rest, self._spent = _REST * self._spent, 0.0
            await asyncio.sleep(max(_PACE, rest))

    async def _answer(self, peer: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=peer, limit=_QUESTION_BYTES)
        # So that `drain` waits until the reader has taken everything.
        writer.transport.set_write_buffer_limits(high=0)
        self._reading += 1
        try:
            await self._converse(reader, writer)
        except (OSError, TimeoutError):
            pass  # the reader has left, or takes nothing
        finally:
            self._reading -= 1
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._reading > _MOST_READERS:
            await _send(writer, Refusal("too_many"))
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                question = msgspec.json.decode(await reader.readline(), type=Question)
        except ValueError:  # no question, or one that is too long
            await _send(writer, Refusal("not_understood"))
            return
        if not question.episode_id:
            await _send(writer, self._list())
            return
        shown = self._shown.get(question.episode_id)
        if shown is None or not shown.record.episode_id:
            await _send(writer, Refusal("not_played"))
            return
        await self._show(shown, reader, writer)

    async def _show(
        self, shown: LiveRecord, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        seen, changes = Seen(), shown.changes
        left = asyncio.create_task(reader.read(1))
        with shown.watched() as changed:
            left.add_done_callback(lambda _: changed.set())
            try:
                while not left.done():
                    changed.clear()
                    begun = time.perf_counter()
                    update = _update(shown, seen, shown.changes - changes)
                    changes = shown.changes
                    line = _line(update)
                    spent = time.perf_counter() - begun
                    self._spent += spent
                    await _send_line(writer, line)
                    if update.ended:
                        return
                    await asyncio.sleep(max(_PACE, _REST * spent))
                    await changed.wait()
            finally:
                await cancel_tasks(left)

    def _list(self) -> Listing:
        begun = time.perf_counter()
        live = [shown for shown in self._shown.values() if shown.record.episode_id]
        listing = Listing(
            live=len(live),
            episodes=[_state(shown) for shown in live[:_LISTED]],
            started_unix_ms=[shown.record.started_unix_ms for shown in live],
        )
        self._spent += time.perf_counter() - begun
        return listing


def _listen(folder: Path) -> socket.socket:
    """Return a socket in a run's folder that its owner alone can connect to. Raises OSError."""
    path = folder / SOCKET_FILE
    path.unlink(missing_ok=True)  # of a process that was killed: the lock is ours
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        if sys.platform == "linux":  # gives the file this mode; elsewhere the folder is private
            os.fchmod(listening.fileno(), PRIVATE_FILE)
        with socket_address(folder) as address:
            listening.bind(address)
        path.chmod(PRIVATE_FILE)
        listening.listen(_MOST_READERS)
    except BaseException:
        listening.close()
        raise
    return listening


def _is_ours(peer: socket.socket) -> bool:
    """Tell whether the other side is of this user, or root."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the modes of file and folder say so
    data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(data)[1] in (_ROOT, os.geteuid())


def _state(shown: LiveRecord) -> EpisodeState:
    record = shown.record
    return EpisodeState(
        episode_id=record.episode_id,
        environment=record.environment,
        item_id=record.item_id,
        category=record.category,
        sample=record.sample,
        attempt=record.attempt,
        policy=record.policy,
        started_unix_ms=record.started_unix_ms,
        turn=len(record.generations),
        waits_for=shown.waits_for.value,
        since_unix_ms=shown.since_unix_ms,
        streams=shown.streams,
    )


def _update(shown: LiveRecord, seen: Seen, changes: int) -> Update:
    ended = ("recorded" if shown.recorded else "unrecorded") if shown.ended else ""
    news = shown.news(seen)
    return Update(
        state=_state(shown),
        record=b"" if news is None else news.SerializeToString(),
        draft=shown.draft.text(),
        changes=changes,
        ended=ended,
    )


def _line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    await _send_line(writer, _line(answer))


async def _send_line(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(line)
    async with asyncio.timeout(_PATIENCE):
        await writer.drain()
