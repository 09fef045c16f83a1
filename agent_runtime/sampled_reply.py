"""What an engine sampled for one reply: ids, their likelihood, and the weights that gave each.

A reply may come in parts: when weights are replaced, an engine gives back what it has, and a new
request goes on from its last token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent_runtime.ledger import VersionSpan
from agent_runtime.sampling import FinishReason

__all__ = ["SampledReply", "join_spans"]


@dataclass(frozen=True, slots=True)
class SampledReply:
    """What was sampled for one reply, in one request or in several that continue each other."""

    ids: list[int]
    logprobs: list[float | None]
    """One per id, in nats."""
    versions: list[VersionSpan]
    """Counted from the first id; empty = the engine reported none."""
    finish: FinishReason
    cached: int
    """Prompt tokens of the first request that the engine had cached."""
    entropies: list[float] = field(default_factory=list[float])
    """One per id, in nats; empty = the engine told none."""

    def followed_by(self, later: SampledReply) -> SampledReply:
        """One reply of an aborted part and the one that continued it."""
        moved = [
            VersionSpan(span.start + len(self.ids), span.end + len(self.ids), span.version)
            for span in later.versions
        ]
        return SampledReply(
            ids=self.ids + later.ids,
            logprobs=self.logprobs + later.logprobs,
            versions=join_spans([*self.versions, *moved]),
            finish=later.finish,
            cached=self.cached,
            entropies=self.entropies + later.entropies,
        )

    def sampled_by(self, version: str) -> SampledReply:
        """The reply as one that weights of this name sampled, all of it."""
        return replace(self, versions=[VersionSpan(0, len(self.ids), version)])

    def cut(self, count: int, finish: FinishReason) -> SampledReply:
        """The first `count` tokens only."""
        versions = [
            VersionSpan(start, min(end, count), version)
            for start, end, version in self.versions
            if start < count
        ]
        return replace(
            self,
            ids=self.ids[:count],
            logprobs=self.logprobs[:count],
            versions=versions,
            finish=finish,
            entropies=self.entropies[:count],
        )


def join_spans(spans: Sequence[VersionSpan]) -> list[VersionSpan]:
    """Spans without empty ones, neighbours of one version joined."""
    joined: list[VersionSpan] = []
    for span in spans:
        if span.end <= span.start:
            continue
        last = joined[-1] if joined else None
        if last is not None and last.version == span.version and last.end == span.start:
            joined[-1] = VersionSpan(last.start, span.end, span.version)
        else:
            joined.append(span)
    return joined
