"""Why attempts failed: each reason once, with its first message and an episode to look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.errors import RecordCorrupt
from orchestrator.records import EpisodeSummary
from orchestrator.store import RunReader

__all__ = ["FailureReason", "list_failures"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReason:
    """One reason of failed attempts."""

    fault: str
    """A Fault without its prefix, for example `POLICY`."""
    reason: str
    attempts: int
    """Failed attempts, those that were played again included."""
    given_up: int
    """Episodes whose last attempt failed by it."""
    message: str
    """What the first of them said."""
    episode_id: str
    """The first of them."""


def list_failures(
    run: RunReader, records: Iterable[EpisodeSummary], superseded: Iterable[EpisodeSummary]
) -> list[FailureReason]:
    """Return the reasons of a run's failed attempts, the most frequent first."""
    failed = [record for record in records if record.failed]
    last = {record.episode_id for record in failed}
    attempts: defaultdict[tuple[str, str], list[EpisodeSummary]] = defaultdict(list)
    for attempt in (*failed, *superseded):
        attempts[attempt.fault or "", attempt.reason or ""].append(attempt)
    reasons = [_reason(run, group, last) for group in attempts.values()]
    return sorted(reasons, key=lambda found: (-found.attempts, found.fault, found.reason))


def _reason(run: RunReader, group: Sequence[EpisodeSummary], last: set[str]) -> FailureReason:
    first = min(group, key=lambda attempt: (attempt.ended_unix_ms, attempt.episode_id))
    return FailureReason(
        fault=first.fault or "",
        reason=first.reason or "",
        attempts=len(group),
        given_up=sum(attempt.episode_id in last for attempt in group),
        message=_message(run, first.episode_id),
        episode_id=first.episode_id,
    )


def _message(run: RunReader, episode_id: str) -> str:
    try:
        return run.get_by_id(episode_id).error.message
    except RecordCorrupt as error:
        return f"its record is damaged: {error.problem}"
