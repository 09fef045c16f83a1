"""What several samples of an item say: the chance that one of k solves it, and that all k do.

From n samples of an item of which c succeeded, without bias:

    pass@k = 1 - C(n - c, k) / C(n, k)      at least one of k solves it
    pass^k = C(c, k) / C(n, k)              every one of k solves it

Both are averaged over items; at k = 1 they are the success rate, the mean over all samples. Samples
of an item depend on each other, so an interval counts items: Wilson's with as many trials as items,
which is no narrower than one of independent items. Missing samples are bounds, as in
`orchestrator.statistics`. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.records import EpisodeKey, EpisodeSummary
from orchestrator.run_plan import RunPlan
from orchestrator.statistics import Interval, Measured, MissingRule, wilson_interval

__all__ = ["PassRate", "measure_pass_rates", "pass_all", "pass_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """One environment played by one policy, k samples at a time."""

    environment: str
    policy: str
    k: int
    items: int
    """Items that the figures are averaged over."""
    planned: int
    judged: int
    given_up: int
    pass_at: Measured
    """At least one of k samples solves the item."""
    pass_all: Measured
    """All k samples solve it."""


@dataclass(frozen=True, slots=True)
class _Item:
    solved: int
    judged: int
    absent: int
    """Samples that nobody knows the outcome of."""


def pass_at(samples: int, solved: int, k: int) -> float:
    """Return the unbiased estimate that at least one of k samples solves an item."""
    return 1 - math.comb(samples - solved, k) / math.comb(samples, k)


def pass_all(samples: int, solved: int, k: int) -> float:
    """Return the unbiased estimate that all of k samples solve an item."""
    return math.comb(solved, k) / math.comb(samples, k)


def measure_pass_rates(
    summaries: Iterable[EpisodeSummary], plan: RunPlan, *, missing: MissingRule = "bounds"
) -> list[PassRate]:
    """Return the rates of everything that was planned more than once, for k = 1, 2, 4 ... n.

    Sorted by environment, policy and k. An environment that says nothing of success has none.
    """
    records = {summary.key: summary for summary in summaries}
    groups: defaultdict[tuple[str, str], list[EpisodeKey]] = defaultdict(list)
    for key in plan.keys():  # noqa: SIM118
        groups[key.environment, key.policy].append(key)
    rates: list[PassRate] = []
    for (environment, policy), keys in sorted(groups.items()):
        samples = 1 + max(key.sample for key in keys)
        found = [records[key] for key in keys if key in records]
        finished = [record for record in found if not record.failed]
        measured = not finished or any(record.success is not None for record in finished)
        if samples == 1 or not measured:
            continue
        items = _items(keys, finished)
        rates += [
            PassRate(
                environment=environment,
                policy=policy,
                k=k,
                items=len(items),
                planned=len(keys),
                judged=sum(item.judged for item in items),
                given_up=len(found) - len(finished),
                pass_at=_measure(items, k, missing, all_of_them=False),
                pass_all=_measure(items, k, missing, all_of_them=True),
            )
            for k in _sizes(samples)
        ]
    return rates


def _items(keys: Sequence[EpisodeKey], finished: Sequence[EpisodeSummary]) -> list[_Item]:
    outcomes: defaultdict[str, list[bool]] = defaultdict(list)
    planned: defaultdict[str, int] = defaultdict(int)
    for key in keys:
        planned[key.item_id] += 1
    for record in finished:
        if record.success is not None:
            outcomes[record.item_id].append(record.success)
    return [
        _Item(sum(outcomes[item_id]), len(outcomes[item_id]), count - len(outcomes[item_id]))
        for item_id, count in planned.items()
    ]


def _sizes(samples: int) -> list[int]:
    """Return 1, 2, 4 ... and the number of samples itself."""
    powers = [1 << shift for shift in range(samples.bit_length())]
    return sorted({size for size in powers if size <= samples} | {samples})


def _measure(
    items: Sequence[_Item], k: int, missing: MissingRule, *, all_of_them: bool
) -> Measured:
    estimate = pass_all if all_of_them else pass_at
    if missing == "error" and any(item.absent for item in items):
        return Measured(None, None, None)
    if missing == "drop":
        known = [estimate(it.judged, it.solved, k) for it in items if it.judged >= k]
        return _over_items(known)
    worst = _over_items([estimate(it.judged + it.absent, it.solved, k) for it in items])
    if missing == "fail" or not any(item.absent for item in items):
        return worst
    best = _over_items([estimate(it.judged + it.absent, it.solved + it.absent, k) for it in items])
    assert worst.value is not None and best.value is not None
    assert worst.interval is not None and best.interval is not None
    bounds = Interval(worst.value, best.value)
    return Measured(None, bounds, Interval(worst.interval.low, best.interval.high))


def _over_items(values: Sequence[float]) -> Measured:
    if not values:
        return Measured(None, None, None)
    mean = min(1.0, max(0.0, math.fsum(values) / len(values)))
    return Measured(mean, None, wilson_interval(mean, len(values)))
