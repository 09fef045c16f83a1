"""What checks work with: stubs of a target, its description, fresh names and tasks.

The harness closes every stream and episode that a check opened. Actions that any environment takes
seriously come from the environment's own scripted players.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator
from typing import Any, Final, Self

import grpc
import grpc.aio

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc
from env_servers.conformance.stream_client import StreamClient
from env_servers.conformance.target import Target
from env_servers.conformance.verdicts import (
    NotApplicable,
    Violation,
    expect,
    expect_error,
    expect_observation,
)

__all__ = ["MAX_PROBED_EPISODES", "Harness", "NotApplicable", "Play", "Violation"]

MAX_PROBED_EPISODES: Final = 64
"""So many a check opens to see that there is a limit."""


class Harness:
    """One target under test."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.environment = target.environment
        self._streams: list[StreamClient] = []
        self._ids: list[str] = []
        self._waits: bool | None = None
        """Steps execute away from the stream's reader; None = not known yet."""

    async def __aenter__(self) -> Self:
        """Connect; raises grpc.aio.AioRpcError."""
        self.channel = self.target.channel()
        self.stub: environment_pb2_grpc.EnvironmentServiceAsyncStub = (
            environment_pb2_grpc.EnvironmentServiceStub(self.channel)
        )
        self.described = await self.stub.GetEnvironment(
            pb.GetEnvironmentRequest(environment=self.environment),
            timeout=self.target.timeout,
            wait_for_ready=True,
            metadata=self.target.metadata(),
        )
        split = self.described.splits[0].name
        page = await self.stub.ListTasks(
            pb.ListTasksRequest(environment=self.environment, split=split, page_size=4),
            timeout=self.target.timeout,
            metadata=self.target.metadata(),
        )
        self.split = split
        self.items = [task.item_id for task in page.tasks]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close(None)

    @property
    def is_echo(self) -> bool:
        """The target's environment is echo, with its options."""
        return self.described.name == "echo"

    @property
    def deterministic(self) -> bool:
        """Journals rebuild its episodes."""
        return pb.CAPABILITY_DETERMINISTIC in self.described.capabilities

    def require_echo(self) -> None:
        """Raise NotApplicable on environments without echo's options."""
        if not self.is_echo:
            raise NotApplicable(
                "needs the options of the environment `echo`: check the server with it, too"
            )

    def require(self, capability: pb.Capability) -> None:
        """Raise NotApplicable where the environment lacks a capability."""
        if capability not in self.described.capabilities:
            name = pb.Capability.Name(capability).removeprefix("CAPABILITY_")
            raise NotApplicable(f"the environment lacks the capability {name}")

    def length(self, steps: int) -> dict[str, Any]:
        """Options for an episode of so many steps (0 = endless), where they can be chosen."""
        return {"length": steps} if self.is_echo else {}

    async def require_observable_steps(self) -> None:
        """Raise NotApplicable where a slow step cannot be watched while it executes."""
        self.require_echo()
        if self._waits is None:
            play = await self.play(sleep_ms=400)
            await play.stream.send(play.command(1, action="slowly"))
            second_stream = await self.open_stream()
            event = await second_stream.ask(play.command(9, attach=pb.Attach(last_seq_seen=0)))
            self._waits = event.attached.in_flight
        if not self._waits:
            raise NotApplicable(
                "the server executes echo inline: steps are done at once. Ours is started with "
                "`--execution echo=process` for these checks"
            )

    def fresh_id(self) -> str:
        """An episode id that nobody else uses; closed after the check."""
        self._ids.append(f"conformance-{secrets.token_hex(8)}")
        return self._ids[-1]

    async def open_stream(self, *, credits_first: bool = True, token: str = "") -> StreamClient:
        """A new stream; takes its Credits unless they are to be looked at.

        `token` is another client's.
        """
        stream = StreamClient(
            self.stub.Interact(metadata=self.target.metadata(token)), self.target.timeout
        )
        self._streams.append(stream)
        if credits_first:
            await stream.take(lambda event: event.HasField("credits"), "the Credits event")
        return stream

    async def open_raw_stream(self) -> StreamClient:
        """A new stream that takes bytes instead of messages."""
        method: Any = self.channel.stream_stream(
            "/agentgym.env.v1.EnvironmentService/Interact",
            request_serializer=bytes,
            response_deserializer=pb.InteractResponse.FromString,
        )
        stream = StreamClient(method(metadata=self.target.metadata()), self.target.timeout)
        self._streams.append(stream)
        return stream

    def reset(self, episode_id: str = "", **options: Any) -> pb.Command:
        """A reset of the first task; keyword arguments are options of the environment."""
        reset = pb.Reset(environment=self.environment, item_id=self.items[0])
        if options:
            reset.options.update(options)
        return pb.Command(episode_id=episode_id or self.fresh_id(), reset=reset)

    async def play(self, stream: StreamClient | None = None, **options: Any) -> Play:
        """A fresh episode at seq 0."""
        play = Play(self, stream or await self.open_stream(), self.fresh_id())
        await play.open(self.reset(play.episode_id, **options))
        return play

    @contextlib.asynccontextmanager
    async def cleanup(self) -> AsyncGenerator[Self]:
        """Whatever a check opens in here is closed afterwards."""
        try:
            yield self
        finally:
            for stream in self._streams:
                await stream.drop()
            self._streams.clear()
            ids, self._ids = self._ids, []
            for episode_id in ids:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await self.stub.Close(
                        pb.CloseRequest(command=pb.Command(episode_id=episode_id)),
                        timeout=self.target.timeout,
                        metadata=self.target.metadata(),
                    )

    async def summary(self, episode_id: str, *, token: str = "") -> pb.EpisodeSummary | None:
        """What ListEpisodes says of an episode; None = it is not live, or another client's.

        `token` is that of another client, who asks.
        """
        page_token = ""
        while True:
            page = await self.stub.ListEpisodes(
                pb.ListEpisodesRequest(page_size=1000, page_token=page_token),
                timeout=self.target.timeout,
                metadata=self.target.metadata(token),
            )
            for episode in page.episodes:
                if episode.episode_id == episode_id:
                    return episode
            page_token = page.next_page_token
            if not page_token:
                return None


