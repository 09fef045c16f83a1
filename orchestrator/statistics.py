"""What a run shows about a policy: success rates, scores, failures, each with its uncertainty.

A failed episode is never counted as a reward of 0; it is counted
beside the figures, by fault. Deterministic: the same records give the same digits. Knows only the
columns of records, no database and no output.

Samples of one item are not independent, so every interval is clustered by item: with one sample
per item it is the textbook interval, with more it does not pretend to more evidence than there is.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple

from orchestrator.records import EpisodeSummary
from orchestrator.seeds import derive

__all__ = [
    "EnvironmentStatistics",
    "Interval",
    "mean_interval",
    "success_interval",
    "summarise_run",
    "wilson_interval",
]

_CONFIDENCE: Final = 0.95
_RESAMPLES: Final = 1000
_BOOTSTRAP_ITEMS: Final = 2000
"""Above this many items the normal approximation is as good, and a bootstrap would take seconds."""
_LARGEST_SQUARED: Final = 1e150
"""Larger values are scaled first, for their squares and sums are no floats."""


class Interval(NamedTuple):
    """A confidence interval, 95 % where nothing else is said."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStatistics:
    """One environment played by one policy. None = there was nothing to compute it from."""

    environment: str
    policy: str
    episodes: int
    """Records, failed ones included."""
    items: int
    """Different items among them."""
    finished: int
    """Records without a failure: what all figures below but `failures` are about."""
    judged: int
    """Finished records that say whether they succeeded."""
    successes: int
    success_rate: float | None
    """successes / judged."""
    success_interval: Interval | None
    mean_score: float | None
    """Mean over the finished records that have a score, in the environment's unit."""
    score_interval: Interval | None
    mean_reward: float | None
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


def summarise_run(summaries: Iterable[EpisodeSummary]) -> list[EnvironmentStatistics]:
    """Return statistics per environment and policy, sorted by environment, then policy."""
    groups: defaultdict[tuple[str, str], list[EpisodeSummary]] = defaultdict(list)
    for summary in summaries:
        groups[summary.environment, summary.policy].append(summary)
    return [_summarise_group(*names, groups[names]) for names in sorted(groups)]


def _summarise_group(
    environment: str, policy: str, records: Sequence[EpisodeSummary]
) -> EnvironmentStatistics:
    finished = [record for record in records if not record.failed]
    failed = [record for record in records if record.failed]
    judged = [
        (record.item_id, float(record.success)) for record in finished if record.success is not None
    ]
    scores = [(record.item_id, record.score) for record in finished if record.score is not None]
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    return EnvironmentStatistics(
        environment=environment,
        policy=policy,
        episodes=len(records),
        items=len({record.item_id for record in records}),
        finished=len(finished),
        judged=len(judged),
        successes=sum(value == 1 for _, value in judged),
        success_rate=_mean([value for _, value in judged]),
        success_interval=success_interval(judged),
        mean_score=_mean([value for _, value in scores]),
        score_interval=mean_interval(scores),
        mean_reward=_mean([record.reward for record in finished if record.reward is not None]),
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
    clusters = _clusters(outcomes)
    trials = float(len(clusters))
    if len(outcomes) > len(clusters) > 1:
        spread = _clustered_variance(clusters)
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
        half = z * math.sqrt(_clustered_variance(clusters))
        return Interval(centre - half, centre + half)
    sums = [(math.fsum(cluster), len(cluster)) for cluster in clusters]
    generator = random.Random(derive("bootstrap", len(values), len(clusters)))
    means: list[float] = []
    for _ in range(_RESAMPLES):
        drawn = generator.choices(sums, k=len(sums))
        means.append(math.fsum(total for total, _ in drawn) / sum(size for _, size in drawn))
    means.sort()
    tail = (1 - confidence) / 2
    return Interval(means[int(tail * _RESAMPLES)], means[math.ceil((1 - tail) * _RESAMPLES) - 1])


def _clusters(values: Iterable[tuple[str, float]]) -> list[list[float]]:
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for item_id, value in values:
        clusters[item_id].append(value)
    # Sorted, so that the order in which episodes happened to end changes no digit.
    return [sorted(clusters[item_id]) for item_id in sorted(clusters)]


def _clustered_variance(clusters: Sequence[Sequence[float]]) -> float:
    """Return the variance of the overall mean, robust against dependence within clusters."""
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
