"""The token ledger of one episode: every id that a policy read or wrote, in order, once.

One rule makes records trainable: within a segment ids are appended, never changed, so
the prompt of every call starts with all that came before it. A rewritten history starts a new
segment (`fork`), which is counted and carries its reason. Each sampled token has a finite logprob
and names the generation that sampled it; nothing here patches what an engine left out.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, cast

from agent_runtime.errors import PolicyMisbehaved
from agentgym.episode.v1 import episode_pb2

__all__ = ["Origin", "Segment", "TokenLedger", "VersionSpan"]

_MAX_ID = 2**32 - 1
_MAX_LOGPROB = 0.01
"""Logprobs are at most 0; low-precision engines overshoot by rounding, never by this much."""


class Origin(IntEnum):
    """Where a token came from; values equal those of `agentgym.episode.v1.TokenOrigin`."""

    CONTEXT = episode_pb2.TOKEN_ORIGIN_CONTEXT
    """Rendered text: prompt, observation, template."""
    SAMPLED = episode_pb2.TOKEN_ORIGIN_SAMPLED
    """Sampled by the policy, hence a training target."""
    FORCED = episode_pb2.TOKEN_ORIGIN_FORCED
    """Appended to a reply by force, such as an end-of-turn token after a length stop."""


class VersionSpan(NamedTuple):
    """Tokens [start, end) were sampled by the policy version of this name."""

    start: int
    end: int
    version: str


class Segment:
    """A run of ids that grows by appending only; read it freely, write it through the ledger."""

    __slots__ = (
        *("_entropies", "_generations", "_ids", "_logprobs", "_origins", "_spans"),
        *("fork_reason", "has_entropies"),
    )

    def __init__(self, fork_reason: str = "") -> None:
        self.fork_reason = fork_reason
        """Why this segment was started; empty for the first one."""
        self._ids = array("I")
        self._origins = bytearray()
        self.has_entropies = False
        """Whether the engine told entropies; then of every sampled token."""
        self._logprobs = array("f")
        self._entropies = array("f")
        self._generations = array("I")
        self._spans: list[VersionSpan] = []

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids, oldest first."""
        return tuple(self._ids)

    def to_list(self) -> list[int]:
        """Return the token ids as a list of the caller's own."""
        return self._ids.tolist()

    @property
    def origins(self) -> tuple[Origin, ...]:
        """One per id."""
        return tuple(Origin(value) for value in self._origins)

    @property
    def logprobs(self) -> tuple[float, ...]:
        """One per id, single precision, in nats; 0 for tokens that were not sampled."""
        return tuple(self._logprobs)

    @property
    def entropies(self) -> tuple[float, ...]:
        """One per id, single precision, in nats; 0 for those not sampled. Empty = none told."""
        return tuple(self._entropies) if self.has_entropies else ()

    @property
    def generations(self) -> tuple[int | None, ...]:
        """One per id: index of the policy call that sampled it; None = not sampled."""
        return tuple(value - 1 if value else None for value in self._generations)

    @property
    def version_spans(self) -> tuple[VersionSpan, ...]:
        """Ordered, disjoint, over sampled tokens only; offsets count from the segment's start."""
        return tuple(self._spans)

    def extend(
        self,
        ids: array[int],
        origin: Origin,
        logprobs: array[float] | None = None,
        entropies: array[float] | None = None,
        generation: int | None = None,
    ) -> None:
        """Append checked tokens; for the ledger alone, which has checked them."""
        count = len(ids)
        self._ids.extend(ids)
        self._origins.extend(bytes([origin]) * count)
        zeros = array("f", bytes(4 * count))
        self._logprobs.extend(zeros if logprobs is None else logprobs)
        self._entropies.extend(zeros if entropies is None else entropies)
        self.has_entropies |= entropies is not None
        mark = 0 if generation is None else generation + 1
        self._generations.extend(array("I", [mark]) * count)

    def extend_spans(self, spans: Iterable[VersionSpan], offset: int) -> None:
        """Append checked spans counted from `offset`, joining neighbours of the same version."""
        for start, end, version in spans:
            last = self._spans[-1] if self._spans else None
            if last is not None and last.end == start + offset and last.version == version:
                self._spans[-1] = VersionSpan(last.start, end + offset, version)
            else:
                self._spans.append(VersionSpan(start + offset, end + offset, version))

    def to_proto(self) -> episode_pb2.TokenSegment:
        """The segment as it is stored."""
        names = list(dict.fromkeys(span.version for span in self._spans))
        index = {name: position for position, name in enumerate(names)}
        return episode_pb2.TokenSegment(
            ids=self._ids,
            origins=cast("list[episode_pb2.TokenOrigin]", list(self._origins)),
            logprobs=self._logprobs,
            entropies=self.entropies,
            generations=self._generations,
            policy_versions=names,
            version_spans=[
                episode_pb2.VersionSpan(start=start, end=end, version=index[version])
                for start, end, version in self._spans
            ],
            fork_reason=self.fork_reason,
        )

    @classmethod
    def from_proto(cls, stored: episode_pb2.TokenSegment) -> Segment:
        """A stored segment; raises ValueError where it breaks the ledger's rules."""
        _check_stored(stored)
        segment = cls(stored.fork_reason)
        segment._ids = array("I", stored.ids)
        segment._origins = bytearray(stored.origins)
        segment._logprobs = array("f", stored.logprobs)
        segment.has_entropies = bool(stored.entropies)
        segment._entropies = array("f", stored.entropies or bytes(4 * len(stored.ids)))
        segment._generations = array("I", stored.generations)
        segment._spans = [
            VersionSpan(span.start, span.end, stored.policy_versions[span.version])
            for span in stored.version_spans
        ]
        return segment


