"""`python -m orchestrator.evaluate`: AgentEval, one figure per environment.

A run like `orchestrator.sample`'s, with an evaluation's defaults (whole held-out split, greedy, one
sample), summed up by each environment's own metric: success rate or mean score.
"""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from agent_runtime.scores import metric_value
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.atomic_file import write_atomically
from orchestrator.command_line import guarded
from orchestrator.config import RunConfig
from orchestrator.run import RunOutcome
from orchestrator.sample import play_command
from orchestrator.statistics import EnvironmentStatistics, summarise_run
from orchestrator.store import RunReader

__all__ = ["EVALUATION", "main"]

EVALUATION = RunConfig(
    policies=(PolicySpec("expert"),),
    suite="games",
    episodes=0,
    agent=PolicyConfig(sampling=Sampling(temperature=0)),
)
"""An evaluation's defaults."""
RESULTS_FILE = "evaluation.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when every episode was played, 130 when interrupted."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded(
        lambda: play_command(arguments, name="evaluate", default=EVALUATION, conclude=_conclude)
    )


def _conclude(outcome: RunOutcome, console: Console) -> Mapping[str, Any]:
    """Print and store one figure per environment and policy, and their mean."""
    with RunReader.open(outcome.folder) as reader:
        statistics = summarise_run(reader.summaries())
    figures = [_figure(row, outcome.described[row.environment]) for row in statistics]
    table = Table("environment", "policy", "metric", "AgentEval", title="AgentEval")
    for row in figures:
        value = "-" if row["value"] is None else f"{100 * row['value']:.2f}"
        table.add_row(row["environment"], row["policy"], row["metric"], value)
    means = _means(figures)
    for policy, mean in means.items():
        table.add_row("mean", policy, "", "-" if mean is None else f"{100 * mean:.2f}")
    console.print(table)
    results = {"figures": figures, "means": means, "complete": outcome.complete}
    write_atomically(Path(outcome.folder, RESULTS_FILE), json_text.dumps(results, indent=2) + "\n")
    return results


def _figure(
    statistics: EnvironmentStatistics, environment: pb.GetEnvironmentResponse
) -> dict[str, Any]:
    by_score = environment.metric == pb.METRIC_MEAN_SCORE
    value = metric_value(
        environment, mean_score=statistics.mean_score, success_rate=statistics.success_rate
    )
    return {
        "environment": statistics.environment,
        "policy": statistics.policy,
        "metric": "mean score" if by_score else "success rate",
        "value": value,
        "episodes": statistics.finished,
    }


def _means(figures: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    means: dict[str, float | None] = {}
    for policy in dict.fromkeys(row["policy"] for row in figures):
        values = [row["value"] for row in figures if row["policy"] == policy]
        measured = [value for value in values if value is not None]
        means[policy] = sum(measured) / len(measured) if measured else None
    return means


if __name__ == "__main__":
    sys.exit(main())
