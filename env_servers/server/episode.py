"""The rules of one episode: sequence numbers, the response cache, the journal, the lease.

Pure: no I/O, no clock, no environment; time is passed in. Property tests play random commands
against it. Every seq is executed exactly once. What the episode keeps counts on its client's
account until `release`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from env_servers.sdk.images import bytes_of
from env_servers.server import errors
from env_servers.server.budget import ENTRY_BYTES, RESULT_BYTES, Account, Budget
from env_servers.server.errors import CommandError
from env_servers.server.in_flight import InFlight
from env_servers.server.inputs import StepInput
from env_servers.server.instance import ResetSpec, Result
from env_servers.server.journal import Journal

if TYPE_CHECKING:
    from env_servers.server.runners import Runner
    from env_servers.server.stream import Stream

__all__ = ["Episode", "ForkOrigin", "Origin", "StepDecision"]


class StepDecision(Enum):
    """What the sequence rules say of a step."""

    EXECUTE = 1
    """It is the next one: execute it."""
    REPLAY = 2
    """It was executed: answer with the cached result."""
    JOIN = 3
    """It is executing: wait for its result."""


class ForkOrigin(NamedTuple):
    """An episode that began as a copy of another one."""

    from_episode_id: str
    seq: int


Origin = ResetSpec | ForkOrigin
"""How an episode was opened: the same command again is answered, another one is refused."""


class Episode:
    """What a server remembers of one episode; the environment itself lives in the runner."""

    __slots__ = (
        "_long_results",
        "account",
        "cache",
        "ended",
        "episode_id",
        "failure",
        "in_flight",
        "journal",
        "last_used",
        "lease",
        "max_journal_bytes",
        "origin",
        "owner",
        "reset",
        "runner",
        "seq",
        "span",
        "steps_inline",
        "stream",
    )

    def __init__(
        self,
        episode_id: str,
        reset: ResetSpec,
        origin: Origin,
        runner: Runner,
        *,
        account: Account,
        owner: str = "",
        lease: float,
        cache_events: int,
        max_journal_bytes: int,
        now: float,
        span: Any = None,
    ) -> None:
        """`lease` in seconds; `cache_events` results are kept for repeated commands."""
        self.episode_id = episode_id
        self.reset = reset
        self.origin = origin
        self.runner = runner
        self.account = account
        """Of whom its bytes and its room count."""
        self.owner = owner
        """Name of the client that opened it: only its streams may use it."""
        self.lease = lease
        self.last_used = now
        self.seq = -1
        self.ended = False
        self.steps_inline = runner.instance is not None
        """The next step may be executed where it is read: not ended, not failed."""
        self.failure: CommandError | None = None
        self.journal = Journal(account)
        self.max_journal_bytes = max_journal_bytes
        self.cache: deque[Result] = deque(maxlen=cache_events)
        self._long_results = 0
        """Bytes of the long texts and of the images of the kept results."""
        account.add_results(cache_events * RESULT_BYTES)
        self.in_flight: InFlight[Result] | None = None
        self.stream: Stream | None = None
        self.span = span
        """Its span where the server traces."""

    def open(self, journal: Sequence[StepInput], results: Sequence[Result]) -> None:
        """Take over a journal and the results of every seq in it, from seq 0 on."""
        self.journal.first_hash = results[0].state_hash
        for step_input, result in zip(journal, results[1:], strict=True):
            self.journal.append(step_input, result.state_hash)
        self._begin(results)

    def open_fork(self, journal: Journal, results: Sequence[Result]) -> None:
        """Take over the journal of a copy and its last results."""
        self.journal.release()
        self.journal = journal
        self._begin(results)

    def _begin(self, results: Sequence[Result]) -> None:
        self.runner.bind(self.episode_id, self.journal)
        self.seq = len(self.journal)
        self.cache.extend(results)
        self._count_results()
        last = results[-1].observation
        if last.terminated or last.truncated:
            self.ended = True
            self.steps_inline = False

    # ------------------------------------------------------------------ steps

    def decide(self, seq: int, step_input: StepInput) -> StepDecision:
        """Judge a step by the sequence rules; raises CommandError."""
        if self.in_flight is not None:
            return self._decide_in_flight(self.in_flight, seq, step_input)
        if seq <= self.seq and seq > 0:
            if self.journal.input_of(seq) != step_input:
                raise errors.seq_conflict(self.episode_id, f"was sent seq {seq} with another input")
            return StepDecision.REPLAY
        if seq != self.seq + 1:
            raise errors.seq_gap(self, self.seq + 1, f"the next step is {self.seq + 1}, not {seq}")
        if self.ended:
            raise errors.episode_ended(self)
        if self.failure is not None:
            raise self.failure
        return StepDecision.EXECUTE

    def begin(self, in_flight: InFlight[Result]) -> None:
        """Note a step that executes away from the loop."""
        self.in_flight = in_flight

    def finish(self, now: float) -> None:
        """Note that the step in flight is over, however it went."""
        self.in_flight = None
        self.last_used = now

    def commit(self, step_input: StepInput, result: Result, now: float) -> None:
        """Record an executed step."""
        # `touch` and `Journal.append` once more, without the calls: every step passes here.
        self.last_used = now
        journal = self.journal
        journal.inputs.append(step_input)
        journal.hashes.append(result[1])
        journal.size = size = journal.size + step_input.text.__sizeof__() + ENTRY_BYTES
        if size > journal.counted:
            self._count_journal()
        self.seq += 1
        self.cache.append(result)
        observation = result[0]
        if len(observation[0]) > RESULT_BYTES or self._long_results or observation[7]:
            self._count_results()
        if observation[3] or observation[4]:  # terminated or truncated
            self.ended = True
            self.steps_inline = False

    def fail(self, error: CommandError) -> None:
        """Take no more steps: each is answered with this error."""
        self.failure = error
        self.steps_inline = False

    def result(self, seq: int) -> Result:
        """Return the cached result of a seq; raises CommandError when it has been evicted."""
        oldest = self.seq - len(self.cache) + 1
        if not oldest <= seq <= self.seq:
            raise errors.response_evicted(self, seq, oldest)
        return self.cache[seq - oldest]

    def missed(self, last_seen: int) -> list[tuple[int, Result]]:
        """Return the results after `last_seen` (-1 = none was seen), in order.

        Raises CommandError where one of them has been evicted, or `last_seen` was never reached.
        """
        if last_seen > self.seq:
            raise errors.seq_gap(self, self.seq, f"seq {last_seen} cannot have been seen")
        return [(seq, self.result(seq)) for seq in range(last_seen + 1, self.seq + 1)]

    # ------------------------------------------------------------------ the lease

    def attach(self, stream: Stream) -> None:
        """Hang on a stream; while it lives only idleness ends the episode."""
        if self.stream is not None:
            self.stream.episodes.discard(self)
        self.stream = stream
        stream.episodes.add(self)

    def detach(self, now: float) -> None:
        """Let go of the stream: the lease clock starts."""
        if self.stream is not None:
            self.stream.episodes.discard(self)
            self.stream = None
        self.last_used = now

    def touch(self, now: float) -> None:
        """Note that a client used the episode."""
        self.last_used = now

    def expired(self, now: float, idle_limit: float) -> bool:
        """Whether its stream is gone for longer than the lease, or nobody used it for very long."""
        if self.in_flight is not None:
            return False
        limit = self.lease if self.stream is None else idle_limit
        return now - self.last_used > limit

    # ------------------------------------------------------------------ what it holds

    @property
    def held(self) -> int:
        """Bytes that its end gives back, unless forks share them."""
        return self.journal.size + self._long_results

    def release(self) -> None:
        """Give back the bytes that it holds; for the end of the episode."""
        self.journal.release()
        assert self.cache.maxlen is not None
        self.account.add_results(-self.cache.maxlen * RESULT_BYTES - self._long_results)
        # A step may still execute: what it adds then counts for nobody.
        self.account = self.journal.account = Account("", Budget(0))

    def _count_journal(self) -> None:
        self.journal.count()
        if self.journal.size > self.max_journal_bytes:
            self.fail(errors.journal_too_long(self.max_journal_bytes))

    def _count_results(self) -> None:
        size = sum(_long_bytes(result) for result in self.cache)
        self.account.add_results(size - self._long_results)
        self._long_results = size

    def _decide_in_flight(
        self, in_flight: InFlight[Result], seq: int, step_input: StepInput
    ) -> StepDecision:
        if seq == in_flight.seq:
            if step_input == in_flight.request:
                return StepDecision.JOIN
            raise errors.seq_conflict(self.episode_id, f"executes seq {seq} with another input")
        if 0 < seq <= self.seq and self.journal.input_of(seq) == step_input:
            return StepDecision.REPLAY
        raise errors.episode_busy(self.episode_id, in_flight.seq)


def _long_bytes(result: Result) -> int:
    text, images = result.observation.text, result.observation.images
    size = text.__sizeof__() if len(text) > RESULT_BYTES else 0
    return size + bytes_of(images) if images else size
