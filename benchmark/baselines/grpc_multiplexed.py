"""Bare coalesced gRPC: one stream for all episodes, the contract's messages, no runtime.

`InteractRequest` up and `InteractResponse` down, at most MAX_ITEMS a message; the client writes
when its event loop has run everything that was ready, the server answers each message with one.
Both sides `grpc.aio` on uvloop. No response cache, leases, hashes, deadlines or limits: what is
lost against this figure is what the runtime costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio

from agentgym.env.v1 import environment_pb2 as pb
from benchmark.baselines.entry import ServerArguments, read_arguments, run_server
from benchmark.baselines.game import Game, open_games
from benchmark.baselines.grpc_stream import (
    CHANNEL_OPTIONS,
    SERVER_OPTIONS,
    SERVICE,
    play_command,
    write_event,
)
from benchmark.drive import Target

__all__ = ["MultiplexedClient", "serve"]

METHOD: Final = "Interact"
MAX_ITEMS: Final = 128
"""Commands a message holds at most; measured best between 64 and 128."""


async def serve(arguments: ServerArguments) -> None:
    """Serve until cancelled."""
    make_game = open_games(arguments.environment)

    async def interact(
        requests: AsyncIterator[pb.InteractRequest], _context: Any
    ) -> AsyncIterator[pb.InteractResponse]:
        games: dict[str, Game] = {}
        async for request in requests:
            response = pb.InteractResponse()
            add = response.events.add
            for command in request.commands:
                game = games.get(command.episode_id)
                if game is None:
                    game = games[command.episode_id] = make_game()
                write_event(add(), command, play_command(command, game))
            yield response

    handler = grpc.stream_stream_rpc_method_handler(
        interact,
        request_deserializer=pb.InteractRequest.FromString,
        response_serializer=pb.InteractResponse.SerializeToString,
    )
    server = grpc.aio.server(options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
    )
    server.add_insecure_port(f"127.0.0.1:{arguments.port}")
    await server.start()
    await server.wait_for_termination()


class MultiplexedClient:
    """All episodes on one stream."""

    def __init__(self, target: Target) -> None:
        self._channel = grpc.aio.insecure_channel(target.address, options=CHANNEL_OPTIONS)
        self._interact: Any = self._channel.stream_stream(
            f"/{SERVICE}/{METHOD}",
            request_serializer=pb.InteractRequest.SerializeToString,
            response_deserializer=pb.InteractResponse.FromString,
        )
        self._seqs: list[int] = []
        self._ids: list[str] = []
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._ready: list[tuple[int, str | None]] = []
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, episodes: int) -> None:
        """Open the stream and reset every episode."""
        self._loop = asyncio.get_running_loop()
        self._seqs = [-1] * episodes
        self._ids = [f"e{episode}" for episode in range(episodes)]
        call = self._interact()
        self._tasks = [
            asyncio.create_task(self._write(call)),
            asyncio.create_task(self._read(call)),
        ]
        await asyncio.gather(*(self._ask(episode, None) for episode in range(episodes)))

    def _ask(self, episode: int, action: str | None) -> asyncio.Future[str]:
        self._ready.append((episode, action))
        self._waiting[self._ids[episode]] = future = self._loop.create_future()
        self._wake.set()
        return future

    async def _write(self, call: Any) -> None:
        while await self._wake.wait():
            self._wake.clear()
            while self._ready:
                batch, self._ready = self._ready[:MAX_ITEMS], self._ready[MAX_ITEMS:]
                await call.write(self._request(batch))

    def _request(self, batch: list[tuple[int, str | None]]) -> pb.InteractRequest:
        request = pb.InteractRequest()
        add, seqs = request.commands.add, self._seqs
        for episode, action in batch:
            seqs[episode] = seq = seqs[episode] + 1
            command = add(episode_id=self._ids[episode], seq=seq)
            if action is None:
                command.reset.item_id = str(episode)
            else:
                command.action = action
        return request

    async def _read(self, call: Any) -> None:
        try:
            async for response in call:
                for event in response.events:
                    future = self._waiting.pop(event.episode_id)
                    # A cancelled step leaves its future behind; its answer is nobody's.
                    if not future.done():
                        future.set_result(event.observation)
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionResetError("the stream ended"))

    async def step(self, episode: int, action: str) -> str:
        """One command and one event."""
        return await self._ask(episode, action)

    async def close(self) -> None:
        """End the stream at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close(grace=None)


if __name__ == "__main__":
    run_server(serve(read_arguments(__doc__)))
