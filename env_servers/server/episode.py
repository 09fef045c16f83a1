"""The rules of one episode: sequence numbers, the response cache, the journal, the lease.

Pure: no I/O, no clock, no environment; time is passed in. Property tests play random commands
against it. journal[i] is the input that led to seq i + 1, and every seq is executed exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from env_servers.server import errors
from env_servers.server.errors import CommandError
from env_servers.server.in_flight import InFlight
from env_servers.server.inputs import StepInput
from env_servers.server.instance import ResetSpec, Result

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
        "cache",
        "client",
        "ended",
        "episode_id",
        "failure",
        "hashes",
        "in_flight",
        "journal",
        "last_used",
        "lease",
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
        client: str = "",
        owner: str = "",
        lease: float,
        cache_events: int,
        now: float,
        span: Any = None,
    ) -> None:
        """`lease` in seconds; `cache_events` results are kept for repeated commands."""
        self.episode_id = episode_id
        self.reset = reset
        self.origin = origin
        self.runner = runner
        self.client = client
        self.owner = owner
        """Name of the client that opened it: only its streams may use it."""
        self.lease = lease
        self.last_used = now
        self.seq = -1
        self.ended = False
        self.steps_inline = runner.instance is not None
        """The next step may be executed where it is read: not ended, not failed."""
        self.failure: CommandError | None = None
        self.journal: list[StepInput] = []
        self.hashes: list[bytes] = []
        self.cache: deque[Result] = deque(maxlen=cache_events)
        self.in_flight: InFlight[Result] | None = None
        self.stream: Stream | None = None
        self.span = span
        """Its span where the server traces."""

    def open(
        self,
        journal: Sequence[StepInput],
        results: Sequence[Result],
        hashes: Sequence[bytes] | None = None,
    ) -> None:
        """Take over a journal and the results of every seq in it.

        A native fork knows only the last result; `hashes` then are those of every seq.
        """
        self.journal.extend(journal)
        self.runner.bind(self.episode_id, self.journal, self.hashes)
        for result in results:
            self._append(result)
        if hashes is not None:
            self.hashes[:] = hashes
            self.seq = len(hashes) - 1

    # ------------------------------------------------------------------ steps

    def decide(self, seq: int, step_input: StepInput) -> StepDecision:
        """Judge a step by the sequence rules; raises CommandError."""
        if self.in_flight is not None:
            return self._decide_in_flight(self.in_flight, seq, step_input)
        if seq <= self.seq and seq > 0:
            if self.journal[seq - 1] != step_input:
                raise errors.seq_conflict(self.episode_id, f"was sent seq {seq} with another input")
            return StepDecision.REPLAY
        if seq != self.seq + 1:
            raise errors.seq_gap(self, self.seq + 1, f"the next step is {self.seq + 1}, not {seq}")
        if self.failure is not None:
            raise self.failure
        if self.ended:
            raise errors.episode_ended(self)
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
        # `touch` and `_append` once more, without the calls: every step passes here.
        self.last_used = now
        self.journal.append(step_input)
        self.seq += 1
        self.hashes.append(result[1])
        self.cache.append(result)
        observation = result[0]
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

    def _append(self, result: Result) -> None:
        self.seq += 1
        self.hashes.append(result.state_hash)
        self.cache.append(result)
        if result.observation.terminated or result.observation.truncated:
            self.ended = True
            self.steps_inline = False

    def _decide_in_flight(
        self, in_flight: InFlight[Result], seq: int, step_input: StepInput
    ) -> StepDecision:
        if seq == in_flight.seq:
            if step_input == in_flight.request:
                return StepDecision.JOIN
            raise errors.seq_conflict(self.episode_id, f"executes seq {seq} with another input")
        if 0 < seq <= self.seq and self.journal[seq - 1] == step_input:
            return StepDecision.REPLAY
        raise errors.episode_busy(self.episode_id, in_flight.seq)
