"""What commands mean: every verb of the protocol, over the live episodes of one server.

Owns the episode table. Steps of inline environments are executed where they are read, without a
task switch; everything else runs in a task and answers when it is done. Invariant: every command
gets exactly one event that answers it, whatever happens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import structlog
from google.protobuf.json_format import MessageToDict

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.sdk import ActionFormat, Advisor
from env_servers.server.config import ServerLimits
from env_servers.server.episode import Admission, Episode, InFlight
from env_servers.server.errors import CommandError
from env_servers.server.events import fill_error, fill_result
from env_servers.server.live import Input, Opening, Result
from env_servers.server.runners import Host, InlineHost, Runner, boundary, crashed
from env_servers.server.seats import Seats
from env_servers.server.stream import Stream

__all__ = ["Engine", "read_input"]

T = TypeVar("T")

log: structlog.stdlib.BoundLogger = structlog.get_logger("env_servers.engine")

Fill = Callable[[pb.Event], None]
"""Writes the body of the event that answers a command."""

_STEP_BODIES = frozenset({"action", "reply", "tool_call"})
_CONTROL_BODIES = frozenset({"attach", "cancel", "heartbeat", "close"})
"""Verbs that never wait; they need no credit, so that a client with none left can still act."""
_MAX_ID_BYTES = 128


class Plan(NamedTuple):
    """How an episode is to be opened."""

    opening: Opening
    origin: object
    """Identifies the opening command: the same one again is answered, another one is refused."""
    journal: list[Input]
    hashes: list[bytes] | None
    """Of every seq, where the runner tells only the last result."""
    lease: float
    start: Callable[[], Awaitable[tuple[Runner, list[Result]]]]


def read_input(body: str | None, source: pb.Command | types_pb2.ActionInput, default: int) -> Input:
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
        self._short_text = limits.max_text_bytes // 4
        """Characters that fit the limit whatever they are."""
        self._opening: dict[str, InFlight[Episode]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        """Openings, steps and consultations, which go on when their stream is lost."""

    # ------------------------------------------------------------------ the hot path

    def handle(self, stream: Stream, commands: Iterable[pb.Command]) -> None:
        """Take a message's commands; answers appear in the stream's outbox."""
        find = self.episodes.get
        now = time.monotonic()
        for command in commands:
            episode = find(command.episode_id)
            body = command.WhichOneof("body")
            if (
                episode is not None
                and episode.live is not None
                and command.seq == episode.seq + 1
                and body in _STEP_BODIES
            ):
                episode.touched = now
                if episode.stream is not stream:
                    self._adopt(stream, episode)
                self._step_now(stream, episode, command, body)
            else:
                self._take(stream, command, body, now)

    def _step_now(self, stream: Stream, episode: Episode, command: pb.Command, body: str) -> None:
        """Execute an inline step and write its event in place."""
        failed = False
        try:
            given = self._read_step(episode, command, body)
            failed = True
            result = episode.runner.step_now(given)
        except CommandError as error:
            if failed:
                self._fail(episode, error)
            fill_error(stream.event(), command.episode_id, command.seq, error)
            return
        event = stream.event(len(result[0][0]))
        try:
            fill_result(event, episode.episode_id, episode.seq + 1, result)
        except (TypeError, ValueError, AttributeError) as broken:
            error = crashed(episode.opening.environment, broken)
            self._fail(episode, error)
            event.Clear()
            fill_error(event, command.episode_id, command.seq, error)
        else:
            episode.commit(given, result)

    def _read_step(self, episode: Episode, command: pb.Command, body: str) -> Input:
        """A step's checked input; raises CommandError."""
        if body == "action":
            text = command.action
            if len(text) > self._short_text:
                self._check_text(text)
            return text
        given = read_input(body, command, episode.opening.action_format)
        self._check_format(episode.opening.environment, given)
        self._check_text(given)
        return given

    # ------------------------------------------------------------------ everything else

    def _take(self, stream: Stream, command: pb.Command, body: str | None, now: float) -> None:
        """Answer a command now where that is possible, else start the task that will."""
        if stream.in_flight >= stream.max_in_flight and body not in _CONTROL_BODIES:
            self._refuse_credit(stream, command)
            return
        try:
            with boundary("server"):
                fill = self._answer_now(stream, command, body, now)
        except CommandError as error:
            fill_error(stream.event(), command.episode_id, command.seq, error)
            return
        if not callable(fill):
            stream.in_flight += 1
            stream.spawn(self._answer_later(stream, command.episode_id, command.seq, fill))
            return
        self._write(stream, command.episode_id, command.seq, fill)

    def _answer_now(
        self, stream: Stream, command: pb.Command, body: str | None, now: float
    ) -> Fill | Awaitable[Fill]:
        """The answer to a command, or what will give it; raises CommandError."""
        if body in ("reset", "fork"):
            open_with = self._reset if body == "reset" else self._fork
            return open_with(stream, command)
        if body == "close":
            return self._close(command)
        if body is None:
            raise CommandError(
                pb.ERROR_REASON_UNSUPPORTED_VERB,
                "the command has no body that this server knows",
            )
        opening = self._opening.get(command.episode_id)
        if opening is not None and body == "cancel":
            return self._cancel_opening(opening, command)
        episode = self._find(command.episode_id)
        episode.touched = now
        if episode.stream is not stream:
            self._adopt(stream, episode)
        if body in _STEP_BODIES:
            return self._step(episode, command, body)
        return self._tend(stream, episode, command, body)

    def _tend(
        self, stream: Stream, episode: Episode, command: pb.Command, body: str
    ) -> Fill | Awaitable[Fill]:
        """The verbs of a live episode that do not move it."""
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
            with boundary("server"):
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
        try:
            with boundary("server"):
                fill(event)
        except CommandError as error:
            event.Clear()
            fill_error(event, episode_id, seq, error)
        stream.grew(event.ByteSize())

    # ------------------------------------------------------------------ opening

    def _reset(self, stream: Stream, command: pb.Command) -> Awaitable[Fill]:
        reset = command.reset
        opening = self._read_opening(reset)
        journal = self._read_journal(command, opening)
        hashes = [reset.initial_state_hash, *(entry.state_hash for entry in reset.journal)]
        existing = self.episodes.get(command.episode_id)
        if existing is not None and _is_stale(existing, opening, journal):
            # The client went on elsewhere and comes back with a longer journal.
            self.discard(existing)
        elif existing is not None and (
            existing.origin == opening or (journal and existing.opening == opening)
        ):
            return self._reopened(stream, existing, journal, hashes)
        host = self.hosts[opening.environment]

        async def start() -> tuple[Runner, list[Result]]:
            return await host.open(opening, journal, hashes)

        lease = self._lease(reset.lease_ms)
        return self._open(stream, command, Plan(opening, opening, journal, None, lease, start))

    def _read_journal(self, command: pb.Command, opening: Opening) -> list[Input]:
        """The actions that a rebuild plays; raises CommandError."""
        entries = command.reset.journal
        if command.seq != len(entries):
            raise CommandError(
                pb.ERROR_REASON_INVALID_ARGUMENT,
                f"a reset opens at seq {len(entries)}, the number of its journal entries",
                field="seq",
            )
        if len(entries) > self.limits.max_journal:
            raise CommandError(
                pb.ERROR_REASON_INVALID_ARGUMENT,
                f"a journal may have {self.limits.max_journal} entries",
                field="journal",
            )
        if entries and not self.hosts[opening.environment].spec.deterministic:
            raise CommandError(
                pb.ERROR_REASON_UNSUPPORTED_CAPABILITY,
                f"{opening.environment} is not deterministic: no journal rebuilds its episodes",
                capability="DETERMINISTIC",
            )
        journal: list[Input] = []
        for seq, entry in enumerate(entries, start=1):
            body = entry.input.WhichOneof("input")
            if body is None:
                raise CommandError(
                    pb.ERROR_REASON_INVALID_ARGUMENT,
                    f"journal entry {seq} has no input",
                    field="journal",
                )
            given = read_input(body, entry.input, opening.action_format)
            self._check_format(opening.environment, given)
            self._check_text(given)
            journal.append(given)
        return journal

    async def _reopened(
        self, stream: Stream, episode: Episode, journal: list[Input], hashes: Sequence[bytes]
    ) -> Fill:
        """The same opening again: the cached result, unless the journals contradict."""
        self._adopt(stream, episode)
        seq = len(journal)
        if episode.journal[:seq] != journal:
            raise CommandError(
                pb.ERROR_REASON_SEQ_CONFLICT,
                f"episode {episode.episode_id} is live with another journal",
            )
        for at_seq, (expected, found) in enumerate(zip(hashes, episode.hashes, strict=False)):
            if expected and expected != found:
                raise CommandError(
                    pb.ERROR_REASON_REPLAY_DIVERGED,
                    f"episode {episode.episode_id} is live with another state at seq {at_seq}",
                    at_seq=at_seq,
                )
        result = episode.result(seq)
        self.cache_hits += 1
        return lambda event: fill_result(event, episode.episode_id, seq, result, replayed=True)

    def _fork(self, stream: Stream, command: pb.Command) -> Awaitable[Fill]:
        seq = command.seq
        origin = ("fork", command.fork.from_episode_id, seq)
        existing = self.episodes.get(command.episode_id)
        if existing is not None and existing.origin == origin:
            return self._reopened(stream, existing, existing.journal[:seq], ())
        under_way = self._opening.get(command.episode_id)
        if under_way is not None and under_way.given == (origin, None):
            return self._opened(stream, under_way, under_way.cancelled, command)
        source = self._find(command.fork.from_episode_id)
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
        hashes = source.hashes[: seq + 1]
        plan = Plan(
            source.opening,
            origin,
            source.journal[:seq],
            hashes,
            self._lease(command.fork.lease_ms),
            lambda: self._start_fork(source, seq, hashes),
        )
        return self._open(stream, command, plan)

    def _start_fork(
        self, source: Episode, seq: int, hashes: list[bytes]
    ) -> Awaitable[tuple[Runner, list[Result]]]:
        """A copy in the present state is native; one of the past replays the journal."""
        host = self.hosts[source.opening.environment]
        if seq == source.seq and source.failure is None:
            return _forked(source.runner.fork(), source.cache[-1])
        if not host.spec.deterministic:
            raise CommandError(
                pb.ERROR_REASON_UNSUPPORTED_CAPABILITY,
                f"{host.spec.name} is not deterministic: it forks only at its current state, "
                f"seq {source.seq}",
                capability="DETERMINISTIC",
            )
        return host.open(source.opening, source.journal[:seq], hashes)

    def _open(self, stream: Stream, command: pb.Command, plan: Plan) -> Awaitable[Fill]:
        """Start opening an episode, or join the same opening that is under way."""
        episode_id = command.episode_id
        if not 1 <= len(episode_id.encode()) <= _MAX_ID_BYTES:
            raise CommandError(
                pb.ERROR_REASON_INVALID_ARGUMENT,
                f"episode_id has 1 to {_MAX_ID_BYTES} bytes",
                field="episode_id",
            )
        given = (plan.origin, plan.journal if plan.hashes is None else None)
        under_way = self._opening.get(episode_id)
        if under_way is not None and under_way.given != given:
            raise CommandError(
                pb.ERROR_REASON_EPISODE_BUSY, f"episode {episode_id} is being opened"
            )
        if episode_id in self.episodes:
            raise CommandError(
                pb.ERROR_REASON_SEQ_CONFLICT,
                f"episode {episode_id} is live and was opened otherwise",
            )
        if under_way is None:
            self._check_admission(stream, plan.opening.environment)
            creation = self._create(episode_id, plan, plan.start(), stream.client)
            self.seats.take(plan.opening.environment, stream.client)
            under_way = InFlight(command.seq, given, self._keep(creation))
            self._opening[episode_id] = under_way
        return self._opened(stream, under_way, under_way.cancelled, command)

    async def _create(
        self,
        episode_id: str,
        plan: Plan,
        starting: Awaitable[tuple[Runner, list[Result]]],
        client: str,
    ) -> Episode:
        """Install an episode once its runner has started; its seat is taken already."""
        environment = plan.opening.environment
        try:
            runner, results = await starting
        except BaseException:
            self.seats.release(environment, client)
            raise
        finally:
            closed = self._opening.pop(episode_id).closed
        if closed:
            self.seats.release(environment, client)
            self._close_runner(episode_id, runner)
            raise CommandError(
                pb.ERROR_REASON_CANCELLED,
                f"episode {episode_id} was closed while it was being opened",
                may_have_been_applied="false",
            )
        episode = Episode(
            episode_id,
            plan.opening,
            plan.origin,
            runner,
            lease=plan.lease,
            cache_events=self.limits.cache_events,
            now=time.monotonic(),
        )
        episode.client = client
        episode.open(plan.journal, results, plan.hashes)
        self.episodes[episode_id] = episode
        return episode

    async def _opened(
        self,
        stream: Stream,
        in_flight: InFlight[Episode],
        cancelled: asyncio.Future[None],
        command: pb.Command,
    ) -> Fill:
        episode = await _outcome(in_flight, cancelled, command)
        if self.episodes.get(episode.episode_id) is episode:
            self._adopt(stream, episode)
        result = episode.result(in_flight.seq)
        return lambda event: fill_result(event, episode.episode_id, in_flight.seq, result)

    # ------------------------------------------------------------------ verbs of a live episode

    def _step(self, episode: Episode, command: pb.Command, body: str) -> Fill | Awaitable[Fill]:
        given = self._read_step(episode, command, body)
        seq = command.seq
        verdict = episode.admit(seq, given)
        if verdict is Admission.REPLAY:
            self.cache_hits += 1
            result = episode.result(seq)
            return lambda event: fill_result(event, episode.episode_id, seq, result, replayed=True)
        if verdict is Admission.EXECUTE:
            episode.in_flight = InFlight(seq, given, self._keep(self._execute(episode, given)))
        in_flight = episode.in_flight
        assert in_flight is not None
        return self._stepped(episode, in_flight, in_flight.cancelled, command)

    async def _execute(self, episode: Episode, given: Input) -> Result:
        """A step away from the loop; it goes on when all who wait for it have given up."""
        name = episode.opening.environment
        try:
            with boundary(name):
                result = await self.hosts[name].timed_step(episode.runner, given)
            episode.commit(given, result)
        except CommandError as error:
            if self.episodes.get(episode.episode_id) is episode:
                self._fail(episode, error)
            raise
        finally:
            episode.in_flight = None
            episode.touched = time.monotonic()
        return result

    async def _stepped(
        self,
        episode: Episode,
        in_flight: InFlight[Result],
        cancelled: asyncio.Future[None],
        command: pb.Command,
    ) -> Fill:
        result = await _outcome(in_flight, cancelled, command)
        return lambda event: fill_result(event, episode.episode_id, in_flight.seq, result)

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
        if episode.in_flight is not None:
            raise CommandError(
                pb.ERROR_REASON_EPISODE_BUSY,
                f"episode {episode.episode_id} is executing seq {episode.in_flight.seq}",
                in_flight=episode.in_flight.seq,
            )
        if command.seq != episode.seq:
            raise CommandError(
                pb.ERROR_REASON_SEQ_GAP,
                f"episode {episode.episode_id} is at seq {episode.seq}: advice is for that state",
                expected=episode.seq,
            )
        if episode.failure is not None:
            raise episode.failure
        host = self.hosts[episode.opening.environment]
        advisor, seed = _read_advisor(host, command.consult.advisor), command.consult.seed
        live = episode.runner.live
        if live is not None and isinstance(host, InlineHost):
            return _advice(host.call(lambda: live.consult(advisor, seed)))
        consulting = InFlight(command.seq, None, self._keep(self._ask(episode, advisor, seed)))
        return self._advised(consulting, command)

    async def _ask(self, episode: Episode, advisor: Advisor, seed: int) -> tuple[str, str, str]:
        try:
            return await episode.runner.consult(advisor, seed)
        except CommandError as error:
            if error.reason == pb.ERROR_REASON_ENVIRONMENT_HUNG:
                self._fail(episode, error)
            raise

    async def _advised(
        self, consulting: InFlight[tuple[str, str, str]], command: pb.Command
    ) -> Fill:
        return _advice(await _outcome(consulting, consulting.cancelled, command))

    def _cancel(self, episode: Episode, command: pb.Command) -> Fill:
        in_flight = episode.in_flight
        found = in_flight is not None and in_flight.seq == command.seq
        if in_flight is not None and found:
            in_flight.cancel_waiters()
            self._cancel_runner(episode)
        return lambda event: event.cancelled.CopyFrom(pb.Cancelled(found=found))

    def _cancel_opening(self, opening: InFlight[Episode], command: pb.Command) -> Fill:
        found = opening.seq == command.seq
        if found:
            opening.cancel_waiters()
        return lambda event: event.cancelled.CopyFrom(pb.Cancelled(found=found))

    def _close(self, command: pb.Command) -> Fill:
        episode = self.episodes.get(command.episode_id)
        opening = self._opening.get(command.episode_id)
        if episode is not None:
            self.discard(episode)
        elif opening is not None:
            opening.closed = True
            opening.cancel_waiters()
        found = episode is not None or opening is not None
        return lambda event: event.closed.CopyFrom(pb.Closed(found=found))

    # ------------------------------------------------------------------ upkeep

    @property
    def opening(self) -> int:
        """Episodes that are being opened."""
        return len(self._opening)

    def discard(self, episode: Episode) -> None:
        """End an episode and release what it holds; whoever waits for its step hears CANCELLED."""
        del self.episodes[episode.episode_id]
        if episode.stream is not None:
            episode.stream.episodes.discard(episode)
            episode.stream = None
        self.seats.release(episode.opening.environment, episode.client)
        if episode.in_flight is not None:
            episode.in_flight.cancel_waiters()
            self._cancel_runner(episode)
        self._close_runner(episode.episode_id, episode.runner)

    def close(self) -> None:
        """End everything; for the end of the server."""
        for episode in list(self.episodes.values()):
            self.discard(episode)
        for task in self._tasks:
            task.cancel()

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

    def _close_runner(self, episode_id: str, runner: Runner) -> None:
        try:
            runner.close()
        except CommandError as error:
            log.warning("close failed", episode=episode_id, error=error.message)

    def _cancel_runner(self, episode: Episode) -> None:
        try:
            episode.runner.cancel()
        except CommandError as error:
            log.warning("cancel failed", episode=episode.episode_id, error=error.message)

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work that outlives its stream; whoever waits for it reports its error."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    def _fail(self, episode: Episode, error: CommandError) -> None:
        episode.fail(error)
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
            f"no live episode {episode_id[:_MAX_ID_BYTES]!r} here: it was closed, its lease ran "
            "out, or its server was restarted; a deterministic one can be opened again with its "
            "journal",
            journal_replayable=_flag(any(h.spec.deterministic for h in self.hosts.values())),
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
        chosen = reset.action_format or int(next(iter(spec.conversation_starts)))
        self._check_format(name, (chosen, ""))
        self._check_size(len(reset.item_id) + reset.options.ByteSize())
        item_id, options = reset.item_id, _read_options(reset)
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
            self._check_size(len(text.encode()))

    def _check_size(self, size: int) -> None:
        limit = self.limits.max_text_bytes
        if size > limit:
            raise CommandError(
                pb.ERROR_REASON_TEXT_TOO_LONG, f"a text may have {limit} bytes", limit=limit
            )

    def _check_format(self, environment: str, given: Input) -> None:
        """Raise CommandError for a reply in an action format that the environment lacks."""
        if isinstance(given, str):
            return
        kind = given[0]
        if isinstance(kind, str):
            self._check_size(len(kind.encode()))
            return
        formats = self.hosts[environment].spec.conversation_starts
        if kind not in formats:
            valid = ", ".join(known.name for known in formats)
            raise CommandError(
                pb.ERROR_REASON_UNSUPPORTED_ACTION_FORMAT,
                f"{environment} does not speak action format {kind} (it speaks {valid})",
                valid=valid,
            )

    def _refuse_credit(self, stream: Stream, command: pb.Command) -> None:
        error = CommandError(
            pb.ERROR_REASON_CREDITS_EXCEEDED,
            f"more than {stream.max_in_flight} commands are in flight on this stream",
            retry_after=0.1,
        )
        fill_error(stream.event(), command.episode_id, command.seq, error)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _advice(advised: tuple[str, str, str]) -> Fill:
    action, thought, reply = advised
    advice = pb.Advice(action=action, thought=thought, reply=reply)
    return lambda event: event.advice.CopyFrom(advice)


