"""Two runs side by side, paired by what both were to play: environment, item and sample.

A *side* is one policy of one run. Both figures, their difference and the test are over the same
episodes. What only one of them was to play is left out of the figures and listed; what both were to
play and one did not finish is missing, and makes bounds of them (`orchestrator.statistics`).
Whether the two may be compared at all is said by `orchestrator.fairness`. Knows no output.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import Difference, RecordCorrupt, UsageError
from orchestrator.fairness import setting_differences
from orchestrator.records import EpisodeKey, EpisodeSummary, blamed
from orchestrator.statistics import (
    Interval,
    Measured,
    MissingRule,
    mcnemar_p,
    measure_difference,
    measure_score,
    measure_success,
)
from orchestrator.store import RunReader
from orchestrator.suites import SuiteMetric

__all__ = [
    "Absent",
    "ComparedFigure",
    "PairKey",
    "RunComparison",
    "Side",
    "TurnedItem",
    "compare_sides",
    "pair_policies",
    "read_side",
]


class PairKey(NamedTuple):
    """What both sides play once."""

    environment: str
    item_id: str
    sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One policy of one run, as it was recorded when the side was read."""

    run: RunReader
    policy: str
    planned: frozenset[PairKey]
    """What it was to play; of a run without a plan, what it played."""
    records: Mapping[PairKey, EpisodeSummary]
    perfect_scores: Mapping[str, float]
    damage: Sequence[str]
    """Rows that are not as they were written, which count as missing."""

    def finished(self, key: PairKey) -> EpisodeSummary | None:
        """Return the record of an episode that did not fail; None = there is none."""
        record = self.records.get(key)
        return None if record is None or record.failed else record

    def absence(self, key: PairKey) -> str:
        """Say why there is no finished record; empty = there is one."""
        if key not in self.planned:
            return "not planned"
        record = self.records.get(key)
        if record is None:
            return "not played"
        return f"given up: {blamed(record.fault)}, {record.reason}" if record.failed else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One environment, or all of them together, by one metric from 0 to 1."""

    environment: str
    """Empty = all together, each episode counting the same."""
    metric: SuiteMetric
    pairs: int
    """Episodes that both were to play."""
    complete: int
    """Of these, episodes that both finished."""
    first: Measured
    second: Measured
    difference: Measured
    """Second minus first, with a paired bootstrap interval over items."""
    won: int
    """Items at which the second did better, over the samples that both finished."""
    lost: int
    """Items at which the first did better."""
    p_value: float | None
    """McNemar's exact test over items, two-sided; with several samples it is the sign test of
    items. None = the metric is no success rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedItem:
    """An item of which one side solved more samples than the other."""

    environment: str
    item_id: str
    samples: int
    """That both finished."""
    first_solved: int
    second_solved: int
    first_episode: str
    """Id of the first episode that turned, as the first side played it."""
    second_episode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """An episode that at least one side did not finish, or was not to play."""

    environment: str
    item_id: str
    sample: int
    first: str
    """Why the first side has none: `not planned`, `not played`, `given up: ...`; empty = it has."""
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """What two sides come to."""

    first: Side
    second: Side
    figures: Sequence[ComparedFigure]
    turned: Sequence[TurnedItem]
    absent: Sequence[Absent]
    differences: Sequence[Difference]
    """Settings that differ, so that the figures may differ for another reason than the policy."""
    missing_rule: MissingRule

    @property
    def complete(self) -> bool:
        """Whether both sides finished the same episodes."""
        return not (self.absent or self.first.damage or self.second.damage)


def read_side(run: RunReader, policy: str) -> Side:
    """Read one policy of a run; raises UsageError, which names those it has."""
    damage: list[str] = run.loss()

    def on_damage(error: RecordCorrupt) -> None:
        damage.append(error.problem)

    plan = run.plan()
    everything = list(run.summaries(on_damage=on_damage))
    keys = plan.keys() if plan is not None else []
    there = {key.policy for key in keys} | {record.policy for record in everything}
    if policy not in there:
        raise UsageError(f"{run.folder} has no policy {policy!r}", valid=sorted(there))
    records = {_pair_key(it.key): it for it in everything if it.policy == policy}
    planned = {_pair_key(key) for key in keys if key.policy == policy}
    return Side(
        run=run,
        policy=policy,
        planned=frozenset(planned | records.keys()),
        records=records,
        perfect_scores=plan.perfect_scores if plan is not None else {},
        damage=damage,
    )