class TokenLedger:
    """The segments of one episode; only the last one grows."""

    __slots__ = ("_next_generation", "_segments", "_told")

    def __init__(self) -> None:
        self._segments = [Segment()]
        self._told: bool | None = None
        """Whether the engine tells entropies; None = it was not asked yet."""
        self._next_generation = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, oldest first; never empty."""
        return tuple(self._segments)

    @property
    def forks(self) -> int:
        """How often history was rewritten."""
        return len(self._segments) - 1

    def prompt_ids(self) -> list[int]:
        """All ids of the current segment: the prompt of the next call."""
        return self._segments[-1].to_list()

    def __len__(self) -> int:
        """Number of ids that the next call would be prompted with."""
        return len(self._segments[-1])

    def append_context(self, ids: Sequence[int]) -> None:
        """Append rendered tokens. Raises ValueError for what is no token id."""
        self._segments[-1].extend(_as_ids(ids), Origin.CONTEXT)

    def append_forced(self, ids: Sequence[int]) -> None:
        """Append tokens that were put into a reply without being sampled. Raises ValueError."""
        self._segments[-1].extend(_as_ids(ids), Origin.FORCED)

    def append_sampled(
        self,
        ids: Sequence[int],
        logprobs: Sequence[float | None],
        *,
        generation: int,
        versions: Sequence[VersionSpan] = (),
        entropies: Sequence[float] = (),
    ) -> None:
        """Append what one policy call sampled.

        `logprobs` has one value in nats per id, and so has `entropies`, or none for all calls of
        the ledger. `generation` counts policy calls from 0 and grows from call to call. `versions`
        counts from the first sampled token and covers all of them, or is empty where the engine
        reported none. Raises PolicyMisbehaved, and appends nothing, where the engine's numbers
        cannot be trained on; ValueError for a generation out of order.
        """
        if generation < self._next_generation:
            raise ValueError(f"generation {generation} after {self._next_generation - 1}")
        try:
            sampled = _as_ids(ids)
        except ValueError as error:
            raise PolicyMisbehaved(str(error)) from None
        if not sampled:
            raise PolicyMisbehaved("a completion without tokens")
        checked = _as_logprobs(logprobs, len(sampled))
        spans = _as_spans(versions, len(sampled))
        segment = self._segments[-1]
        told = self._as_entropies(entropies, len(sampled))
        offset = len(segment)
        segment.extend(sampled, Origin.SAMPLED, checked, told, generation)
        self._told = told is not None
        segment.extend_spans(spans, offset)
        self._next_generation = generation + 1

    def _as_entropies(self, entropies: Sequence[float], count: int) -> array[float] | None:
        """Check what an engine told of `count` tokens; None = nothing, now as before."""
        told = bool(entropies)
        if self._told is not None and self._told != told:
            raise PolicyMisbehaved("entropies of some replies, and not of others")
        return _as_entropies(entropies, count) if told else None

    def fork(self, reason: str, ids: Sequence[int]) -> None:
        """Start a new segment with a rewritten history.

        All its ids are context: what was sampled stays a training target in the segment where it
        was sampled, once. Raises ValueError without a reason.
        """
        if not reason:
            raise ValueError("a fork needs a reason")
        segment = Segment(reason)
        segment.extend(_as_ids(ids), Origin.CONTEXT)
        self._segments.append(segment)

    def to_protos(self) -> list[episode_pb2.TokenSegment]:
        """The ledger as it is stored; empty when nothing was appended."""
        if len(self._segments) == 1 and not self._segments[0]:
            return []
        return [segment.to_proto() for segment in self._segments]

    @classmethod
    def from_protos(cls, stored: Sequence[episode_pb2.TokenSegment]) -> TokenLedger:
        """A stored ledger; raises ValueError where it breaks the ledger's rules."""
        ledger = cls()
        if not stored:
            return ledger
        ledger._segments = [Segment.from_proto(segment) for segment in stored]
        for position, segment in enumerate(ledger._segments):
            if bool(segment.fork_reason) != (position > 0):
                raise ValueError("every segment but the first names why it was started")
            marks = [mark for mark in segment.generations if mark is not None]
            if marks and (marks[0] < ledger._next_generation or marks != sorted(marks)):
                raise ValueError("generations are out of order")
            ledger._next_generation = marks[-1] + 1 if marks else ledger._next_generation
        return ledger