class Play:
    """One episode as its client sees it."""

    def __init__(self, harness: Harness, stream: StreamClient, episode_id: str) -> None:
        self.harness = harness
        self.stream = stream
        self.episode_id = episode_id
        self.open_command = pb.Command()
        self.events: list[pb.Event] = []
        """By seq."""
        self.actions: list[str] = []

    @property
    def seq(self) -> int:
        """The current state."""
        return len(self.events) - 1

    async def open(self, command: pb.Command) -> pb.Event:
        """Send the reset or fork and take its observation."""
        self.open_command = command
        event = expect_observation(await self.stream.ask(command), replayed=False)
        self.events.append(event)
        return event

    def command(self, seq: int | None = None, **body: Any) -> pb.Command:
        """A command of this episode, by default at its current state."""
        return pb.Command(
            episode_id=self.episode_id, seq=max(self.seq, 0) if seq is None else seq, **body
        )

    async def ask(self, seq: int | None = None, **body: Any) -> pb.Event:
        """Send a command of this episode and take its answer."""
        return await self.stream.ask(self.command(seq, **body))

    async def step(self, action: str = "", seq: int | None = None) -> pb.Event:
        """The next step, which must succeed; by default with an action of a scripted player."""
        next_action = action or await self.advised()
        event = expect_observation(await self.ask(seq or self.seq + 1, action=next_action))
        self.events.append(event)
        self.actions.append(next_action)
        return event

    async def steps(self, count: int) -> None:
        """So many steps, or until the episode ends."""
        for _ in range(count):
            if self.ended:
                return
            await self.step()

    @property
    def ended(self) -> bool:
        """It takes no more steps."""
        return self.events[-1].terminated or self.events[-1].truncated

    async def advised(self) -> str:
        """An action that a scripted player of the environment would take now."""
        if self.harness.is_echo:
            return f"say {self.seq + 1}"
        event = await self.ask(consult=pb.Consult(advisor=pb.ADVISOR_RANDOM, seed=self.seq))
        if event.HasField("error"):
            event = await self.ask(consult=pb.Consult(advisor=pb.ADVISOR_EXPERT))
        if event.HasField("error"):
            raise NotApplicable("the environment has no scripted player that could act")
        return event.advice.action

    async def refused(self, reason: str, *keys: str, **body: Any) -> dict[str, str]:
        """Send a command that must be refused; the error's metadata."""
        seq = body.pop("seq", None)
        return expect_error(await self.ask(seq, **body), reason, *keys)

    async def must_be_at(self, seq: int) -> None:
        """Raise Violation unless the server says so."""
        event = await self.ask(attach=pb.Attach(last_seq_seen=seq))
        expect(event.HasField("attached"), f"{event.WhichOneof('body')} instead of attached")
        expect(
            event.attached.current_seq == seq,
            f"the episode is at seq {event.attached.current_seq}, expected {seq}",
        )
