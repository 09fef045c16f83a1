"""From a stream's commands to its answers: the hot path, and who handles everything else.

Steps of inline environments are executed where they are read, without a task switch; whatever takes
time runs in a task and is answered when it is done. Every command gets exactly one event that
answers it, whatever happens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator, Mapping

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk.images import bytes_of
from env_servers.server import errors
from env_servers.server.admission import AdmissionController
from env_servers.server.config import ServerLimits
from env_servers.server.episode import Episode
from env_servers.server.errors import CommandError
from env_servers.server.events import Answer, Deferred, WriteAnswer, write_error, write_result
from env_servers.server.in_flight import BackgroundTasks
from env_servers.server.opening import EpisodeOpener
from env_servers.server.parsing import CONTROL_BODIES, STEP_BODIES, CommandParser
from env_servers.server.runners import Host, boundary
from env_servers.server.stream import Stream
from env_servers.server.table import EpisodeTable
from env_servers.server.tracing import EpisodeTracing
from env_servers.server.verbs import EpisodeVerbs

__all__ = ["CommandHandler"]

_MAX_TURN = 1024
"""Commands that one stream may have handled before the others get their turn; 10 to 40 ms. One
message of 3,000,000 cheap steps once kept everybody else out for 38 s."""


class CommandHandler:
    """Answers the commands of all streams of one server."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        limits: ServerLimits,
        admission: AdmissionController,
        tracing: EpisodeTracing | None = None,
    ) -> None:
        self.hosts = hosts
        self.limits = limits
        self.table = EpisodeTable(
            admission,
            idle_limit=limits.idle_limit,
            pressure_idle=limits.pressure_idle,
            journal_replayable=any(host.spec.deterministic for host in hosts.values()),
            tracing=tracing,
        )
        self._budget = admission.budget
        self.background = BackgroundTasks()
        self._parser = CommandParser(hosts, limits)
        self._opener = EpisodeOpener(hosts, limits, self.table, self._parser, self.background)
        self._verbs = EpisodeVerbs(hosts, self.table, self._parser, self.background)

    # ------------------------------------------------------------------ the hot path

    async def handle_message(self, stream: Stream, request: pb.InteractRequest) -> None:
        """Take and answer a message's commands, however many, without keeping other streams out.

        What a message may ask for is far larger than itself (an attach of 7 bytes can be answered
        by 16 MiB), so the answers are sent before more of it is handled.
        """
        while not stream.account.has_room():
            await stream.account.wait_for_room()
        remaining = iter(request.commands)
        while not self.handle(stream, remaining):
            if not stream.unhandled_bytes:
                stream.unhandled_bytes = request.ByteSize()
            await stream.flush()
            await asyncio.sleep(0)  # a flush with nothing to wait for does not yield by itself
        stream.unhandled_bytes = 0
        if self._budget.held > self._budget.limit:
            self.table.shrink()
        await stream.flush()

    def handle(self, stream: Stream, commands: Iterator[pb.Command]) -> bool:
        """Take commands until there is none left or the stream's turn is over.

        Answers appear in the stream's outbox.

        Returns:
            Whether all commands were taken; call again after a flush where not.
        """
        find, tracing = self.table.episodes.get, self.table.tracing
        now = time.monotonic()
        for taken, command in enumerate(commands, start=1):
            episode = find(command.episode_id)
            body = command.WhichOneof("body")
            if (
                episode is not None
                and episode.steps_inline
                and command.seq == episode.seq + 1
                and body in STEP_BODIES
                and (episode.stream is stream or episode.owner == stream.owner)
            ):
                if episode.stream is not stream:
                    episode.attach(stream)
                if tracing is None:
                    self._step_inline(stream, episode, command, body, now)
                else:
                    with tracing.step(episode, command.seq, stream.trace_context):
                        self._step_inline(stream, episode, command, body, now)
            else:
                self._dispatch(stream, command, body, now)
            if taken == _MAX_TURN or stream.backlogged:
                return False
        return True

    def _step_inline(
        self, stream: Stream, episode: Episode, command: pb.Command, body: str, now: float
    ) -> None:
        """Execute an inline step and write its event in place."""
        executing = False
        try:
            step_input = self._parser.step_input(command, body, episode.reset)
            executing = True
            result = episode.runner.step_now(step_input)
        except CommandError as error:
            episode.touch(now)
            if executing and episode.runner.instance is None:
                # It held everybody up and was moved to a worker, where it may take its time.
                self._dispatch(stream, command, body, now)
                return
            if executing:
                self.table.fail(episode, error)
            write_error(stream.event(), command.episode_id, command.seq, error)
            return
        # By index: `result.observation.text` costs the hot path two attribute look-ups.
        event = stream.event(len(result[0][0]))
        if result[0][7]:
            stream.add_bytes(bytes_of(result[0][7]))
        try:
            write_result(event, episode.episode_id, episode.seq + 1, result)
        except (TypeError, ValueError, AttributeError) as unwritable:
            # The environment returned something that no protobuf field holds.
            error = errors.crashed(episode.reset.environment, unwritable)
            self.table.fail(episode, error)
            event.Clear()
            write_error(event, command.episode_id, command.seq, error)
        else:
            episode.commit(step_input, result, now)

    # ------------------------------------------------------------------ everything else

    def _dispatch(self, stream: Stream, command: pb.Command, body: str | None, now: float) -> None:
        """Answer a command now where that is possible, else start the task that will."""
        if stream.out_of_credits and body not in CONTROL_BODIES:
            error = errors.credits_exceeded(stream.max_in_flight)
            write_error(stream.event(), command.episode_id, command.seq, error)
            return
        try:
            with boundary("server"):
                answer = self._answer(stream, command, body, now)
        except CommandError as error:
            write_error(stream.event(), command.episode_id, command.seq, error)
            return
        if isinstance(answer, Deferred):
            stream.spawn(self._write_later(stream, command.episode_id, command.seq, answer.outcome))
        else:
            self._write(stream, command.episode_id, command.seq, answer)

    def _answer(self, stream: Stream, command: pb.Command, body: str | None, now: float) -> Answer:
        """Return the answer to a command, or what will give it; raises CommandError."""
        match body:
            case "reset":
                return self._opener.reset(stream, command)
            case "fork":
                return self._opener.fork(stream, command)
            case "close":
                return self._verbs.close(stream, command)
            case None:
                raise errors.unsupported_verb()
            case _:
                pass
        pending = self.table.own_opening(command.episode_id, stream.owner)
        if pending is not None and body == "cancel":
            return self._verbs.cancel_open(pending, command)
        episode = self.table.find(command.episode_id, stream.owner)
        episode.touch(now)
        if episode.stream is not stream:
            episode.attach(stream)
        if body in STEP_BODIES:
            return self._verbs.step(stream, episode, command, body)
        return self._dispatch_control(stream, episode, command, body)

    def _dispatch_control(
        self, stream: Stream, episode: Episode, command: pb.Command, body: str
    ) -> Answer:
        """Return the answer to a verb that does not move its episode."""
        match body:
            case "attach":
                return self._verbs.attach(stream, episode, command)
            case "consult":
                return self._verbs.consult(episode, command)
            case "cancel":
                return self._verbs.cancel(episode, command)
            case _:
                return self._verbs.heartbeat(episode)

    async def _write_later(
        self, stream: Stream, episode_id: str, seq: int, outcome: Awaitable[WriteAnswer]
    ) -> None:
        try:
            with boundary("server"):
                write = await outcome
        except CommandError as error:
            write_error(stream.event(), episode_id, seq, error)
        else:
            self._write(stream, episode_id, seq, write)

    def _write(self, stream: Stream, episode_id: str, seq: int, write: WriteAnswer) -> None:
        event = stream.event()
        event.episode_id = episode_id
        event.seq = seq
        try:
            with boundary("server"):
                write(event)
        except CommandError as error:
            event.Clear()
            write_error(event, episode_id, seq, error)
        stream.add_bytes(event.ByteSize())

    async def render(self, episode_id: str, owner: str) -> pb.RenderResponse:
        """Draw the state of a client's episode; raises CommandError."""
        with boundary("server"):
            return await self._verbs.render(episode_id, owner)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """End every episode and whatever is being opened or executed."""
        self.table.close()
        self.background.cancel()
