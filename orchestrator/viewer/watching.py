"""What the pages of live episodes ask for: which there are, and one of them as a stream."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from orchestrator.errors import OrchestratorError, RunNotFound, UsageError
from orchestrator.run_folder import read_writer
from orchestrator.viewer.library import Library
from orchestrator.viewer.live import LiveStreams, NotPlayed, NotWatchable, list_live

__all__ = ["Watching", "live_since"]

_LINES: Final = "application/x-ndjson"


class Watching:
    """Live episodes of the runs of a library."""

    def __init__(self, library: Library) -> None:
        """Follow none so far."""
        self._library = library
        self._streams = LiveStreams()

    def close(self) -> None:
        """End all streams; for the thread of the event loop that they are in."""
        self._streams.close()

    def live(self, parameters: Mapping[str, str]) -> Any:
        """Return what a run is playing now, or why that is not known."""
        try:
            listing = list_live(self._folder(parameters.get("run", "")))
        except NotWatchable as error:
            return {"live": None, "episodes": [], "problem": str(error)}
        return {
            "live": listing.live,
            "episodes": [msgspec.to_builtins(it) for it in listing.episodes],
            "problem": "",
        }

    async def watch(self, request: Request) -> Response:
        """Return what is seen of an episode as lines of JSON, for as long as it is played."""
        run, episode_id = (request.query_params.get(name, "") for name in ("run", "id"))
        stack = AsyncExitStack()
        try:
            folder = await run_in_threadpool(self._folder, run)
            if not episode_id:
                raise UsageError("the address has no episode id")
            pieces = await stack.enter_async_context(self._streams.follow(folder, episode_id))
        except (NotPlayed, NotWatchable) as error:
            # Who opens the address later finds the record.
            if await run_in_threadpool(self._is_recorded, run, episode_id):
                return Response(_line({"ended": "recorded"}), media_type=_LINES)
            return _refusal(error, 404)
        except (OrchestratorError, OSError) as error:
            return _refusal(error, 404 if isinstance(error, RunNotFound) else 400)
        return StreamingResponse(_lines(stack, pieces), media_type=_LINES)

    def _folder(self, run: str) -> Path:
        folders = self._library.folders()
        if run not in folders:
            raise RunNotFound(Path(run), valid=list(folders)[:5])
        return folders[run]

    def _is_recorded(self, run: str, episode_id: str) -> bool:
        try:
            return self._library.open(run).episode(episode_id).episode_id == episode_id
        except OrchestratorError:
            return False


def live_since(folder: Path) -> Sequence[int]:
    """Return when the episodes began that a run is playing, in Unix milliseconds.

    Empty where the run is not played on this machine, or does not tell.
    """
    if read_writer(folder) is None:
        return ()
    try:
        return list_live(folder).started_unix_ms
    except NotWatchable:
        return ()


async def _lines(
    stack: AsyncExitStack, pieces: AsyncGenerator[dict[str, Any]]
) -> AsyncGenerator[bytes]:
    async with stack:
        try:
            async for piece in pieces:
                yield _line({**piece, "now_unix_ms": int(time.time() * 1000)})
        except NotWatchable as error:
            yield _line({"ended": "lost", "problem": str(error)})


def _line(content: Mapping[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)


def _refusal(error: Exception, status: int) -> Response:
    return Response(orjson.dumps({"error": str(error)}), status, media_type="application/json")
