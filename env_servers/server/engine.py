"""What commands mean: every verb of the protocol, over the live episodes of one server.

Owns the episode table. Steps of inline environments are executed where they are read, without a
task switch; everything else runs in a task and answers when it is done. Invariant: every command
gets exactly one event that answers it, whatever happens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog
from google.protobuf.json_format import MessageToDict

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import ActionFormat, Advisor
from env_servers.server.config import ServerLimits
from env_servers.server.episode import Admission, Episode, InFlight
from env_servers.server.errors import CommandError
from env_servers.server.events import fill_error, fill_result
from env_servers.server.live import Input, Opening, Result
from env_servers.server.runners import Host, InlineHost, Runner
from env_servers.server.seats import Seats
from env_servers.server.stream import Stream

__all__ = ["Engine", "read_input"]

log: structlog.stdlib.BoundLogger = structlog.get_logger("env_servers.engine")

Fill = Callable[[pb.Event], None]
"""Writes the body of the event that answers a command."""

_STEP_BODIES = frozenset({"action", "reply", "tool_call"})


def read_input(body: str | None, source: pb.Command | pb.ActionInput, default: int) -> Input:
    """A step's input from its fields; `default` is the episode's action format."""
    if body == "action":
        return source.action
    if body == "reply":
        return (source.action_format or default, source.reply)
    return (source.tool_call.name, source.tool_call.arguments_json)


class Engine:
    """The live episodes of one server and what may be done with them."""

    def __init__(self, hosts: Mapping[str, Host], limits: ServerLimits, seats: Seats) -> None:
        self.hosts = hosts
        self.limits = limits
        self.seats = seats
        self.episodes: dict[str, Episode] = {}
        self.draining = False
        self.cache_hits = 0
        self.reaped = 0
        self._opening: dict[str, tuple[object, asyncio.Task[Episode]]] = {}

    # ------------------------------------------------------------------ the hot path

    def handle(self, stream: Stream, commands: Iterable[pb.Command]) -> None:
        """Take a message's commands; answers appear in the stream's outbox."""
        find = self.episodes.get
        now = time.monotonic()
        for command in commands:
            body = command.WhichOneof("body")
            episode = find(command.episode_id)
            if (
                episode is not None
                and episode.runner.live is not None
                and body in _STEP_BODIES
                and command.seq == episode.seq + 1
                and not episode.ended
                and episode.failure is None
            ):
                episode.touched = now
                if episode.stream is not stream:
                    self._adopt(stream, episode)
                self._step_now(stream, episode, command, body)
            else:
                self._take(stream, command, body, now)

    def _step_now(
        self, stream: Stream, episode: Episode, command: pb.Command, body: str | None
    ) -> None:
        """Execute an inline step and write its event in place."""
        try:
            given = read_input(body, command, episode.opening.action_format)
            self._check_text(given)
            result = self._execute_inline(episode, given)
        except CommandError as error:
            fill_error(stream.event(), command.episode_id, command.seq, error)
            return
        episode.commit(given, result)
        event = stream.event(len(result.observation.text))
        fill_result(event, episode.episode_id, episode.seq, result)

    def _execute_inline(self, episode: Episode, given: Input) -> Result:
        host = self.hosts[episode.opening.environment]
        assert isinstance(host, InlineHost)
        live = episode.runner.live
        assert live is not None
        try:
            return host.step(live, given)
        except CommandError as error:
            self._fail(episode, error)
            raise

    # ------------------------------------------------------------------ everything else

    def _take(self, stream: Stream, command: pb.Command, body: str | None, now: float) -> None:
        """Answer a command now where that is possible, else start the task that will."""
        if stream.in_flight >= stream.max_in_flight:
            self._refuse_credit(stream, command)
            return
        try:
            fill = self._answer_now(stream, command, body, now)
        except CommandError as error:
            fill_error(stream.event(), command.episode_id, command.seq, error)
            return
        if isinstance(fill, Awaitable):
            stream.in_flight += 1
            stream.spawn(self._answer_later(stream, command.episode_id, command.seq, fill))
            return
        self._write(stream, command.episode_id, command.seq, fill)

    def _answer_now(
        self, stream: Stream, command: pb.Command, body: str | None, now: float
    ) -> Fill | Awaitable[Fill]:
        """The answer to a command, or what will give it; raises CommandError."""
        if body == "reset":
            return self._reset(stream, command)
        if body == "fork":
            return self._fork(stream, command)
        if body == "close":
            return self._close(command)
        if body is None:
            raise CommandError(
                pb.ERROR_REASON_UNSUPPORTED_VERB,
                "the command has no body that this server knows",
            )
        episode = self._find(command.episode_id)
        episode.touched = now
        if episode.stream is not stream:
            self._adopt(stream, episode)
        if body in _STEP_BODIES:
            return self._step(episode, command, body)
        if body == "attach":
            return self._attach(stream, episode, command)
        if body == "consult":
            return self._consult(episode, command)
        if body == "cancel":
            return self._cancel(episode, command)
        lease = int(episode.lease * 1000)
        return lambda event: event.lease_extended.CopyFrom(pb.LeaseExtended(lease_ms=lease))

    async def _answer_later(
        self, stream: Stream, episode_id: str, seq: int, work: Awaitable[Fill]
    ) -> None:
        try:
            fill = await work
        except CommandError as error:
            fill_error(stream.event(), episode_id, seq, error)
        else:
            self._write(stream, episode_id, seq, fill)
        finally:
            stream.in_flight -= 1
        await stream.flush()

    def _write(self, stream: Stream, episode_id: str, seq: int, fill: Fill) -> None:
        event = stream.event()
        event.episode_id = episode_id
        event.seq = seq
        fill(event)

    # ------------------------------------------------------------------ opening

    def _reset(self, stream: Stream, command: pb.Command) -> Awaitable[Fill]:
        reset = command.reset
        opening = self._read_opening(reset)
        journal = [
            read_input(entry.input.WhichOneof("input"), entry.input, opening.action_format)
            for entry in reset.journal
        ]
        if command.seq != len(journal):
            raise CommandError(
                pb.ERROR_REASON_INVALID_ARGUMENT,
                f"a reset opens at seq {len(journal)}, the number of its journal entries",
                field="seq",
            )
        for given in journal:
            self._check_text(given)
        hashes = [reset.initial_state_hash, *(entry.state_hash for entry in reset.journal)]
        existing = self.episodes.get(command.episode_id)
        if existing is not None and existing.origin == opening:
            return self._reopened(stream, existing, journal)
        host = self.hosts[opening.environment]
        lease = self._lease(reset.lease_ms)

        async def open_runner() -> tuple[Runner, list[Result]]:
            return await host.open(opening, journal, hashes)

        return self._open(stream, command.episode_id, opening, opening, journal, lease, open_runner)

    async def _reopened(self, stream: Stream, episode: Episode, journal: list[Input]) -> Fill:
        """The same opening again: the cached result, unless the journals contradict."""
        self._adopt(stream, episode)
        seq = len(journal)
        if episode.journal[:seq] != journal:
            raise CommandError(
                pb.ERROR_REASON_SEQ_CONFLICT,
                f"episode {episode.episode_id} is live with another journal",
            )
        result = episode.result(seq)
        self.cache_hits += 1
        return lambda event: fill_result(event, episode.episode_id, seq, result, replayed=True)

    def _fork(self, stream: Stream, command: pb.Command) -> Awaitable[Fill]:
        origin = ("fork", command.fork.from_episode_id, command.seq)
        existing = self.episodes.get(command.episode_id)
        if existing is not None and existing.origin == origin:
            return self._reopened(stream, existing, existing.journal[: command.seq])
        source = self._find(command.fork.from_episode_id)
        host = self.hosts[source.opening.environment]
        seq = command.seq
        if source.in_flight is not None:
            raise CommandError(
                pb.ERROR_REASON_EPISODE_BUSY,
                f"episode {source.episode_id} is executing seq {source.in_flight.seq}",
                in_flight=source.in_flight.seq,
            )
        if seq > source.seq:
            raise CommandError(
                pb.ERROR_REASON_SEQ_GAP,
                f"episode {source.episode_id} is at seq {source.seq}, it cannot be forked at {seq}",
                expected=source.seq,
            )
        journal, hashes = source.journal[:seq], source.hashes[: seq + 1]

        async def open_runner() -> tuple[Runner, list[Result]]:
            if seq == source.seq and source.failure is None:
                return await source.runner.fork(), [*source.cache][-1:]
            if not host.spec.deterministic:
                raise CommandError(
                    pb.ERROR_REASON_UNSUPPORTED_CAPABILITY,
                    f"{host.spec.name} is not deterministic: it forks only at its current state, "
                    f"seq {source.seq}",
                    capability="DETERMINISTIC",
                )
            return await host.open(source.opening, journal, hashes)

        lease = self._lease(command.fork.lease_ms)
        return self._open(
            stream, command.episode_id, source.opening, origin, journal, lease, open_runner, hashes
        )

    def _open(
        self,
        stream: Stream,
        episode_id: str,
        opening: Opening,
        origin: object,
        journal: list[Input],
        lease: float,
        open_runner: Callable[[], Awaitable[tuple[Runner, list[Result]]]],
        hashes: list[bytes] | None = None,
    ) -> Awaitable[Fill]:
        """Start opening an episode, or join the opening that is under way."""
        if not 1 <= len(episode_id.encode()) <= 128:
            raise CommandError(
                pb.ERROR_REASON_INVALID_ARGUMENT,
                "episode_id has 1 to 128 bytes",
                field="episode_id",
            )
        under_way = self._opening.get(episode_id)
        if under_way is not None and under_way[0] != (origin, journal):
            raise CommandError(
                pb.ERROR_REASON_EPISODE_BUSY, f"episode {episode_id} is being opened"
            )
        if episode_id in self.episodes:
            raise CommandError(
                pb.ERROR_REASON_SEQ_CONFLICT,
                f"episode {episode_id} is live and was opened otherwise",
            )
        if under_way is not None:
            return self._opened(stream, under_way[1], len(journal))
        self._check_admission(stream, opening.environment)

        async def create() -> Episode:
            try:
                runner, results = await open_runner()
            except BaseException:
                self.seats.release(opening.environment, stream.client)
                raise
            finally:
                del self._opening[episode_id]
            return self._install(
                Episode(
                    episode_id,
                    opening,
                    origin,
                    runner,
                    lease=lease,
                    cache_events=self.limits.cache_events,
                    now=time.monotonic(),
                ),
                stream.client,
                journal,
                results,
                hashes,
            )

        self.seats.take(opening.environment, stream.client)
        task = asyncio.create_task(create())
        self._opening[episode_id] = ((origin, journal), task)
        return self._opened(stream, task, len(journal))

    def _install(
        self,
        episode: Episode,
        client: str,
        journal: list[Input],
        results: list[Result],
        hashes: list[bytes] | None,
    ) -> Episode:
        episode.client = client
        episode.open(journal, results, hashes)
        self.episodes[episode.episode_id] = episode
        return episode

    async def _opened(self, stream: Stream, task: asyncio.Task[Episode], seq: int) -> Fill:
        task.add_done_callback(_retrieve)
        episode = await asyncio.shield(task)
        self._adopt(stream, episode)
        result = episode.result(seq)
        return lambda event: fill_result(event, episode.episode_id, seq, result)

    # ------------------------------------------------------------------ verbs of a live episode

    def _step(self, episode: Episode, command: pb.Command, body: str) -> Fill | Awaitable[Fill]:
        given = read_input(body, command, episode.opening.action_format)
        self._check_text(given)
        seq = command.seq
        verdict = episode.admit(seq, given)
        if verdict is Admission.REPLAY:
            self.cache_hits += 1
            result = episode.result(seq)
            return lambda event: fill_result(event, episode.episode_id, seq, result, replayed=True)
        if verdict is Admission.EXECUTE:
            task = asyncio.create_task(self._execute(episode, given))
            task.add_done_callback(_retrieve)
            episode.in_flight = InFlight(seq, given, task)
        in_flight = episode.in_flight
        assert in_flight is not None
        return self._await_step(episode, in_flight, command.deadline_ms / 1000 or None)

    async def _execute(self, episode: Episode, given: Input) -> Result:
        try:
            host = self.hosts[episode.opening.environment]
            result = await host.timed_step(episode.runner, given)
            episode.commit(given, result)
        except CommandError as error:
            self._fail(episode, error)
            raise
        finally:
            episode.in_flight = None
            episode.touched = time.monotonic()
        return result

    async def _await_step(
        self, episode: Episode, in_flight: InFlight, timeout: float | None
    ) -> Fill:
        cancelled = in_flight.cancelled
        done, _ = await asyncio.wait(
            {in_flight.task, cancelled}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if in_flight.task in done:
            result = in_flight.task.result()
            return lambda event: fill_result(event, episode.episode_id, in_flight.seq, result)
        reason = pb.ERROR_REASON_CANCELLED if done else pb.ERROR_REASON_DEADLINE_EXCEEDED
        what = "was cancelled" if done else f"is not done after {timeout:g} s"
        raise CommandError(
            reason,
            f"seq {in_flight.seq} of episode {episode.episode_id} {what}; sending it again waits "
            "for its one result",
            may_have_been_applied="true",
        )

    def _attach(self, stream: Stream, episode: Episode, command: pb.Command) -> Fill:
        for seq, result in episode.missed(command.attach.last_seq_seen):
            self.cache_hits += 1
            event = stream.event(len(result.observation.text))
            fill_result(event, episode.episode_id, seq, result, replayed=True)
        attached = pb.Attached(
            current_seq=episode.seq,
            in_flight=episode.in_flight is not None,
            lease_ms=int(episode.lease * 1000),
        )
        return lambda event: event.attached.CopyFrom(attached)

    def _consult(self, episode: Episode, command: pb.Command) -> Fill | Awaitable[Fill]:
        if command.seq != episode.seq or episode.in_flight is not None:
            raise CommandError(
                pb.ERROR_REASON_SEQ_GAP,
                f"episode {episode.episode_id} is at seq {episode.seq}: advice is for that state",
                expected=episode.seq,
            )
        if command.consult.advisor not in list(Advisor):
            raise CommandError(
                pb.ERROR_REASON_INVALID_ARGUMENT, "an advisor must be named", field="advisor"
            )
        advisor, seed = Advisor(command.consult.advisor), command.consult.seed
        host = self.hosts[episode.opening.environment]
        live = episode.runner.live
        if live is not None and isinstance(host, InlineHost):
            return _advice(host.call(lambda: live.consult(advisor, seed)))

        async def consult() -> Fill:
            return _advice(await episode.runner.consult(advisor, seed))

        return consult()

    def _cancel(self, episode: Episode, command: pb.Command) -> Fill:
        in_flight = episode.in_flight
        found = in_flight is not None and in_flight.seq == command.seq
        if in_flight is not None and found:
            episode.runner.cancel()
            in_flight.cancel_waiters()
        return lambda event: event.cancelled.CopyFrom(pb.Cancelled(found=found))

    def _close(self, command: pb.Command) -> Fill:
        episode = self.episodes.get(command.episode_id)
        if episode is not None:
            self.discard(episode)
        found = episode is not None
        return lambda event: event.closed.CopyFrom(pb.Closed(found=found))

    # ------------------------------------------------------------------ upkeep

    def discard(self, episode: Episode) -> None:
        """End an episode and release what it holds."""
        del self.episodes[episode.episode_id]
        if episode.stream is not None:
            episode.stream.episodes.discard(episode)
        self.seats.release(episode.opening.environment, episode.client)
        if episode.in_flight is not None:
            episode.in_flight.task.cancel()
        try:
            episode.runner.close()
        except CommandError as error:
            log.warning("close failed", episode=episode.episode_id, error=error.message)

    def reap(self) -> int:
        """Discard the episodes whose lease has run out; returns their number."""
        now = time.monotonic()
        expired = [e for e in self.episodes.values() if e.expired(now, self.limits.idle_limit)]
        for episode in expired:
            self.discard(episode)
        self.reaped += len(expired)
        return len(expired)

    def lose(self, stream: Stream) -> None:
        """A stream is gone: the lease clocks of its episodes start."""
        now = time.monotonic()
        for episode in stream.episodes:
            episode.stream = None
            episode.touched = now
        stream.episodes.clear()
        stream.close()

    def _adopt(self, stream: Stream, episode: Episode) -> None:
        if episode.stream is not None:
            episode.stream.episodes.discard(episode)
        episode.stream = stream
        stream.episodes.add(episode)

    def _fail(self, episode: Episode, error: CommandError) -> None:
        episode.failure = error
        log.warning(
            "episode failed",
            episode=episode.episode_id,
            item=episode.opening.item_id,
            seq=episode.seq + 1,
            reason=pb.ErrorReason.Name(error.reason),
        )

    def _find(self, episode_id: str) -> Episode:
        episode = self.episodes.get(episode_id)
        if episode is not None:
            return episode
        if episode_id in self._opening:
            raise CommandError(
                pb.ERROR_REASON_EPISODE_BUSY, f"episode {episode_id} is being opened"
            )
        raise CommandError(
            pb.ERROR_REASON_EPISODE_NOT_FOUND,
            f"no live episode {episode_id!r} here: it was closed, its lease ran out, or its server "
            "was restarted; a deterministic one can be opened again with its journal",
            journal_replayable="true",
        )

    def _read_opening(self, reset: pb.Reset) -> Opening:
        name = reset.environment
        if not name and len(self.hosts) == 1:
            name = next(iter(self.hosts))
        host = self.hosts.get(name)
        if host is None:
            raise CommandError(
                pb.ERROR_REASON_UNKNOWN_ENVIRONMENT,
                f"this server has no environment {name!r} (it has {', '.join(self.hosts)})",
                valid=", ".join(self.hosts),
            )
        spec = host.spec
        profile = reset.profile or spec.profiles[0]
        if profile not in spec.profiles:
            raise CommandError(
                pb.ERROR_REASON_UNKNOWN_OPTION,
                f"{name} has no profile {profile!r} (it has {', '.join(spec.profiles)})",
                valid=", ".join(spec.profiles),
            )
        formats = tuple(spec.conversation_starts)
        chosen = reset.action_format or int(formats[0])
        if chosen not in formats:
            valid = ", ".join(known.name for known in formats)
            raise CommandError(
                pb.ERROR_REASON_UNSUPPORTED_ACTION_FORMAT,
                f"{name} does not speak action format {chosen} (it speaks {valid})",
                valid=valid,
            )
        options = MessageToDict(reset.options) if reset.HasField("options") else {}
        item_id = reset.item_id
        return Opening(name, item_id, reset.seed, profile, ActionFormat(chosen), options)

    def _lease(self, lease_ms: int) -> float:
        return min(lease_ms / 1000 or self.limits.default_lease, self.limits.max_lease)

    def _check_admission(self, stream: Stream, environment: str) -> None:
        if self.draining:
            raise CommandError(
                pb.ERROR_REASON_DRAINING,
                "this server is shutting down and opens no more episodes",
                retry_after=1.0,
            )
        self.seats.check(environment, stream.client)

    def _check_text(self, given: Input) -> None:
        text = given if isinstance(given, str) else given[1]
        limit = self.limits.max_text_bytes
        if len(text) * 4 > limit and len(text.encode()) > limit:
            raise CommandError(
                pb.ERROR_REASON_TEXT_TOO_LONG, f"a text may have {limit} bytes", limit=limit
            )

    def _refuse_credit(self, stream: Stream, command: pb.Command) -> None:
        error = CommandError(
            pb.ERROR_REASON_CREDITS_EXCEEDED,
            f"more than {stream.max_in_flight} commands are in flight on this stream",
            retry_after=0.1,
        )
        fill_error(stream.event(), command.episode_id, command.seq, error)


def _advice(advised: tuple[str, str, str]) -> Fill:
    action, thought, reply = advised
    advice = pb.Advice(action=action, thought=thought, reply=reply)
    return lambda event: event.advice.CopyFrom(advice)


def _retrieve(task: asyncio.Task[object]) -> None:
    """Mark a task's error as seen: whoever waits for it reports it, if anybody still does."""
    if not task.cancelled():
        task.exception()
