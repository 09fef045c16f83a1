"""The rules of one episode: sequence numbers, the response cache, the journal, the lease.

Pure: no I/O, no clock of its own, no environment; time is passed in. Property tests play random
commands against it. Invariant: journal[i] is the input that led to seq i + 1, and every seq
was executed exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server.errors import CommandError
from env_servers.server.live import Input, Opening, Result

if TYPE_CHECKING:
    import asyncio

    from env_servers.server.runners import Runner
    from env_servers.server.stream import Stream

__all__ = ["Admission", "Episode", "InFlight"]

T = TypeVar("T")


class Admission(Enum):
    """What the sequence rules say of a step."""

    EXECUTE = 1
    """It is the next one: execute it."""
    REPLAY = 2
    """It was executed: answer with the cached result."""
    JOIN = 3
    """It is executing: wait for its result."""


class InFlight(Generic[T]):
    """A command that executes away from the loop: an opening or a step."""

    __slots__ = ("cancelled", "closed", "given", "seq", "task")

    def __init__(self, seq: int, given: object, task: asyncio.Task[T]) -> None:
        """`given` identifies the command: the same one again joins it."""
        self.seq = seq
        self.given = given
        self.task = task
        self.closed = False
        """The episode was closed while this opened it."""
        self.cancelled: asyncio.Future[None] = task.get_loop().create_future()
        """Settled when those who wait now are to give up; whoever asks later waits afresh."""

    def cancel_waiters(self) -> None:
        """Let all current waiters give up; the command itself goes on."""
        self.cancelled.set_result(None)
        self.cancelled = self.task.get_loop().create_future()


class Episode:
    """What a server remembers of one episode; the environment itself lives in the runner."""

    __slots__ = (
        "cache",
        "client",
        "ended",
        "episode_id",
        "failure",
        "hashes",
        "in_flight",
        "journal",
        "lease",
        "live",
        "opening",
        "origin",
        "runner",
        "seq",
        "stream",
        "touched",
    )

    def __init__(
        self,
        episode_id: str,
        opening: Opening,
        origin: object,
        runner: Runner,
        *,
        lease: float,
        cache_events: int,
        now: float,
    ) -> None:
        """`origin` identifies the opening command: the same one again is answered, not refused."""
        self.episode_id = episode_id
        self.opening = opening
        self.origin = origin
        self.runner = runner
        self.lease = lease
        self.touched = now
        self.seq = -1
        self.ended = False
        self.live = runner.live
        """Set while the next step may be executed where it is read: inline, not ended or failed."""
        self.failure: CommandError | None = None
        self.journal: list[Input] = []
        self.hashes: list[bytes] = []
        self.cache: deque[Result] = deque(maxlen=cache_events)
        self.in_flight: InFlight[Result] | None = None
        self.stream: Stream | None = None
        self.client = ""

    def open(
        self,
        journal: Sequence[Input],
        results: Sequence[Result],
        hashes: Sequence[bytes] | None = None,
    ) -> None:
        """Take over a journal and the results of every seq in it.

        A native fork knows only the last result; `hashes` then are those of every seq.
        """
        self.journal.extend(journal)
        self.runner.bind(self.journal, self.hashes)
        for result in results:
            self._keep(result)
        if self.ended:
            self.live = None
        if hashes is not None:
            self.hashes[:] = hashes
            self.seq = len(hashes) - 1

    def admit(self, seq: int, given: Input) -> Admission:
        """Judge a step by the sequence rules; raises CommandError."""
        if self.in_flight is not None:
            return self._admit_in_flight(self.in_flight, seq, given)
        if seq <= self.seq and seq > 0:
            if self._given(seq) != given:
                raise CommandError(
                    pb.ERROR_REASON_SEQ_CONFLICT,
                    f"seq {seq} of episode {self.episode_id} was sent with another input",
                )
            return Admission.REPLAY
        if seq != self.seq + 1:
            raise CommandError(
                pb.ERROR_REASON_SEQ_GAP,
                f"episode {self.episode_id} is at seq {self.seq}: the next step is "
                f"{self.seq + 1}, not {seq}",
                expected=self.seq + 1,
            )
        if self.failure is not None:
            raise self.failure
        if self.ended:
            raise CommandError(
                pb.ERROR_REASON_EPISODE_ENDED,
                f"episode {self.episode_id} ended at seq {self.seq} and takes no more steps",
            )
        return Admission.EXECUTE

    def commit(self, given: Input, result: Result) -> None:
        """Record an executed step."""
        # `_keep` once more, without the call: every step passes here.
        self.journal.append(given)
        self.seq += 1
        self.hashes.append(result[1])
        self.cache.append(result)
        observation = result[0]
        if observation[3] or observation[4]:
            self.ended = True
            self.live = None

    def fail(self, error: CommandError) -> None:
        """Take no more steps: each is answered with this error."""
        self.failure = error
        self.live = None

    def _keep(self, result: Result) -> None:
        self.seq += 1
        self.hashes.append(result.state_hash)
        self.cache.append(result)
        if result.observation.terminated or result.observation.truncated:
            self.ended = True

    def result(self, seq: int) -> Result:
        """The cached result of a seq; raises CommandError when it has been evicted."""
        offset = seq - (self.seq - len(self.cache) + 1)
        if not 0 <= offset < len(self.cache):
            raise CommandError(
                pb.ERROR_REASON_RESPONSE_EVICTED,
                f"the result of seq {seq} of episode {self.episode_id} is no longer cached; "
                f"the episode is at seq {self.seq}",
                oldest=self.seq - len(self.cache) + 1,
            )
        return self.cache[offset]

    def missed(self, last_seen: int) -> list[tuple[int, Result]]:
        """The results after `last_seen` (-1 = none was seen), in order; raises CommandError."""
        if last_seen > self.seq:
            raise CommandError(
                pb.ERROR_REASON_SEQ_GAP,
                f"episode {self.episode_id} is at seq {self.seq}, not at {last_seen}",
                expected=self.seq,
            )
        return [(seq, self.result(seq)) for seq in range(last_seen + 1, self.seq + 1)]

    def expired(self, now: float, idle_limit: float) -> bool:
        """Its stream is gone for longer than the lease, or nobody used it for very long."""
        if self.in_flight is not None:
            return False
        limit = self.lease if self.stream is None else idle_limit
        return now - self.touched > limit

    def _given(self, seq: int) -> Input:
        return self.journal[seq - 1]

    def _admit_in_flight(self, in_flight: InFlight[Result], seq: int, given: Input) -> Admission:
        if seq == in_flight.seq and given == in_flight.given:
            return Admission.JOIN
        if seq == in_flight.seq:
            raise CommandError(
                pb.ERROR_REASON_SEQ_CONFLICT,
                f"seq {seq} of episode {self.episode_id} is executing with another input",
            )
        if 0 < seq <= self.seq and self._given(seq) == given:
            return Admission.REPLAY
        raise CommandError(
            pb.ERROR_REASON_EPISODE_BUSY,
            f"seq {in_flight.seq} of episode {self.episode_id} is still executing",
            in_flight=in_flight.seq,
        )