def _pair_key(key: EpisodeKey) -> PairKey:
    return PairKey(key.environment, key.item_id, key.sample)


def pair_policies(
    first: RunReader, second: RunReader, *, ours: str = "", theirs: str = ""
) -> list[tuple[str, str]]:
    """Return which policies of two runs are compared.

    Args:
        first: One run.
        second: The other.
        ours: Only this policy of the first; empty = all.
        theirs: Only this policy of the second.

    Those of the same name; where there is none and one is left of each run, these two. Raises
    UsageError where it is not clear.
    """
    left = [ours] if ours else _policies(first)
    right = [theirs] if theirs else _policies(second)
    if len(left) == len(right) == 1:
        return [(left[0], right[0])]
    common = [policy for policy in left if policy in right]
    if not common:
        valid = [f"{run.folder}@{it}" for run, of in ((first, left), (second, right)) for it in of]
        raise UsageError("these runs have no policy in common: name two", valid=valid)
    return [(policy, policy) for policy in common]


def _policies(run: RunReader) -> list[str]:
    plan = run.plan()
    planned = plan.policies if plan is not None else ()
    return sorted({*planned, *(record.policy for record in run.summaries(on_damage=_ignore))})


def _ignore(error: RecordCorrupt) -> None:
    """Leave a damaged row to who reads the side, which says so."""


def compare_sides(first: Side, second: Side, *, missing: MissingRule = "bounds") -> RunComparison:
    """Compare two sides; `missing` says what episodes count as that one of them did not finish.

    Raises UsageError where there is nothing that both were to play.
    """
    shared = first.planned & second.planned
    if not shared:
        raise UsageError(
            f"{first.run.folder} and {second.run.folder} were to play no item in common"
        )
    groups: defaultdict[str, list[PairKey]] = defaultdict(list)
    for key in sorted(shared):
        groups[key.environment].append(key)
    return RunComparison(
        first=first,
        second=second,
        figures=_figures(first, second, groups, missing),
        turned=[item for keys in groups.values() for item in _turned(first, second, keys)],
        absent=list(_absent(first, second)),
        differences=setting_differences(
            (first.run.manifest, second.run.manifest),
            (first.policy, second.policy),
            _openings(first, second, groups),
        ),
        missing_rule=missing,
    )


# ---------------------------------------------------------------- figures


def _figures(
    first: Side, second: Side, groups: Mapping[str, Sequence[PairKey]], missing: MissingRule
) -> list[ComparedFigure]:
    by_metric: dict[SuiteMetric, list[str]] = {
        "success rate": [name for name in groups if _has_success(first, second, groups[name])],
        "mean score": [name for name in groups if _has_own_score(first, second, groups[name])],
    }
    figures: list[ComparedFigure] = []
    for metric, names in by_metric.items():
        rows = [(name, groups[name]) for name in names]
        if len(names) > 1:
            rows.append((_ALL, [key for name in names for key in groups[name]]))
        figures += [_figure(first, second, name, metric, keys, missing) for name, keys in rows]
    order = [*groups, _ALL]
    return sorted(figures, key=lambda figure: order.index(figure.environment))


_ALL: Final = ""


def _has_success(first: Side, second: Side, keys: Sequence[PairKey]) -> bool:
    finished = list(_all_finished(first, second, keys))
    return not finished or any(record.success is not None for record in finished)


def _has_own_score(first: Side, second: Side, keys: Sequence[PairKey]) -> bool:
    """Tell whether scores say more than successes do."""
    return any(
        record.score is not None
        and (record.success is None or record.score / _perfect(side, record) != record.success)
        for side in (first, second)
        for record in _all_finished(side, side, keys)
    )


def _all_finished(first: Side, second: Side, keys: Sequence[PairKey]) -> Iterator[EpisodeSummary]:
    found = (side.finished(key) for side in (first, second) for key in keys)
    return (record for record in found if record is not None)


def _perfect(side: Side, record: EpisodeSummary) -> float:
    return side.perfect_scores.get(record.environment) or 1.0


