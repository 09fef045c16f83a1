"""What a run shows about a policy: success rates, scores, failures, each with its uncertainty.

A failed episode is no reward of 0, and leaving it out is no truth either: what fails is seldom a
random part. So an episode that is missing (given up, or not played yet) is never dropped silently.
By default a figure becomes two bounds, all missing ones at the worst and all at the best, and the
interval reaches from the lower one's low end to the upper one's high end. Deterministic: the same
records give the same digits. Knows only the columns of records, no database and no output.

Samples of one item are not independent, so every interval is clustered by item: with one sample
per item it is the textbook interval, with more it does not pretend to more evidence than there is.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

from orchestrator.records import EpisodeKey, EpisodeSummary
from orchestrator.run_plan import RunPlan
from orchestrator.seeds import derive

__all__ = [
    "EnvironmentStatistics",
    "Interval",
    "Measured",
    "MissingRule",
    "mcnemar_p",
    "mean_interval",
    "measure_difference",
    "measure_score",
    "measure_success",
    "success_interval",
    "summarise_categories",
    "summarise_run",
    "wilson_interval",
]

_CONFIDENCE: Final = 0.95
_RESAMPLES: Final = 1000
_BOOTSTRAP_ITEMS: Final = 2000
"""Above this many items the normal approximation is as good, and a bootstrap would take seconds."""
_LARGEST_SQUARED: Final = 1e150
"""Larger values are scaled first, for their squares and sums are no floats."""


MissingRule = Literal["bounds", "fail", "drop", "error"]
"""What missing episodes count as: the worst and the best, failures, nothing; or they leave no
figures at all."""


class Interval(NamedTuple):
    """A confidence interval, 95 % where nothing else is said; or the bounds of a figure."""

    low: float
    high: float


_SHARE: Final = Interval(0, 1)


class Measured(NamedTuple):
    """A figure: a value with its interval, or bounds with an interval that holds them."""

    value: float | None
    bounds: Interval | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStatistics:
    """One environment played by one policy. None = there was nothing to compute it from."""

    environment: str
    policy: str
    planned: int | None
    """Episodes that the run was to play; None = it did not record its plan."""
    episodes: int
    """Records, failed ones included."""
    items: int
    """Different items among them."""
    finished: int
    """Records without a failure."""
    judged: int
    """Finished records that say whether they succeeded."""
    given_up: int
    """Records that failed, so that nobody knows how the episode would have ended."""
    missing: int
    """Planned episodes without a finished record: given up, or not played (yet)."""
    successes: int
    success_rate: float | None
    """successes / judged; None where missing episodes leave only bounds."""
    success_bounds: Interval | None
    """The rate if all missing episodes failed, and if all succeeded; None = none is missing."""
    success_interval: Interval | None
    """Where episodes are missing it holds what they could be, too."""
    mean_score: float | None
    """Mean over the finished records that have a score, in the environment's unit; None where
    missing episodes leave only bounds."""
    score_bounds: Interval | None
    """The mean if all missing episodes scored 0, and if all were perfect (or scored as the lowest
    and highest of the group where those are beyond)."""
    score_interval: Interval | None
    mean_reward: float | None
    """Mean over the finished records; None where episodes are missing and are not to be dropped."""
    failures: Mapping[str, int]
    """Failed records by fault, for example {"POLICY": 2}; sorted by name."""
    failure_reasons: Mapping[str, int]
    stop_reasons: Mapping[str, int]
    retried: int
    """Records that needed more than one attempt."""
    mean_rounds: float | None
    prompt_tokens: int
    """Over all records: failed ones cost, too."""
    completion_tokens: int
    cost_usd: float | None
    """None where any cost is unknown."""
    environment_seconds: float
    policy_seconds: float


def summarise_run(
    summaries: Iterable[EpisodeSummary],
    *,
    plan: RunPlan | None = None,
    missing: MissingRule = "bounds",
    intervals: bool = True,
) -> list[EnvironmentStatistics]:
    """Return statistics per environment and policy, sorted by environment, then policy.

    Args:
        summaries: The records of the run.
        plan: What was to be played; None = the records are all there is to know about it.
        missing: What episodes count as that have no finished record.
        intervals: Without them it takes less time.
    """
    planned: defaultdict[tuple[str, str], list[EpisodeKey]] = defaultdict(list)
    for key in plan.keys() if plan is not None else ():
        planned[key.environment, key.policy].append(key)
    groups: defaultdict[tuple[str, str], list[EpisodeSummary]] = defaultdict(list)
    for summary in summaries:
        groups[summary.environment, summary.policy].append(summary)
    perfect: Mapping[str, float] = plan.perfect_scores if plan is not None else {}
    return [
        _summarise_group(
            *names,
            groups[names],
            planned[names] if plan is not None else None,
            missing,
            perfect.get(names[0], 1.0),
            intervals=intervals,
        )
        for names in sorted(groups.keys() | planned.keys())
    ]


def summarise_categories(
    summaries: Sequence[EpisodeSummary], plan: RunPlan, *, missing: MissingRule = "bounds"
) -> list[tuple[str, EnvironmentStatistics]]:
    """Return pairs (category, statistics), sorted by environment, category, then policy.

    The category of an item is what any record of it says; where none does it is empty.
    """
    category_of = {(it.environment, it.item_id): it.category for it in summaries if it.category}

    def group_of(it: EpisodeKey | EpisodeSummary) -> tuple[str, str, str]:
        return it.environment, category_of.get((it.environment, it.item_id), ""), it.policy

    planned: defaultdict[tuple[str, str, str], list[EpisodeKey]] = defaultdict(list)
    for key in plan.keys():  # noqa: SIM118
        planned[group_of(key)].append(key)
    groups: defaultdict[tuple[str, str, str], list[EpisodeSummary]] = defaultdict(list)
    for summary in summaries:
        groups[group_of(summary)].append(summary)
    return [
        (
            category,
            _summarise_group(
                environment,
                policy,
                groups[environment, category, policy],
                planned[environment, category, policy],
                missing,
                plan.perfect_scores.get(environment, 1.0),
            ),
        )
        for environment, category, policy in sorted(groups.keys() | planned.keys())
    ]


def measure_success(
    records: Sequence[EpisodeSummary],
    planned: Collection[EpisodeKey],
    *,
    missing: MissingRule = "bounds",
) -> Measured:
    """Return the success rate of records, given what was to be played (none = the records)."""
    return _measure_success(*_by_key(records, planned), missing, success_interval)


def measure_score(
    records: Sequence[EpisodeSummary],
    planned: Collection[EpisodeKey],
    *,
    perfect: float = 1.0,
    missing: MissingRule = "bounds",
) -> Measured:
    """Return the mean score of records; `perfect` is that of a perfect episode."""
    return _measure_score(*_by_key(records, planned), perfect, missing, mean_interval)


_Finished = Mapping[EpisodeKey, EpisodeSummary]
"""Records without a failure."""
_IntervalOf = Callable[[Sequence[tuple[str, float]]], Interval | None]


def _by_key(
    records: Iterable[EpisodeSummary], planned: Iterable[EpisodeKey]
) -> tuple[_Finished, frozenset[EpisodeKey]]:
    """Return the finished records, and the keys that should have one.

    Making keys is most of the time that summing up takes: each is made once.
    """
    keyed = {record.key: record for record in records}
    finished = {key: record for key, record in keyed.items() if not record.failed}
    return finished, frozenset(planned) | keyed.keys()


def _measure_success(
    finished: _Finished, keys: Collection[EpisodeKey], rule: MissingRule, interval_of: _IntervalOf
) -> Measured:
    outcomes = {
        key: float(record.success) for key, record in finished.items() if record.success is not None
    }
    return _measure(outcomes, keys, len(finished), interval_of, _SHARE, rule)


def _measure_score(
    finished: _Finished,
    keys: Collection[EpisodeKey],
    perfect: float,
    rule: MissingRule,
    interval_of: _IntervalOf,
) -> Measured:
    scores = {key: record.score for key, record in finished.items() if record.score is not None}
    scale = Interval(min((0.0, *scores.values())), max((perfect, *scores.values())))
    return _measure(scores, keys, len(finished), interval_of, scale, rule)


def _summarise_group(
    environment: str,
    policy: str,
    records: Sequence[EpisodeSummary],
    planned: Sequence[EpisodeKey] | None,
    rule: MissingRule,
    perfect: float,
    *,
    intervals: bool = True,
) -> EnvironmentStatistics:
    finished_by_key, keys = _by_key(records, planned or ())
    finished = list(finished_by_key.values())
    failed = [record for record in records if record.failed]
    missing = len(keys) - len(finished)
    outcomes = [record.success for record in finished if record.success is not None]
    of_success, of_score = (
        (success_interval, mean_interval) if intervals else (_no_interval, _no_interval)
    )
    success = _measure_success(finished_by_key, keys, rule, of_success)
    score = _measure_score(finished_by_key, keys, perfect, rule, of_score)
    rewards = [record.reward for record in finished if record.reward is not None]
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    return EnvironmentStatistics(
        environment=environment,
        policy=policy,
        planned=None if planned is None else len(planned),
        episodes=len(records),
        items=len({record.item_id for record in records}),
        finished=len(finished),
        judged=len(outcomes),
        given_up=len(failed),
        missing=missing,
        successes=sum(outcomes),
        success_rate=success.value,
        success_bounds=success.bounds,
        success_interval=success.interval,
        mean_score=score.value,
        score_bounds=score.bounds,
        score_interval=score.interval,
        mean_reward=None if missing and rule != "drop" else _mean(rewards),
        failures=_count(record.fault or "" for record in failed),
        failure_reasons=_count(record.reason or "" for record in failed),
        stop_reasons=_count(record.stop_reason for record in finished),
        retried=sum(record.attempt > 1 for record in records),
        mean_rounds=_mean([record.rounds for record in finished]),
        prompt_tokens=sum(record.prompt_tokens for record in records),
        completion_tokens=sum(record.completion_tokens for record in records),
        cost_usd=math.fsum(costs) if len(costs) == len(records) else None,
        environment_seconds=math.fsum(record.environment_seconds for record in records),
        policy_seconds=math.fsum(record.policy_seconds for record in records),
    )


def _no_interval(values: Sequence[tuple[str, float]]) -> None:
    """Compute nothing."""


def _measure(
    values: Mapping[EpisodeKey, float],
    keys: Collection[EpisodeKey],
    finished: int,
    interval_of: _IntervalOf,
    scale: Interval,
    rule: MissingRule,
) -> Measured:
    """Return the mean of values, given all keys that should have one, and how many were played."""
    known = [(key.item_id, value) for key, value in values.items()]
    absent = [key.item_id for key in keys if key not in values]
    # What has no such figure although it was played is not measured by it.
    unmeasured = not known and finished > 0
    if unmeasured or not absent or rule == "drop":
        return Measured(_mean([value for _, value in known]), None, interval_of(known))
    if rule == "error":
        return Measured(None, None, None)
    worst = [*known, *((item_id, scale.low) for item_id in absent)]
    if rule == "fail":
        return Measured(_mean([value for _, value in worst]), None, interval_of(worst))
    best = [*known, *((item_id, scale.high) for item_id in absent)]
    low, high = (_mean([value for _, value in end]) for end in (worst, best))
    bounds = None if low is None or high is None else Interval(low, high)
    lowest, highest = interval_of(worst), interval_of(best)
    interval = Interval(lowest.low, highest.high) if lowest and highest else None
    return Measured(None, bounds, interval)


def measure_difference(
    pairs: Sequence[tuple[str, float | None, float | None]],
    *,
    scale: Interval = _SHARE,
    missing: MissingRule = "bounds",
) -> Measured:
    """Return the mean of second minus first over pairs (item id, first, second); None = missing.

    The interval is a paired bootstrap over items. It is None where no pair differs from another:
    such a sample says nothing of how far a difference could go.

    Args:
        pairs: One per episode that both were to play.
        scale: The worst and the best value that a missing one could have.
        missing: As everywhere: at its bounds the difference is what it would be if everything
            missing had gone for the first, and for the second.
    """
    known = [(item, first, second) for item, first, second in pairs if None not in (first, second)]
    if missing == "error" and len(known) < len(pairs):
        return Measured(None, None, None)

    def ends(first_missing: float, second_missing: float) -> list[tuple[str, float]]:
        return [
            (
                item,
                (second_missing if second is None else second)
                - (first_missing if first is None else first),
            )
            for item, first, second in (known if missing == "drop" else pairs)
        ]

    if missing in ("drop", "fail") or len(known) == len(pairs):
        values = ends(scale.low, scale.low)
        return Measured(_mean([value for _, value in values]), None, _spread(values))
    worst, best = ends(scale.high, scale.low), ends(scale.low, scale.high)
    low, high = (_mean([value for _, value in end]) for end in (worst, best))
    bounds = None if low is None or high is None else Interval(low, high)
    lowest, highest = _spread(worst), _spread(best)
    interval = Interval(lowest.low, highest.high) if lowest and highest else None
    return Measured(None, bounds, interval)


def _spread(values: Sequence[tuple[str, float]]) -> Interval | None:
    return mean_interval(values) if len({value for _, value in values}) > 1 else None


def mcnemar_p(won: int, lost: int) -> float:
    """Return the two-sided p value of McNemar's exact test.

    Args:
        won: Items that the second solved and the first did not.
        lost: Items that the first solved and the second did not.
    """
    turned = won + lost
    term = total = 1  # binomial coefficients, exactly: their sum is beyond floats
    for count in range(min(won, lost)):
        term = term * (turned - count) // (count + 1)
        total += term
    return min(1.0, 2 * total / 2**turned)


def wilson_interval(
    rate: float, trials: float, *, confidence: float = _CONFIDENCE
) -> Interval | None:
    """Return Wilson's score interval of a success rate; `trials` may be an effective number."""
    if trials <= 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shrink = 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / shrink
    # At a rate of 0 or 1 the bound is that rate; rounding must not put it beside it.
    low = 0.0 if rate == 0 else max(0.0, centre - half)
    high = 1.0 if rate == 1 else min(1.0, centre + half)
    return Interval(low, high)


