"""Bare gRPC with a stream per episode: the contract's messages and nothing of the runtime.

One `Command` up, one `Event` down, on a bidirectional stream of generic handlers; all streams on
one channel, whose limit of concurrent streams the server raises. Both sides `grpc.aio` on uvloop.
The comparison for one episode's latency.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio

from agentgym.env.v1 import environment_pb2 as pb
from benchmark.baselines.entry import ServerArguments, read_arguments, run_server
from benchmark.baselines.game import Game, Turn, open_games
from benchmark.drive import Target, open_each

__all__ = ["StreamClient", "play_command", "serve", "write_event"]

SERVICE: Final = "agentgym.benchmark.Bare"
METHOD: Final = "Play"
MAX_STREAMS: Final = 1 << 20
SERVER_OPTIONS: Final = (
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.so_reuseport", 0),
)
# A channel of its own for every client object, never one shared behind the scenes.
CHANNEL_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))


def play_command(command: pb.Command, game: Game) -> Turn:
    """Apply a step or a reset; a reset's item id is the task's index."""
    if command.HasField("reset"):
        return game.reset(int(command.reset.item_id))
    return game.step(command.action)


def write_event(event: pb.Event, command: pb.Command, turn: Turn) -> None:
    """Fill the event that answers the command, as the runtime would for the same step."""
    event.episode_id = command.episode_id
    event.seq = command.seq
    event.observation, event.reward, event.terminated = turn


async def serve(arguments: ServerArguments) -> None:
    """Serve until cancelled."""
    make_game = open_games(arguments.environment)

    async def play(commands: AsyncIterator[pb.Command], _context: Any) -> AsyncIterator[pb.Event]:
        game = make_game()
        async for command in commands:
            event = pb.Event()
            write_event(event, command, play_command(command, game))
            yield event

    handler = grpc.stream_stream_rpc_method_handler(
        play,
        request_deserializer=pb.Command.FromString,
        response_serializer=pb.Event.SerializeToString,
    )
    server = grpc.aio.server(options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
    )
    server.add_insecure_port(f"127.0.0.1:{arguments.port}")
    await server.start()
    await server.wait_for_termination()


class StreamClient:
    """A stream per episode on one channel."""

    def __init__(self, target: Target) -> None:
        self._channel = grpc.aio.insecure_channel(target.address, options=CHANNEL_OPTIONS)
        self._play: Any = self._channel.stream_stream(
            f"/{SERVICE}/{METHOD}",
            request_serializer=pb.Command.SerializeToString,
            response_deserializer=pb.Event.FromString,
        )
        self._calls: dict[int, Any] = {}
        self._seqs: list[int] = []

    async def open(self, episodes: int) -> None:
        """Open a stream and reset, for every episode."""
        self._seqs = [0] * episodes
        await open_each(episodes, self._open_one)

    async def _open_one(self, episode: int) -> None:
        self._calls[episode] = call = self._play()
        reset = pb.Reset(item_id=str(episode))
        await call.write(pb.Command(episode_id=f"e{episode}", reset=reset))
        await call.read()

    async def step(self, episode: int, action: str) -> str:
        """One message each way."""
        self._seqs[episode] = seq = self._seqs[episode] + 1
        call = self._calls[episode]
        await call.write(pb.Command(episode_id=f"e{episode}", seq=seq, action=action))
        event = await call.read()
        if not isinstance(event, pb.Event):
            raise ConnectionResetError("the server ended the stream")
        return event.observation

    async def close(self) -> None:
        """End all streams at once."""
        await self._channel.close(grace=None)


if __name__ == "__main__":
    run_server(serve(read_arguments(__doc__)))