def _as_ids(ids: Sequence[int]) -> array[int]:
    try:
        return array("I", ids)
    except (OverflowError, TypeError):
        raise ValueError(f"token ids are integers from 0 to {_MAX_ID}") from None


def _as_logprobs(logprobs: Sequence[float | None], count: int) -> array[float]:
    if len(logprobs) != count:
        raise PolicyMisbehaved(f"{len(logprobs)} logprobs for {count} sampled tokens")
    if set(map(type, logprobs)) == {float}:  # the usual case, in C; the rest names the culprit
        usual = array("f", cast("Sequence[float]", logprobs))
        if math.isfinite(sum(usual)) and max(usual) <= _MAX_LOGPROB:
            return usual
    checked = array("f")
    for position, value in enumerate(logprobs):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PolicyMisbehaved(f"sampled token {position} has no logprob")
        try:
            checked.append(value)
        except OverflowError:
            raise PolicyMisbehaved(f"sampled token {position} has logprob {value}") from None
        if not math.isfinite(checked[-1]) or checked[-1] > _MAX_LOGPROB:
            raise PolicyMisbehaved(f"sampled token {position} has logprob {value}")
    return checked


def _as_entropies(entropies: Sequence[float], count: int) -> array[float]:
    if len(entropies) != count:
        raise PolicyMisbehaved(f"{len(entropies)} entropies for {count} sampled tokens")
    checked = array("f", entropies)
    if not math.isfinite(sum(checked)) or min(checked) < -_MAX_LOGPROB:
        raise PolicyMisbehaved("a sampled token has an entropy that is no number from 0 on")
    return checked


def _as_spans(versions: Sequence[VersionSpan], count: int) -> list[VersionSpan]:
    """Non-empty spans that tile [0, count); none when no version was reported."""
    spans = [span for span in versions if span.end > span.start]
    position = 0
    for start, end, _ in spans:
        if start != position:
            raise PolicyMisbehaved(f"no policy version for sampled tokens {position} to {start}")
        position = end
    if spans and position != count:
        raise PolicyMisbehaved(f"policy versions for {position} of {count} sampled tokens")
    return spans


def _check_stored(stored: episode_pb2.TokenSegment) -> None:
    """Raise ValueError unless the parallel arrays of a stored segment agree."""
    count = len(stored.ids)
    if not len(stored.origins) == len(stored.logprobs) == len(stored.generations) == count:
        raise ValueError("ids, origins, logprobs and generations differ in length")
    if len(stored.entropies) not in (0, count):
        raise ValueError(f"{len(stored.entropies)} entropies for {count} tokens")
    rows = zip(stored.origins, stored.logprobs, stored.generations, strict=True)
    for position, (origin, logprob, generation) in enumerate(rows):
        if origin not in tuple(Origin):
            raise ValueError(f"token {position} has no known origin")
        if not math.isfinite(logprob) or logprob > _MAX_LOGPROB:
            raise ValueError(f"token {position} has logprob {logprob}")
        sampled = origin == Origin.SAMPLED
        if sampled != (generation > 0) or (logprob != 0 and not sampled):
            raise ValueError(f"token {position} is marked both sampled and not sampled")
    _check_stored_spans(stored, count)


def _check_stored_spans(stored: episode_pb2.TokenSegment, count: int) -> None:
    """Raise ValueError unless the version spans lie over sampled tokens in order."""
    end = 0
    for span in stored.version_spans:
        if not end <= span.start < span.end <= count:
            raise ValueError("version spans overlap or leave the segment")
        if span.version >= len(stored.policy_versions):
            raise ValueError("a version span names no version")
        if any(origin != Origin.SAMPLED for origin in stored.origins[span.start : span.end]):
            raise ValueError("a version span covers a token that was not sampled")
        end = span.end
