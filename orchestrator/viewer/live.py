"""What is being played now in a run, asked of the process that plays it.

The other side is `orchestrator.broadcast`. A run that does not answer is told from one that has
nothing to show: its process was killed and left its socket, has ended, or lets nobody watch.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError

from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import OrchestratorError
from orchestrator.live_messages import (
    SOCKET_FILE,
    Answer,
    Listing,
    Question,
    Refusal,
    Update,
    socket_address,
)
from orchestrator.run_folder import read_writer
from orchestrator.viewer import transcript

__all__ = ["LiveStreams", "NotPlayed", "NotWatchable", "list_live"]

_PATIENCE: Final = 2.0
"""Seconds for a run to answer."""
_LINE_BYTES: Final = 64 << 20
"""Of one message: an episode of more is not watched here."""
_MOST_STREAMS: Final = 32
_DRAFT: Final = 20_000
"""Characters of a draft that a page gets: its last ones."""
_REFUSED: Final = {
    "too_many": "this run is watched by too many already: close some of its pages",
    "not_understood": "this run is played by another version of this program",
}


class NotWatchable(OrchestratorError):
    """When a run cannot be asked what it is playing; says why."""


class NotPlayed(OrchestratorError):
    """When an episode is not being played now."""


def list_live(folder: Path) -> Listing:
    """Return what a run is playing. Raises NotWatchable."""
    try:
        with socket.socket(socket.AF_UNIX) as asking, socket_address(folder) as address:
            _refuse_strangers(folder)
            asking.settimeout(_PATIENCE)
            asking.connect(address)
            asking.sendall(_question(""))
            with asking.makefile("rb") as stream:
                line = stream.readline(_LINE_BYTES)
    except OSError as error:
        raise NotWatchable(_why(folder, error)) from error
    answer = _read(line)
    if not isinstance(answer, Listing):
        raise NotWatchable(_REFUSED["not_understood"])
    return answer


class LiveStreams:
    """The episodes that are being followed. Use it in one event loop."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open: set[asyncio.StreamWriter] = set()
        self._closed = False

    def close(self) -> None:
        """End all streams, and begin no more."""
        self._closed = True
        for writer in self._open:
            writer.close()

    @asynccontextmanager
    async def follow(
        self, folder: Path, episode_id: str
    ) -> AsyncGenerator[AsyncGenerator[dict[str, Any]]]:
        """Give what is seen of an episode, first what it was so far.

        Each piece has the turns that changed, all of them from the first that did. It is read from
        the run only as quickly as it is taken here. The last one has `ended`: recorded, unrecorded,
        or lost where the run ended or was killed before the episode was over; there is none where
        `close` ended the stream.

        Raises NotWatchable, NotPlayed.
        """
        if self._closed or len(self._open) >= _MOST_STREAMS:
            raise NotWatchable("too many episodes are followed already: close some of their pages")
        try:
            _refuse_strangers(folder)
            with socket_address(folder) as address:
                async with asyncio.timeout(_PATIENCE):
                    reader, writer = await asyncio.open_unix_connection(address, limit=_LINE_BYTES)
        except OSError as error:
            raise NotWatchable(_why(folder, error)) from error
        self._open.add(writer)
        try:
            yield self._pieces(await _first(folder, episode_id, reader, writer), reader)
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pieces(
        self, update: Update | None, reader: asyncio.StreamReader
    ) -> AsyncGenerator[dict[str, Any]]:
        episode, turns = episode_pb2.Episode(), list[dict[str, Any]]()
        while update is not None:
            try:
                episode.MergeFromString(update.record)
            except DecodeError:
                raise NotWatchable("the run sent a record that cannot be read") from None
            # Most updates have a longer draft, and nothing else.
            is_same = turns and not update.record
            now = turns if is_same else transcript.as_data(episode)["turns"]
            pairs = zip(now, turns, strict=False)
            same = next((at for at, (new, old) in enumerate(pairs) if new != old), len(turns))
            turns = now
            yield {
                "state": msgspec.to_builtins(update.state),
                "from": same,
                "turns": now[same:],
                "draft": update.draft[-_DRAFT:],
                "changes": update.changes,
                "ended": update.ended,
            }
            if update.ended:
                return
            update = await _next(reader)
        if not self._closed:
            yield {"ended": "lost"}


async def _first(
    folder: Path, episode_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Update:
    """Ask for an episode; returns what it was so far. Raises NotWatchable, NotPlayed."""
    try:
        writer.write(_question(episode_id))
        async with asyncio.timeout(_PATIENCE):
            update = await _next(reader)
    except OSError as error:
        raise NotWatchable(_why(folder, error)) from error
    if update is None:
        raise NotWatchable(_why(folder, ConnectionResetError()))
    return update


async def _next(reader: asyncio.StreamReader) -> Update | None:
    """Return the next update; None = the run has gone. Raises NotWatchable, NotPlayed."""
    try:
        line = await reader.readline()
    except OSError:
        return None
    except ValueError:
        size = f"{_LINE_BYTES >> 20} MiB"
        raise NotWatchable(f"the episode is too long to be watched ({size})") from None
    if not line.endswith(b"\n"):
        return None
    answer = _read(line)
    if isinstance(answer, Update):
        return answer
    if isinstance(answer, Refusal) and answer.reason == "not_played":
        raise NotPlayed("this episode is not being played now")
    raise NotWatchable(_REFUSED["not_understood"])


def _read(line: bytes) -> Answer:
    try:
        answer = msgspec.json.decode(line, type=Answer)
    except ValueError as error:
        raise NotWatchable(f"the run's answer cannot be read ({error})") from error
    if isinstance(answer, Refusal) and answer.reason in _REFUSED:
        raise NotWatchable(_REFUSED[answer.reason])
    return answer


def _question(episode_id: str) -> bytes:
    return msgspec.json.encode(Question(episode_id)) + b"\n"


def _refuse_strangers(folder: Path) -> None:
    """Raise OSError or NotWatchable unless the run's socket is one of this user's.

    In a folder of somebody else its name could be a link to any service of this machine.
    """
    status = (folder / SOCKET_FILE).lstat()
    if not stat.S_ISSOCK(status.st_mode):
        raise NotWatchable(f"{SOCKET_FILE} of this run is no socket")
    if status.st_uid != os.geteuid():
        raise NotWatchable("another user plays this run")


def _why(folder: Path, error: OSError) -> str:
    """Say why a run does not tell what it is playing."""
    if read_writer(folder) is None:
        left = " (what it left does not answer)" if isinstance(error, ConnectionError) else ""
        return f"no process of this machine is playing this run{left}"
    if isinstance(error, FileNotFoundError):
        return (
            "the process of this run does not show what it is playing: it begins or ends at this "
            "moment, is of an older version, or its log (logs/run.jsonl) says why"
        )
    if isinstance(error, TimeoutError):
        return "the process of this run does not answer: it is stopped, or very busy"
    return f"the process of this run does not answer ({error.strerror or type(error).__name__})"