def _figure(
    first: Side,
    second: Side,
    environment: str,
    metric: SuiteMetric,
    keys: Sequence[PairKey],
    missing: MissingRule,
) -> ComparedFigure:
    complete = [key for key in keys if first.finished(key) and second.finished(key)]
    if missing == "drop":
        keys = complete  # of both sides, or they would be over different episodes
    value = _success if metric == "success rate" else _score
    pairs = [(key.item_id, value(first, key), value(second, key)) for key in keys]
    known = [it for _, *both in pairs for it in both if it is not None]
    scale = Interval(min(0.0, *known, 0.0), max(1.0, *known, 1.0))
    won, lost = _won_and_lost(pairs)
    return ComparedFigure(
        environment=environment,
        metric=metric,
        pairs=len(keys),
        complete=len(complete),
        first=_measure(first, metric, keys, missing),
        second=_measure(second, metric, keys, missing),
        difference=measure_difference(pairs, scale=scale, missing=missing),
        won=won,
        lost=lost,
        p_value=mcnemar_p(won, lost) if metric == "success rate" else None,
    )


def _won_and_lost(pairs: Sequence[tuple[str, float | None, float | None]]) -> tuple[int, int]:
    gains: defaultdict[str, list[float]] = defaultdict(list)
    for item_id, first, second in pairs:
        if first is not None and second is not None:
            gains[item_id].append(second - first)
    sums = [math.fsum(gain) for gain in gains.values()]
    return sum(it > 0 for it in sums), sum(it < 0 for it in sums)


def _success(side: Side, key: PairKey) -> float | None:
    record = side.finished(key)
    return None if record is None or record.success is None else float(record.success)


def _score(side: Side, key: PairKey) -> float | None:
    """Return the score of an episode as a share of a perfect one."""
    record = side.finished(key)
    return None if record is None or record.score is None else record.score / _perfect(side, record)


def _measure(
    side: Side, metric: SuiteMetric, keys: Collection[PairKey], missing: MissingRule
) -> Measured:
    records = [side.records[key] for key in keys if key in side.records]
    planned = [EpisodeKey(*key, side.policy) for key in keys]
    if metric == "success rate":
        return measure_success(records, planned, missing=missing)
    shares = [
        record
        if record.score is None
        else record._replace(score=record.score / _perfect(side, record))
        for record in records
    ]
    return measure_score(shares, planned, missing=missing)


# ---------------------------------------------------------------- items


def _turned(first: Side, second: Side, keys: Sequence[PairKey]) -> list[TurnedItem]:
    """Return the items that one side solved more often, of the samples that both finished."""
    items: defaultdict[tuple[str, str], list[PairKey]] = defaultdict(list)
    for key in keys:
        if _success(first, key) is not None and _success(second, key) is not None:
            items[key.environment, key.item_id].append(key)
    found = (_turned_item(first, second, samples) for samples in items.values())
    return [item for item in found if item is not None]


def _turned_item(first: Side, second: Side, keys: Sequence[PairKey]) -> TurnedItem | None:
    ours = sum(_success(first, key) == 1 for key in keys)
    theirs = sum(_success(second, key) == 1 for key in keys)
    if ours == theirs:
        return None
    winner, loser = (first, second) if ours > theirs else (second, first)
    shown = next(key for key in keys if _success(winner, key) == 1 and not _success(loser, key))
    return TurnedItem(
        environment=shown.environment,
        item_id=shown.item_id,
        samples=len(keys),
        first_solved=ours,
        second_solved=theirs,
        first_episode=first.records[shown].episode_id,
        second_episode=second.records[shown].episode_id,
    )


def _absent(first: Side, second: Side) -> Iterator[Absent]:
    for key in sorted(first.planned | second.planned):
        ours, theirs = first.absence(key), second.absence(key)
        if ours or theirs:
            yield Absent(**key._asdict(), first=ours, second=theirs)


def _openings(
    first: Side, second: Side, groups: Mapping[str, Sequence[PairKey]]
) -> Iterator[tuple[episode_pb2.Episode, episode_pb2.Episode]]:
    """Yield for each environment what both sides recorded of one item."""
    for keys in groups.values():
        for key in keys:
            try:
                both = _record(first, key), _record(second, key)
            except RecordCorrupt:
                continue  # another item says the same
            if both[0] is not None and both[1] is not None:
                yield both[0], both[1]
                break


def _record(side: Side, key: PairKey) -> episode_pb2.Episode | None:
    return side.run.get(EpisodeKey(*key, side.policy)) if key in side.records else None
