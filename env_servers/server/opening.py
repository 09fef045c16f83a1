"""Opening episodes: by reset, by rebuilding from a journal, by fork.

An episode is admitted before its environment starts, and gives its room back when that fails. The
same opening sent again joins the one under way, or is answered from the cache.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server import errors, events
from env_servers.server.admission import AdmissionController
from env_servers.server.budget import Account
from env_servers.server.config import ServerLimits
from env_servers.server.episode import Episode, ForkOrigin, Origin
from env_servers.server.errors import CommandError
from env_servers.server.events import Answer, Deferred, WriteAnswer
from env_servers.server.in_flight import BackgroundTasks, InFlight
from env_servers.server.inputs import StepInput
from env_servers.server.instance import ResetSpec, Result
from env_servers.server.journal import Journal, journal_size
from env_servers.server.logs import LogThrottle, get_logger
from env_servers.server.parsing import CommandParser
from env_servers.server.runners import Host, Runner
from env_servers.server.stream import Stream
from env_servers.server.table import EpisodeTable

__all__ = ["EpisodeOpener"]

log = get_logger("env_servers.opening")

_REFUSAL_LOG_SECONDS = 10.0
"""A full server refuses thousands of resets a second; its log says so this often per reason."""


class OpenRequest(NamedTuple):
    """Identifies an opening under way: an equal one joins it."""

    origin: Origin
    journal: list[StepInput] | None
    """None for forks: their origin says it all."""


def _not_now() -> None:
    return None


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """How an episode is to be opened."""

    owner: str
    """Name of the client that opens it."""
    reset: ResetSpec
    origin: Origin
    journal: list[StepInput]
    """To be played; empty for a fork."""
    source: Episode | None
    """What is forked."""
    lease: float
    """Seconds."""
    start: Callable[[], Awaitable[tuple[Runner, list[Result]]]]
    start_now: Callable[[], tuple[Runner, list[Result]] | None] = _not_now
    """Does the same before it returns, where that is possible; None = only `start` can."""

    @property
    def size(self) -> int:
        """Bytes of the journal; a fork shares its source's."""
        return journal_size(self.journal)

    @property
    def request(self) -> OpenRequest:
        """What tells this opening from another one of the same episode id."""
        return OpenRequest(self.origin, self.journal if self.source is None else None)


