"""`python -m orchestrator.evaluate`: a suite, one figure per environment.

A run like `orchestrator.sample`'s, with an evaluation's defaults (whole held-out split, greedy, one
sample), summed up by each environment's own metric: success rate or mean score.
"""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from agent_runtime.scores import metric_value
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.atomic_file import write_atomically
from orchestrator.command_line import guarded
from orchestrator.config import RunConfig
from orchestrator.report import RunReport
from orchestrator.run import RunOutcome
from orchestrator.sample import play_command
from orchestrator.statistics import EnvironmentStatistics, Interval

__all__ = ["EVALUATION", "main"]

EVALUATION = RunConfig(
    policies=(PolicySpec("expert"),),
    suite="games",
    episodes=0,
    agent=PolicyConfig(sampling=Sampling(temperature=0.0)),
)
"""An evaluation's defaults."""
RESULTS_FILE = "evaluation.json"
_ABOUT: Final = """\
Measure policies: one figure per environment by its own metric (success rate or mean score), and
their mean.

An evaluation is a run like those of orchestrator.sample, with other defaults: whole held-out
splits, temperature 0, one sample per task, the expert as policy. Its figures are in
RUN/evaluation.json, too. --config FILE takes the flags from a TOML file, and --print-config
writes one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when every episode was played, 130 when interrupted."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded(
        lambda: play_command(
            arguments, name="evaluate", about=_ABOUT, default=EVALUATION, conclude=_conclude
        )
    )


def _conclude(outcome: RunOutcome, report: RunReport, console: Console) -> Mapping[str, Any]:
    """Print and store one figure per environment and policy, and their mean."""
    figures = [_figure(row, outcome.described[row.environment]) for row in report.statistics]
    means = {
        policy: _mean([row for row in figures if row["policy"] == policy], outcome.gaps)
        for policy in dict.fromkeys(row["policy"] for row in figures)
    }
    title = _title(outcome.config)
    table = Table(
        *("environment", "policy", "metric", "planned", "judged", "given up", "value"),
        title=title if report.complete else f"{title}, INCOMPLETE",
    )
    for row in figures:
        counts = [str(row[name]) for name in ("planned", "judged", "given_up")]
        table.add_row(row["environment"], row["policy"], row["metric"], *counts, _shown(row))
    for policy, mean in means.items():
        table.add_row("mean", policy, "", "", "", "", _shown(mean))
    console.print(table)
    results = {
        "agentgym_complete": report.complete,
        "suite": title,
        "not_played": dict(outcome.gaps),
        "figures": figures,
        "means": {policy: mean["value"] for policy, mean in means.items()},
        "mean_bounds": {policy: mean["bounds"] for policy, mean in means.items()},
        "complete": outcome.complete,
    }
    write_atomically(Path(outcome.folder, RESULTS_FILE), json_text.dumps(results, indent=2) + "\n")
    return results


def _figure(
    statistics: EnvironmentStatistics, environment: pb.GetEnvironmentResponse
) -> dict[str, Any]:
    by_score = environment.metric == pb.METRIC_MEAN_SCORE

    def ends(scores: Interval | None, successes: Interval | None) -> list[float | None] | None:
        chosen = scores if by_score else successes
        if chosen is None:
            return None
        return [metric_value(environment, mean_score=end, success_rate=end) for end in chosen]

    return {
        "environment": statistics.environment,
        "policy": statistics.policy,
        "metric": "mean score" if by_score else "success rate",
        "value": metric_value(
            environment, mean_score=statistics.mean_score, success_rate=statistics.success_rate
        ),
        "bounds": ends(statistics.score_bounds, statistics.success_bounds),
        "interval": ends(statistics.score_interval, statistics.success_interval),
        "planned": statistics.planned,
        "judged": statistics.finished,
        "given_up": statistics.given_up,
        "missing": statistics.missing,
    }


def _title(config: RunConfig) -> str:
    """Return what the results are of: a suite by its name, and by which flags it was changed."""
    suite = config.resolved_suite
    if suite is None or not suite.title:
        return "Evaluation"
    changes = ", ".join(f"--{name}" for name in config.suite_changes())
    return f"{suite.title}, changed by {changes}" if changes else suite.title


def _mean(rows: Sequence[Mapping[str, Any]], gaps: Mapping[str, str]) -> dict[str, Any]:
    """Return the mean over all environments; bounds where one of them has no more than bounds.

    Neither, where one has no figure at all: a mean over the others would be another benchmark.
    """
    if gaps:
        return {"value": None, "bounds": None}
    ends = [row["bounds"] or [row["value"], row["value"]] for row in rows]
    if any(end is None for pair in ends for end in pair):
        return {"value": None, "bounds": None}
    low, high = (sum(end) / len(rows) for end in zip(*ends, strict=True))
    if any(row["bounds"] for row in rows):
        return {"value": None, "bounds": [low, high]}
    return {"value": low, "bounds": None}


def _shown(row: Mapping[str, Any]) -> str:
    if row["value"] is not None:
        return f"{100 * row['value']:.2f}"
    if row["bounds"] is None:
        return "-"
    low, high = row["bounds"]
    return f"{100 * low:.2f}..{100 * high:.2f}"


if __name__ == "__main__":
    sys.exit(main())
