"""OpenEnv's shape: a WebSocket session per episode, JSON messages validated by pydantic.

Server settings, as the original's: FastAPI under `uvicorn[standard]` (uvloop, httptools, the
websockets implementation that uvicorn chooses), one worker, per-message deflate on (the default
of both sides), each session's synchronous environment in a thread of its own. `--tuned` runs the
environment on the event loop, without compression and with orjson; the client option
`tuned` goes with it.

Messages: {"type": "reset" | "step" | "close", "data": {...}} up,
{"type": "observation" | "error", "data": {...}} down.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal

import orjson
import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from websockets.asyncio.client import ClientConnection, connect

from benchmark.baselines.entry import read_arguments
from benchmark.baselines.game import Game, Turn, open_games
from benchmark.drive import Target, open_each

__all__ = ["WebSocketClient", "make_app"]

MAX_MESSAGE_BYTES: Final = 100 * 1024 * 1024


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ResetMessage(_Strict):
    """Starts the session's episode."""

    type: Literal["reset"] = "reset"
    data: dict[str, Any] = Field(default_factory=dict)


class StepMessage(_Strict):
    """One action."""

    type: Literal["step"] = "step"
    data: dict[str, Any]


class Action(_Strict):
    """The `data` of a step."""

    action: str


class Observation(_Strict):
    """The environment's answer as a model, before it becomes a message."""

    observation: str
    reward: float
    done: bool


class ObservationMessage(BaseModel):
    """Answers a reset or a step."""

    type: Literal["observation"] = "observation"
    data: dict[str, Any]


class ErrorMessage(BaseModel):
    """Answers what could not be read."""

    type: Literal["error"] = "error"
    data: dict[str, Any]


class _Session:
    """One connection's episode, played in a thread of its own."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._thread = ThreadPoolExecutor(max_workers=1)

    async def answer(self, text: str) -> str:
        try:
            message = json.loads(text)
            if message.get("type") == "reset":
                reset = ResetMessage(**message)
                turn = await self._run(self._game.reset, int(reset.data.get("index", 0)))
            else:
                step = StepMessage(**message)
                turn = await self._run(self._game.step, Action(**step.data).action)
        except (ValidationError, ValueError) as error:
            return ErrorMessage(data={"message": str(error)}).model_dump_json()
        seen = Observation(observation=turn.observation, reward=turn.reward, done=turn.done)
        body = seen.model_dump(exclude={"reward", "done"})
        data = {"observation": body, "reward": seen.reward, "done": seen.done}
        return ObservationMessage(data=data).model_dump_json()

    async def _run(self, call: Callable[[Any], Turn], argument: object) -> Turn:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, argument)

    def close(self) -> None:
        self._thread.shutdown(wait=False)


class _TunedSession:
    """The same protocol with the least work: inline, orjson, validation by hand."""

    def __init__(self, game: Game) -> None:
        self._game = game

    async def answer(self, text: str) -> str:
        try:
            message = orjson.loads(text)
            data = message["data"]
            if message["type"] == "reset":
                turn = self._game.reset(int(data["index"]))
            else:
                turn = self._game.step(str(data["action"]))
        except (KeyError, TypeError, ValueError) as error:
            return orjson.dumps({"type": "error", "data": {"message": str(error)}}).decode()
        observation, reward, done = turn
        data = {"observation": {"observation": observation}, "reward": reward, "done": done}
        return orjson.dumps({"type": "observation", "data": data}).decode()

    def close(self) -> None:
        pass


def make_app(environment: str, *, tuned: bool = False) -> FastAPI:
    """The application: one WebSocket route, /ws; a session lives as long as its connection."""
    app, make_game = FastAPI(), open_games(environment)

    @app.websocket("/ws")
    async def play(websocket: WebSocket) -> None:
        await websocket.accept()
        session = _TunedSession(make_game()) if tuned else _Session(make_game())
        try:
            while True:
                await websocket.send_text(await session.answer(await websocket.receive_text()))
        except WebSocketDisconnect:
            pass
        finally:
            session.close()

    return app


class WebSocketClient:
    """A connection per episode; each step is one text message each way."""

    def __init__(self, target: Target, *, tuned: bool = False) -> None:
        self._url = f"ws://{target.address}/ws"
        self._timeout = target.request_timeout_s
        self._compression = None if tuned else "deflate"
        self._write = _orjson_text if tuned else json.dumps
        self._read: Callable[[str], Any] = orjson.loads if tuned else json.loads
        self._connections: dict[int, ClientConnection] = {}

    async def _ask(self, episode: int, kind: str, data: dict[str, Any]) -> str:
        connection = self._connections[episode]
        await connection.send(self._write({"type": kind, "data": data}))
        # The original bounds the wait for every answer, too.
        answer = await asyncio.wait_for(connection.recv(decode=True), self._timeout)
        message = self._read(answer)
        if message["type"] == "error":
            raise ValueError(message["data"]["message"])
        return message["data"]["observation"]["observation"]

    async def open(self, episodes: int) -> None:
        """Connect and reset every episode."""
        await open_each(episodes, self._open_one)

    async def _open_one(self, episode: int) -> None:
        self._connections[episode] = await connect(
            self._url, compression=self._compression, max_size=MAX_MESSAGE_BYTES, proxy=None
        )
        await self._ask(episode, "reset", {"index": episode})

    async def step(self, episode: int, action: str) -> str:
        """One message each way."""
        return await self._ask(episode, "step", {"action": action})

    async def close(self) -> None:
        """Drop all connections, without the closing handshake: nothing is measured any more."""
        for connection in self._connections.values():
            connection.transport.abort()


def _orjson_text(message: object) -> str:
    return orjson.dumps(message).decode()


def main() -> None:
    """Serve until the process is ended."""
    arguments = read_arguments(__doc__)
    uvicorn.run(
        make_app(arguments.environment, tuned=arguments.tuned),
        port=arguments.port,
        loop="uvloop",
        http="httptools",
        ws="auto",
        ws_per_message_deflate=not arguments.tuned,
        ws_max_size=MAX_MESSAGE_BYTES,
        log_level="warning",
        access_log=False,
        backlog=4096,
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()