def _read_options(reset: pb.Reset) -> Mapping[str, Any]:
    if not reset.HasField("options"):
        return {}
    try:
        return MessageToDict(reset.options)
    except ValueError as error:  # JSON has no NaN and no infinity
        raise CommandError(
            pb.ERROR_REASON_INVALID_ARGUMENT, f"options: {error}", field="options"
        ) from error


def _read_advisor(host: Host, number: int) -> Advisor:
    if number not in Advisor.__members__.values():
        raise CommandError(
            pb.ERROR_REASON_INVALID_ARGUMENT, "an advisor must be named", field="advisor"
        )
    if number == Advisor.EXPERT and not host.spec.has_expert:
        raise CommandError(
            pb.ERROR_REASON_UNSUPPORTED_CAPABILITY,
            f"{host.spec.name} has no expert",
            capability="EXPERT",
        )
    return Advisor(number)


def _is_stale(episode: Episode, opening: Opening, journal: list[Input]) -> bool:
    """The journal continues what this server knows of the episode."""
    known = len(episode.journal)
    return (
        episode.opening == opening
        and episode.in_flight is None
        and known < len(journal)
        and episode.journal == journal[:known]
    )


async def _forked(fork: Awaitable[Runner], last: Result) -> tuple[Runner, list[Result]]:
    return await fork, [last]


async def _outcome(
    in_flight: InFlight[T], cancelled: asyncio.Future[None], command: pb.Command
) -> T:
    """What a command leads to, unless it is cancelled or its deadline passes before.

    `cancelled` is the in-flight command's as it was when this command arrived: a cancellation may
    come before the first await here.
    """
    timeout = command.deadline_ms / 1000 or None
    done, _ = await asyncio.wait(
        {in_flight.task, cancelled}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
    )
    if in_flight.task in done:
        return in_flight.task.result()
    reason = pb.ERROR_REASON_CANCELLED if done else pb.ERROR_REASON_DEADLINE_EXCEEDED
    what = "was cancelled" if done else f"is not done after {command.deadline_ms} ms"
    raise CommandError(
        reason,
        f"seq {command.seq} of episode {command.episode_id} {what}; sending it again waits for "
        "its one result",
        may_have_been_applied="true",
    )
