"""What a report says before its conversations: figures, distributions, failures, settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree

from orchestrator.configuration import flatten
from orchestrator.distributions import list_distributions
from orchestrator.html_report.charts import histogram_chart
from orchestrator.html_report.elements import Content, element, table
from orchestrator.manifest import Manifest
from orchestrator.pass_rates import PassRate, measure_pass_rates
from orchestrator.records import EpisodeSummary, blamed
from orchestrator.report import (
    RunReport,
    count_text,
    figure_text,
    list_remarks,
    list_warnings,
)
from orchestrator.run_plan import RunPlan
from orchestrator.statistics import EnvironmentStatistics, summarise_categories

__all__ = ["summary_sections"]

_FIGURES: Final = ("planned", "judged", "given up", "success %", "score", "rounds", "tokens", "$")
_NOTE: Final = (
    "95 % intervals in brackets, clustered by item. low..high: all missing episodes failed .. all "
    "succeeded, and intervals hold both."
)


def summary_sections(
    report: RunReport,
    manifest: Manifest,
    records: Sequence[EpisodeSummary],
    plan: RunPlan | None,
    scores: str = "",
) -> Iterator[ElementTree.Element]:
    """Yield the sections of a report in order; `scores` names the scoring that judged."""
    yield _heading(report, manifest, scores)
    yield _results(report, records, plan)
    yield _distributions(records)
    yield _failures(report)
    yield _configuration(manifest)


def _heading(report: RunReport, manifest: Manifest, scores: str) -> ElementTree.Element:
    session = manifest.sessions[-1]
    started = f"started {len(manifest.sessions)} times, last by version {session.code}"
    facts = f"{manifest.run_id}: policy {manifest.policy}, seed {manifest.run_seed}"
    lines = [element("p", f"Scores and successes are those of {scores}.")] if scores else []
    lines += [element("p", line, class_="bad") for line in list_warnings(report)]
    lines += [element("p", line) for line in list_remarks(report)]
    return element(
        "header",
        element("h1", f"Run {report.folder.resolve().name}"),
        element("p", f"{facts}, begun {manifest.created}; {started}", class_="note"),
        *lines,
    )


# ---------------------------------------------------------------- figures


def _results(
    report: RunReport, records: Sequence[EpisodeSummary], plan: RunPlan | None
) -> ElementTree.Element:
    rows = [[it.environment, it.policy, *_figures(it)] for it in report.statistics]
    parts: list[Content] = [
        element("h2", "Results"),
        table(("environment", "policy", *_FIGURES), rows, numbers=len(_FIGURES)),
        element("p", _NOTE, class_="note"),
    ]
    rule = report.missing_rule
    if plan is not None and any(record.category for record in records):
        categories = [
            [it.environment, category or "?", it.policy, *_figures(it)]
            for category, it in summarise_categories(records, plan, missing=rule)
        ]
        headings = ("environment", "category", "policy", *_FIGURES)
        parts += [element("h3", "By category"), table(headings, categories, numbers=len(_FIGURES))]
    rates = measure_pass_rates(records, plan, missing=rule) if plan is not None else []
    if rates:
        names = ("environment", "policy", "planned", "judged", "k", "pass@k %", "pass^k %")
        parts += [
            element("h3", "Several samples of a task"),
            table(names, [_pass_rate(rate) for rate in rates], numbers=5),
            element(
                "p", "pass@k: one of k samples solves the task; pass^k: all do.", class_="note"
            ),
        ]
    return element("section", *parts)


def _figures(entry: EnvironmentStatistics) -> list[str]:
    return [
        "?" if entry.planned is None else str(entry.planned),
        str(entry.judged or entry.finished),
        str(entry.given_up),
        figure_text(entry.success_rate, entry.success_bounds, entry.success_interval, percent=True),
        figure_text(entry.mean_score, entry.score_bounds, entry.score_interval, percent=False),
        "-" if entry.mean_rounds is None else f"{entry.mean_rounds:.1f}",
        count_text(entry.prompt_tokens + entry.completion_tokens),
        "-" if entry.cost_usd is None else f"{entry.cost_usd:.4f}",
    ]


def _pass_rate(rate: PassRate) -> list[str]:
    figures = [figure_text(*measured, percent=True) for measured in (rate.pass_at, rate.pass_all)]
    return [
        *(rate.environment, rate.policy, str(rate.planned), str(rate.judged), str(rate.k)),
        *figures,
    ]


def _distributions(records: Sequence[EpisodeSummary]) -> ElementTree.Element:
    parts: list[Content] = [
        element("h2", "Distributions"),
        element("p", "Of finished episodes; bars count episodes.", class_="note"),
    ]
    for environment, policy in sorted({(it.environment, it.policy) for it in records}):
        own = [it for it in records if (it.environment, it.policy) == (environment, policy)]
        charts = [histogram_chart(name, it) for name, it in list_distributions(own).items()]
        if charts:
            parts += [element("h3", f"{environment}, {policy}")]
            parts += [element("div", *charts, class_="charts")]
    return element("section", *parts)


# ---------------------------------------------------------------- failures and settings


def _failures(report: RunReport) -> ElementTree.Element:
    heading = element("h2", "Failures")
    if not report.reasons:
        return element("section", heading, element("p", "No attempt failed."))
    headings = ("fault", "reason", "first message", "episode", "attempts", "given up")
    rows = [
        [
            blamed(it.fault),
            it.reason,
            element("pre", it.message),
            it.episode_id,
            str(it.attempts),
            str(it.given_up),
        ]
        for it in report.reasons
    ]
    return element("section", heading, table(headings, rows, numbers=2))


def _configuration(manifest: Manifest) -> ElementTree.Element:
    document = dataclasses.asdict(manifest)
    for session in document["sessions"]:
        del session["settings"]  # how each start of the run was played: pages of it
    rows = [[name, element("pre", value)] for name, value in flatten(document).items()]
    return element(
        "section",
        element("h2", "Configuration"),
        element(
            "p",
            "The run's manifest, without what only says how it was played; it holds no secrets.",
            class_="note",
        ),
        table(("setting", "value"), rows),
    )