class EpisodeOpener:
    """Opens the episodes of one server."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        limits: ServerLimits,
        table: EpisodeTable,
        parser: CommandParser,
        background: BackgroundTasks,
    ) -> None:
        self._hosts = hosts
        self._limits = limits
        self._table = table
        self._parser = parser
        self._background = background
        self._refusals = LogThrottle(_REFUSAL_LOG_SECONDS)

    @property
    def _admission(self) -> AdmissionController:
        return self._table.admission

    def reset(self, stream: Stream, command: pb.Command) -> Answer:
        """Open an episode at its beginning, or at the end of a journal; raises CommandError."""
        reset = self._parser.reset_spec(command.reset)
        journal = self._parser.journal(command, reset)
        hashes = [
            command.reset.initial_state_hash,
            *(entry.state_hash for entry in command.reset.journal),
        ]
        existing = self._table.own(command.episode_id, stream.owner)
        if existing is not None and _is_stale(existing, reset, journal):
            # The client went on elsewhere and comes back with a longer journal.
            self._table.discard(existing)
        elif existing is not None and (
            existing.origin == reset or (journal and existing.reset == reset)
        ):
            return Deferred(self._reopen(stream, existing, journal, hashes))
        host = self._hosts[reset.environment]
        plan = OpenPlan(
            stream.owner,
            reset,
            origin=reset,
            journal=journal,
            source=None,
            lease=self._parser.lease(command.reset.lease_ms),
            start=lambda: host.open(reset, journal, hashes),
            # A journal is played in parts, between which others get their turn.
            start_now=_not_now if journal else lambda: host.open_now(reset, hashes),
        )
        return self._open(stream, command, plan)

    def fork(self, stream: Stream, command: pb.Command) -> Answer:
        """Open an episode as a copy of another one; raises CommandError."""
        seq = command.seq
        origin = ForkOrigin(command.fork.from_episode_id, seq)
        existing = self._table.own(command.episode_id, stream.owner)
        if existing is not None and existing.origin == origin:
            return Deferred(self._reopen(stream, existing, existing.journal.inputs_to(seq), ()))
        pending = self._table.own_opening(command.episode_id, stream.owner)
        if pending is not None and pending.request == OpenRequest(origin, None):
            return self._opened(stream, pending, command)
        source = self._table.find(command.fork.from_episode_id, stream.owner)
        if source.in_flight is not None:
            raise errors.episode_busy(source.episode_id, source.in_flight.seq)
        if seq > source.seq:
            raise errors.seq_gap(source, source.seq, f"it cannot be forked at {seq}")
        plan = OpenPlan(
            stream.owner,
            source.reset,
            origin=origin,
            journal=[],
            source=source,
            lease=self._parser.lease(command.fork.lease_ms),
            start=lambda: self._start_fork(source, seq),
        )
        return self._open(stream, command, plan)

    def _start_fork(self, source: Episode, seq: int) -> Awaitable[tuple[Runner, list[Result]]]:
        """A copy in the present state is native; one of the past replays the journal."""
        host = self._hosts[source.reset.environment]
        if seq == source.seq and source.failure is None:
            return _forked(_fork_now(source), source.cache[-1])
        if not host.spec.deterministic:
            raise errors.not_deterministic(
                host.spec.name, f"it forks only at its current state, seq {source.seq}"
            )
        journal = source.journal
        return host.open(source.reset, journal.inputs_to(seq), journal.hashes_to(seq))

    async def _reopen(
        self,
        stream: Stream,
        episode: Episode,
        journal: list[StepInput],
        hashes: Sequence[bytes],
    ) -> WriteAnswer:
        """The same opening again: the cached result, unless the journals contradict."""
        episode.attach(stream)
        seq = len(journal)
        if episode.journal.inputs_to(seq) != journal:
            raise errors.seq_conflict(episode.episode_id, "is live with another journal")
        known = episode.journal.hashes_to(seq) if hashes else []
        for at_seq, (expected, actual) in enumerate(zip(hashes, known, strict=False)):
            if expected and expected != actual:
                raise errors.replay_diverged(
                    f"episode {episode.episode_id} is live with another state at seq {at_seq}",
                    at_seq,
                )
        result = episode.result(seq)
        self._table.cache_hits += 1
        return events.observation(episode.episode_id, seq, result, replayed=True)

    def _open(self, stream: Stream, command: pb.Command, plan: OpenPlan) -> Answer:
        """Open an episode or start to do so, or join the same opening that is under way."""
        episode_id = self._parser.episode_id(command.episode_id)
        pending = self._table.pending_opens.get(episode_id)
        if pending is not None and (pending.owner, pending.request) != (plan.owner, plan.request):
            raise errors.being_opened(episode_id)
        if episode_id in self._table.episodes:
            raise errors.seq_conflict(episode_id, "is live and was opened otherwise")
        if pending is None:
            self._check_admission(stream, plan.reset.environment, plan.size)
            if plan.source is not None:
                # Where room was short, it may have ended just now.
                self._table.find(plan.source.episode_id, plan.owner)
            episode = self._create_now(episode_id, plan, stream)
            if episode is not None:
                episode.attach(stream)
                return events.observation(episode_id, command.seq, episode.result(command.seq))
            starting = plan.start()
            journal = None
            if plan.source is not None:
                # Taken now, as the state is: later steps of the source are not the copy's.
                journal = plan.source.journal.fork(command.seq, stream.account)
            creation = self._create(episode_id, plan, starting, journal, stream)
            self._admission.admit(plan.reset.environment, stream.account)
            opening = self._background.spawn(creation)
            pending = InFlight(command.seq, plan.request, opening, owner=plan.owner)
            self._table.pending_opens[episode_id] = pending
        return self._opened(stream, pending, command)

    def _create_now(self, episode_id: str, plan: OpenPlan, stream: Stream) -> Episode | None:
        """Open an episode before returning; None where its environment is not on the loop.

        Most episodes begin like this: a task and those who wait for it cost more than the reset of
        a small environment.
        """
        if self._table.tracing is not None:
            return None
        try:
            started = plan.start_now()
        except BaseException as error:
            _log_failure(episode_id, plan.reset, error)
            raise
        if started is None:
            return None
        self._admission.admit(plan.reset.environment, stream.account)
        return self._install(episode_id, plan, *started, forked=None, stream=stream)

    async def _create(
        self,
        episode_id: str,
        plan: OpenPlan,
        starting: Awaitable[tuple[Runner, list[Result]]],
        forked: Journal | None,
        stream: Stream,
    ) -> Episode:
        """Install an episode, admitted already, once its runner has started."""
        environment, tracing = plan.reset.environment, self._table.tracing
        span: Any = None
        if tracing is not None:
            span = tracing.start_episode(episode_id, plan.reset, stream.trace_context)
        try:
            runner, results = await starting
        except BaseException as error:
            self._give_back(environment, stream.account, forked)
            if tracing is not None:
                tracing.end_failed(span, error)
            _log_failure(episode_id, plan.reset, error)
            raise
        finally:
            closed = self._table.pending_opens.pop(episode_id).closed
        if closed:
            self._give_back(environment, stream.account, forked)
            self._table.close_runner(environment, episode_id, runner)
            error = errors.closed_while_opening(episode_id)
            if tracing is not None:
                tracing.end_failed(span, error)
            raise error
        return self._install(
            episode_id, plan, runner, results, forked=forked, stream=stream, span=span
        )

    def _install(
        self,
        episode_id: str,
        plan: OpenPlan,
        runner: Runner,
        results: list[Result],
        *,
        forked: Journal | None,
        stream: Stream,
        span: Any = None,
    ) -> Episode:
        """Add an episode, admitted already, whose runner has started."""
        episode = Episode(
            episode_id,
            plan.reset,
            plan.origin,
            runner,
            account=stream.account,
            owner=plan.owner,
            lease=plan.lease,
            cache_events=self._limits.cache_events,
            max_journal_bytes=self._limits.max_journal_bytes,
            now=time.monotonic(),
            span=span,
        )
        if forked is not None:
            episode.open_fork(forked, results)
        else:
            episode.open(plan.journal, results)
        self._table.add(episode)
        if plan.journal:
            log.info(
                "episode rebuilt from its client's journal",
                environment=plan.reset.environment,
                episode_id=episode_id,
                seq=episode.seq,
            )
        return episode

    def _give_back(self, environment: str, account: Account, forked: Journal | None) -> None:
        """Return the room of an opening that came to nothing."""
        self._admission.release(environment, account)
        if forked is not None:
            forked.release()

    def _opened(self, stream: Stream, pending: InFlight[Episode], command: pb.Command) -> Deferred:
        """Wait for an opening; `join` has to be called now, not when the coroutine first runs."""
        return Deferred(self._answer_opened(stream, pending.seq, pending.join(command)))

    async def _answer_opened(
        self, stream: Stream, seq: int, opening: Awaitable[Episode]
    ) -> WriteAnswer:
        episode = await opening
        if self._table.episodes.get(episode.episode_id) is episode:
            episode.attach(stream)
        return events.observation(episode.episode_id, seq, episode.result(seq))

    def _check_admission(self, stream: Stream, environment: str, size: int) -> None:
        """Raise CommandError where there is no room, also after others' unused episodes ended."""
        account = stream.account
        try:
            try:
                self._admission.check(environment, account, time.monotonic(), size)
            except CommandError as refusal:
                full = refusal.reason == pb.ERROR_REASON_CAPACITY_EXHAUSTED
                if not full or "share" in refusal.metadata:
                    raise
                if not self._table.make_room(environment, account, size):
                    raise
                self._admission.check(environment, account, time.monotonic(), size)
        except CommandError as refusal:
            self._note_refusal(stream, environment, refusal)
            raise

    def _note_refusal(self, stream: Stream, environment: str, refusal: CommandError) -> None:
        reason = pb.ErrorReason.Name(refusal.reason).removeprefix("ERROR_REASON_")
        self._admission.refused[reason] += 1
        suppressed = self._refusals.suppressed((environment, reason))
        if suppressed is not None:
            log.warning(
                "admission refused",
                environment=environment,
                client=stream.client,
                reason=reason,
                live=self._admission.live[environment],
                capacity=self._admission.capacities[environment],
                bytes=self._admission.budget.held,
                suppressed=suppressed,
            )


def _is_stale(episode: Episode, reset: ResetSpec, journal: list[StepInput]) -> bool:
    """The journal continues what this server knows of the episode."""
    seq = len(episode.journal)
    return (
        episode.reset == reset
        and episode.in_flight is None
        and seq < len(journal)
        and episode.journal.inputs_to(seq) == journal[:seq]
    )


def _fork_now(source: Episode) -> Awaitable[Runner]:
    runner = source.runner
    try:
        return runner.fork()
    except CommandError:
        if source.runner is runner:
            raise
        return source.runner.fork()  # it was moved to a worker, for it held everybody up


async def _forked(fork: Awaitable[Runner], last: Result) -> tuple[Runner, list[Result]]:
    return await fork, [last]


def _log_failure(episode_id: str, reset: ResetSpec, error: BaseException) -> None:
    if isinstance(error, CommandError):
        log.info(
            "open failed",
            environment=reset.environment,
            episode_id=episode_id,
            item_id=reset.item_id,
            reason=pb.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_"),
            error=error.message,
        )
