"""Which episodes of a run are listed, and in which order: read from an address, pure otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from orchestrator.errors import UsageError
from orchestrator.records import EpisodeSummary

__all__ = ["SORT_KEYS", "Selection", "counted_choices", "select"]

SORT_KEYS: Final[Mapping[str, Callable[[EpisodeSummary], Any]]] = {
    "environment": lambda it: it.environment,
    "item": lambda it: it.item_id,
    "policy": lambda it: it.policy,
    "category": lambda it: it.category,
    "sample": lambda it: it.sample,
    "attempt": lambda it: it.attempt,
    "reward": lambda it: it.reward,
    "score": lambda it: it.score,
    "rounds": lambda it: it.rounds,
    "tokens": lambda it: it.prompt_tokens + it.completion_tokens,
    "cost": lambda it: it.cost_usd,
    "seconds": lambda it: it.ended_unix_ms - it.started_unix_ms,
    "outcome": lambda it: it.outcome,
    "reason": lambda it: it.ending,
    "ended": lambda it: it.ended_unix_ms,
}
"""What a list can be sorted by."""
_CHOICES: Final = ("environment", "policy", "category", "outcome", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is asked for; empty or None = everything."""

    environment: str = ""
    policy: str = ""
    category: str = ""
    outcome: str = ""
    """success, loss, unjudged or failed."""
    reason: str = ""
    """A stop reason, or the reason of a failure."""
    item: str = ""
    """Part of an item id."""
    min_rounds: int | None = None
    max_rounds: int | None = None
    words: str = ""
    """Words in what was said."""
    sort: str = ""
    """A name of SORT_KEYS, `-` before it for the other direction; empty = as they were stored."""

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> Selection:
        """Read the parameters of an address; raises UsageError."""
        known = {field.name for field in fields(cls)}
        if unknown := parameters.keys() - known:
            raise UsageError(f"no filter {min(unknown)!r}", valid=sorted(known))
        values: dict[str, Any] = dict(parameters)
        for name in ("min_rounds", "max_rounds"):
            values[name] = _count(name, values.get(name, ""))
        if values.get("sort", "").removeprefix("-") not in ("", *SORT_KEYS):
            raise UsageError(f"no order {values['sort']!r}", valid=SORT_KEYS)
        return cls(**values)


def _count(name: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{name} is a number of rounds, not {text[:40]!r}")
    return int(text)


def select(
    summaries: Iterable[EpisodeSummary], wanted: Selection, found: Collection[str] | None = None
) -> list[EpisodeSummary]:
    """Return the selected episodes in their order; absent values come last in both directions.

    `found` are the ids of the episodes that have the words; None = none were asked for.
    """
    chosen = [it for it in summaries if _accepts(it, wanted)]
    if found is not None:
        chosen = [it for it in chosen if it.episode_id in found]
    if wanted.sort:
        key = _sort_key(wanted.sort.removeprefix("-"))
        there = [it for it in chosen if key(it) is not None]
        absent = [it for it in chosen if key(it) is None]
        chosen = sorted(there, key=key, reverse=wanted.sort.startswith("-")) + absent
    return chosen


def _sort_key(name: str) -> Callable[[EpisodeSummary], Any]:
    return SORT_KEYS[name]


def _accepts(it: EpisodeSummary, wanted: Selection) -> bool:
    return (
        wanted.environment in ("", it.environment)
        and wanted.policy in ("", it.policy)
        and wanted.category in ("", it.category)
        and wanted.outcome in ("", it.outcome)
        and wanted.reason in ("", it.ending)
        and wanted.item in it.item_id
        and (wanted.min_rounds is None or it.rounds >= wanted.min_rounds)
        and (wanted.max_rounds is None or it.rounds <= wanted.max_rounds)
    )


def counted_choices(summaries: Iterable[EpisodeSummary]) -> dict[str, dict[str, int]]:
    """Return by what a list can be narrowed: the values of each filter with their episodes."""
    choices: dict[str, dict[str, int]] = {name: {} for name in _CHOICES}
    for summary in summaries:
        for name, counts in choices.items():
            value = str(SORT_KEYS[name](summary))
            counts[value] = counts.get(value, 0) + 1
    return {name: dict(sorted(counts.items())) for name, counts in choices.items()}
