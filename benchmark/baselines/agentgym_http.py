"""AgentGym's shape: one HTTP/JSON request a step, FastAPI and uvicorn, environments by id.

Server settings, as the original's installation gives them: one uvicorn worker, asyncio loop, h11,
`def` handlers in the thread pool (40 threads). In its favour: no access log. `--tuned` is the
best of this shape: uvloop, httptools, `async def` handlers on the event loop.

Clients: `RequestsClient`, the original's own way (a thread per episode, `requests.post` without a
session, hence a connection per call, connect and read timeout 300 s or the plan's); and
`AiohttpClient`, one session with kept connections and no limit on their number.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import aiohttp
import requests
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmark.baselines.entry import read_arguments
from benchmark.baselines.game import Game, open_games
from benchmark.drive import OPENING_AT_ONCE, ClosedLoop, Tally, Target, open_each

__all__ = ["AiohttpClient", "RequestsClient", "make_app"]

MAX_THREADS: Final = 2_048
"""More episodes than this are refused: the client would measure thread switching only."""
STACK_BYTES: Final = 512 * 1024
JOIN_S: Final = 2.0
"""Wait for threads after the window; those left are daemons and end with the process."""


class ResetBody(BaseModel):
    """Body of /reset."""

    id: int
    data_idx: int = 0


class StepBody(BaseModel):
    """Body of /step."""

    id: int
    action: str


class _Table:
    """Live environments by id. Like the original's it only ever grows."""

    def __init__(self, make_game: Callable[[], Game]) -> None:
        self._make_game = make_game
        self._ids = itertools.count()
        self._games: dict[int, Game] = {}

    def create(self) -> dict[str, Any]:
        number = next(self._ids)
        self._games[number] = self._make_game()
        return {"id": number}

    def reset(self, body: ResetBody) -> dict[str, Any]:
        game = self._games.get(body.id)
        if game is None:
            return {"error": f"no environment {body.id}"}
        observation, reward, done = game.reset(body.data_idx)
        return {"observation": observation, "reward": reward, "done": done}

    def step(self, body: StepBody) -> dict[str, Any]:
        game = self._games.get(body.id)
        if game is None:
            return {"error": f"no environment {body.id}"}
        observation, reward, done = game.step(body.action)
        return {"observation": observation, "reward": reward, "done": done}


def make_app(environment: str, *, tuned: bool = False) -> FastAPI:
    """The application: POST /create, /reset and /step; domain errors are 200 with `error`."""
    app, table = FastAPI(), _Table(open_games(environment))

    def create() -> dict[str, Any]:
        return table.create()

    def reset(body: ResetBody) -> dict[str, Any]:
        return table.reset(body)

    def step(body: StepBody) -> dict[str, Any]:
        return table.step(body)

    async def create_inline() -> dict[str, Any]:
        return table.create()

    async def reset_inline(body: ResetBody) -> dict[str, Any]:
        return table.reset(body)

    async def step_inline(body: StepBody) -> dict[str, Any]:
        return table.step(body)

    app.post("/create")(create_inline if tuned else create)
    app.post("/reset")(reset_inline if tuned else reset)
    app.post("/step")(step_inline if tuned else step)
    return app


class RequestsClient:
    """A thread per episode and a new connection per call."""

    def __init__(self, target: Target) -> None:
        self._base = f"http://{target.address}"
        self._timeout = min(300.0, target.request_timeout_s)
        self._ids: list[int] = []
        self._threads: list[threading.Thread] = []
        self._tallies: list[Tally] = []
        self._go = threading.Event()
        self._loop: ClosedLoop | None = None

    def _post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = requests.post(f"{self._base}/{path}", json=body, timeout=self._timeout)
        response.raise_for_status()
        return response.json()

    def _open_one(self, episode: int) -> int:
        number = self._post("create", {})["id"]
        self._post("reset", {"id": number, "data_idx": episode})
        return number

    async def open(self, episodes: int) -> None:
        """Reset the episodes and start their threads, which wait for the loop."""
        if episodes > MAX_THREADS:
            raise ValueError(f"{episodes} threads are more than {MAX_THREADS}")
        await asyncio.to_thread(self._open_all, episodes)

    def _open_all(self, episodes: int) -> None:
        with ThreadPoolExecutor(OPENING_AT_ONCE) as pool:
            self._ids = list(pool.map(self._open_one, range(episodes)))
        self._tallies = [Tally() for _ in range(episodes)]
        before = threading.stack_size(STACK_BYTES)
        for episode in range(episodes):
            thread = threading.Thread(target=self._play, args=(episode,), daemon=True)
            self._threads.append(thread)
            thread.start()
        threading.stack_size(before)

    def _play(self, episode: int) -> None:
        number = self._ids[episode]

        def step(action: str) -> str:
            return self._post("step", {"id": number, "action": action})["observation"]

        self._go.wait()
        if self._loop is not None:
            self._loop.play(episode, step, self._tallies[episode])

    async def run_closed_loop(self, loop: ClosedLoop) -> Tally:
        """Release the threads and add up what those that end in time have seen."""
        return await asyncio.to_thread(self._run, loop)

    def _run(self, loop: ClosedLoop) -> Tally:
        self._loop = loop
        self._go.set()
        for thread in self._threads:
            thread.join(max(0.0, loop.window.end + JOIN_S - time.monotonic()))
        total = Tally()
        for tally in self._tallies:
            total.add(tally)
        return total

    async def close(self) -> None:
        """Let threads that never ran end."""
        self._go.set()


class AiohttpClient:
    """One session, kept connections, a coroutine per episode."""

    def __init__(self, target: Target) -> None:
        self._base = f"http://{target.address}"
        self._timeout = aiohttp.ClientTimeout(total=target.request_timeout_s)
        self._ids: dict[int, int] = {}
        self._session: aiohttp.ClientSession | None = None

    async def _post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self._session is not None, "open() comes first"
        async with self._session.post(f"{self._base}/{path}", json=body) as response:
            response.raise_for_status()
            return await response.json()

    async def open(self, episodes: int) -> None:
        """Create and reset the episodes."""
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        await open_each(episodes, self._open_one)

    async def _open_one(self, episode: int) -> None:
        self._ids[episode] = number = (await self._post("create", {}))["id"]
        await self._post("reset", {"id": number, "data_idx": episode})

    async def step(self, episode: int, action: str) -> str:
        """One POST /step."""
        reply = await self._post("step", {"id": self._ids[episode], "action": action})
        return reply["observation"]

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


def main() -> None:
    """Serve until the process is ended."""
    arguments = read_arguments(__doc__)
    uvicorn.run(
        make_app(arguments.environment, tuned=arguments.tuned),
        port=arguments.port,
        loop="uvloop" if arguments.tuned else "asyncio",
        http="httptools" if arguments.tuned else "h11",
        log_level="warning",
        access_log=False,
        backlog=4096,
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()