def success_interval(
    outcomes: Sequence[tuple[str, float]], *, confidence: float = _CONFIDENCE
) -> Interval | None:
    """Return the interval of a success rate from pairs (item id, 0 or 1), clustered by item.

    Wilson's interval with as many trials as independent ones would give the same spread between
    items, at least the number of items and at most the number of outcomes.
    """
    rate = _mean([value for _, value in outcomes])
    if rate is None:
        return None
    items = len({item_id for item_id, _ in outcomes})
    trials = float(items)
    if len(outcomes) > items > 1:
        spread = _clustered_variance(_clusters(outcomes).values())
        if spread > 0:
            trials = max(rate * (1 - rate) / spread, trials)
        elif 0 < rate < 1:
            trials = math.inf
        trials = min(trials, float(len(outcomes)))
    return wilson_interval(rate, trials, confidence=confidence)


def mean_interval(
    values: Sequence[tuple[str, float]], *, confidence: float = _CONFIDENCE
) -> Interval | None:
    """Return the interval of a mean from pairs (item id, value): a percentile bootstrap over items.

    None with fewer than two items: one item says nothing about the spread between items.
    """
    clusters = _clusters(values)
    if len(clusters) < 2:
        return None
    largest = max(abs(value) for _, value in values)
    if largest > _LARGEST_SQUARED:
        scaled = [(item_id, value / largest) for item_id, value in values]
        low, high = mean_interval(scaled, confidence=confidence) or (math.nan, math.nan)
        return Interval(low * largest, high * largest)
    if len(clusters) > _BOOTSTRAP_ITEMS:
        centre = math.fsum(value for _, value in values) / len(values)
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        half = z * math.sqrt(_clustered_variance(clusters.values()))
        return Interval(centre - half, centre + half)
    # In the order of items: that in which episodes happened to end changes no digit.
    sums = [(math.fsum(clusters[item_id]), len(clusters[item_id])) for item_id in sorted(clusters)]
    generator = random.Random(derive("bootstrap", len(values), len(clusters)))
    means: list[float] = []
    for _ in range(_RESAMPLES):
        drawn = generator.choices(sums, k=len(sums))
        means.append(math.fsum(total for total, _ in drawn) / sum(size for _, size in drawn))
    means.sort()
    tail = (1 - confidence) / 2
    return Interval(means[int(tail * _RESAMPLES)], means[math.ceil((1 - tail) * _RESAMPLES) - 1])


def _clusters(values: Iterable[tuple[str, float]]) -> Mapping[str, Sequence[float]]:
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for item_id, value in values:
        clusters[item_id].append(value)
    return clusters


def _clustered_variance(clusters: Collection[Sequence[float]]) -> float:
    """Return the variance of the overall mean, robust against dependence within clusters.

    Sums are exact before they are rounded, so that their order changes no digit.
    """
    size = sum(len(cluster) for cluster in clusters)
    centre = math.fsum(value for cluster in clusters for value in cluster) / size
    residuals = math.fsum(
        math.fsum(value - centre for value in cluster) ** 2 for cluster in clusters
    )
    return residuals / (size * size) * len(clusters) / (len(clusters) - 1)


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # their mean is a float, their sum is not
        return math.fsum(value / len(values) for value in values)


def _count(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
