"""What an evaluation comes to: one figure per environment and policy, and what it rests on.

A figure is by the environment's own metric, or its suite's, from 0 to 1. An environment that was
not played, or only in part, leaves no mean: a mean over the others would be another benchmark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_runtime.scores import perfect_score
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.config import RunConfig
from orchestrator.pass_rates import PassRate, measure_pass_rates
from orchestrator.report import RunReport, measured_data
from orchestrator.run import RunOutcome
from orchestrator.statistics import (
    EnvironmentStatistics,
    Interval,
    Measured,
    MissingRule,
    summarise_categories,
)
from orchestrator.store import RunReader
from orchestrator.suites import SuiteMetric

__all__ = ["Evaluation", "Figure", "as_data", "evaluate_run", "mean_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One environment, or one category of it, played by one policy."""

    environment: str
    policy: str
    category: str
    """Empty = all of them."""
    metric: SuiteMetric
    measured: Measured
    planned: int | None
    judged: int
    given_up: int
    missing: int
    tokens_per_success: float | None
    """Tokens of all episodes per solved task; None = none was solved, or none were counted."""
    usd_per_success: float | None
    """None where none was solved or any cost is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A run, judged."""

    title: str
    """The suite's, and the flags that changed it."""
    complete: bool
    gaps: Mapping[str, str]
    """What of the suite was not played, by environment: why."""
    environments: Sequence[str]
    """In the order of the suite."""
    policies: Sequence[str]
    figures: Sequence[Figure]
    categories: Sequence[Figure]
    pass_rates: Sequence[PassRate]

    def figure(self, environment: str, policy: str) -> Figure | None:
        """Return a figure; None = the environment was not played by that policy."""
        wanted = (environment, policy)
        return next((it for it in self.figures if (it.environment, it.policy) == wanted), None)

    def mean(self, policy: str) -> Measured:
        """Return the mean over all environments of the suite; without a value where any lacks."""
        figures = [self.figure(name, policy) for name in self.environments]
        return mean_of(figures) if not self.gaps else Measured(None, None, None)


def mean_of(figures: Sequence[Figure | None]) -> Measured:
    """Return the mean; bounds where one has no more than bounds, nothing where one is not there."""
    ends: list[Interval] = []
    for figure in figures:
        measured = figure.measured if figure is not None else Measured(None, None, None)
        if measured.bounds is not None:
            ends.append(measured.bounds)
        elif measured.value is not None:
            ends.append(Interval(measured.value, measured.value))
        else:
            return Measured(None, None, None)
    if not ends:
        return Measured(None, None, None)
    low = sum(end.low for end in ends) / len(ends)
    high = sum(end.high for end in ends) / len(ends)
    if any(figure is not None and figure.measured.bounds is not None for figure in figures):
        return Measured(None, Interval(low, high), None)
    return Measured(low, None, None)


def evaluate_run(outcome: RunOutcome, report: RunReport) -> Evaluation:
    """Judge what a run recorded."""
    described, metric = outcome.described, _metric(outcome.config)
    with RunReader.open(outcome.folder) as reader:
        plan = reader.plan()
        records = list(reader.summaries(on_damage=lambda error: None))
    assert plan is not None
    rule: MissingRule = report.missing_rule
    environments, policies = outcome.config.environments, plan.policies

    def in_order(row: Figure | PassRate) -> tuple[int, str, int]:
        category = row.category if isinstance(row, Figure) else ""
        return environments.index(row.environment), category, policies.index(row.policy)

    figures = [_figure(row, described[row.environment], metric) for row in report.statistics]
    categories = [
        _figure(row, described[row.environment], metric, category)
        for category, row in summarise_categories(records, plan, missing=rule)
    ]
    return Evaluation(
        title=_title(outcome.config),
        complete=report.complete,
        gaps=outcome.gaps,
        environments=environments,
        policies=policies,
        figures=sorted(figures, key=in_order),
        categories=sorted(categories, key=in_order),
        pass_rates=sorted(measure_pass_rates(records, plan, missing=rule), key=in_order),
    )


def _metric(config: RunConfig) -> SuiteMetric:
    return config.resolved_suite.metric if config.resolved_suite is not None else ""


def _title(config: RunConfig) -> str:
    """Return what the results are of: a suite by its name, and by which flags it was changed."""
    suite = config.resolved_suite
    if suite is None or not suite.title:
        return "Evaluation"
    changes = ", ".join(f"--{name}" for name in config.suite_changes())
    return f"{suite.title}, changed by {changes}" if changes else suite.title


def _figure(
    row: EnvironmentStatistics,
    environment: pb.GetEnvironmentResponse,
    metric: SuiteMetric,
    category: str = "",
) -> Figure:
    own: SuiteMetric = (
        "mean score" if environment.metric == pb.METRIC_MEAN_SCORE else "success rate"
    )
    tokens = row.prompt_tokens + row.completion_tokens
    return Figure(
        environment=row.environment,
        policy=row.policy,
        category=category,
        metric=metric or own,
        measured=_measured(row, environment, metric or own),
        planned=row.planned,
        judged=row.judged if (metric or own) == "success rate" else row.finished,
        given_up=row.given_up,
        missing=row.missing,
        tokens_per_success=tokens / row.successes if tokens and row.successes else None,
        usd_per_success=(
            row.cost_usd / row.successes if row.cost_usd is not None and row.successes else None
        ),
    )


def _measured(
    row: EnvironmentStatistics, environment: pb.GetEnvironmentResponse, metric: SuiteMetric
) -> Measured:
    if metric == "success rate":
        return Measured(row.success_rate, row.success_bounds, row.success_interval)
    perfect = perfect_score(environment)

    def scaled(interval: Interval | None) -> Interval | None:
        return interval and Interval(interval.low / perfect, interval.high / perfect)

    value = None if row.mean_score is None else row.mean_score / perfect
    return Measured(value, scaled(row.score_bounds), scaled(row.score_interval))


def as_data(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as JSON data; intervals and bounds as [low, high]."""
    means = {policy: evaluation.mean(policy) for policy in evaluation.policies}
    return {
        "agentgym_complete": evaluation.complete,
        "suite": evaluation.title,
        "not_played": dict(evaluation.gaps),
        "figures": [_figure_data(figure) for figure in evaluation.figures],
        "means": {policy: mean.value for policy, mean in means.items()},
        "mean_bounds": {policy: _ends(mean.bounds) for policy, mean in means.items()},
        "pass_rates": [_pass_rate_data(rate) for rate in evaluation.pass_rates],
        "categories": [_figure_data(figure) for figure in evaluation.categories],
        "complete": evaluation.complete,
    }


def _figure_data(figure: Figure) -> dict[str, Any]:
    fields = {it.name: getattr(figure, it.name) for it in dataclasses.fields(figure)}
    return {**fields, **measured_data(fields.pop("measured"))}


def _pass_rate_data(rate: PassRate) -> dict[str, Any]:
    fields = {it.name: getattr(rate, it.name) for it in dataclasses.fields(rate)}
    for name in ("pass_at", "pass_all"):
        fields[name] = measured_data(fields[name])
    return fields


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)
