"""`python -m orchestrator.evaluate`: a suite, one figure per environment.

A run like `orchestrator.sample`'s, with an evaluation's defaults (whole held-out split, greedy, one
sample), summed up by each environment's own metric: success rate or mean score.
"""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from orchestrator.atomic_file import write_atomically
from orchestrator.command_line import guarded
from orchestrator.config import RunConfig
from orchestrator.evaluation import as_data, evaluate_run
from orchestrator.evaluation_tables import TableFormat, print_tables
from orchestrator.report import RunReport
from orchestrator.run import RunOutcome
from orchestrator.sample import Sample, play_command

__all__ = ["EVALUATION", "Evaluate", "main"]

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

An evaluation is a run like those of orchestrator.sample, with other defaults: the suite games,
whole held-out splits, temperature 0, one sample per task, the expert as policy. --suite agenteval
plays the official tasks, agenteval-embedded as many of our own. Its figures are in
RUN/evaluation.json, too. --config FILE takes the flags from a TOML file, and --print-config
writes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate(Sample):
    """A run that is judged."""

    format: TableFormat = "table"
    """table: a line per environment and policy; categories: with a table of the categories of
    tasks; table3: the paper's table, one line per policy, as text, Markdown, LaTeX or CSV."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when every episode was played, 130 when interrupted."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded(
        lambda: play_command(
            arguments,
            name="evaluate",
            about=_ABOUT,
            default=Evaluate(run=EVALUATION),
            conclude=_conclude,
        )
    )


def _conclude(
    settings: Evaluate, outcome: RunOutcome, report: RunReport, console: Console
) -> Mapping[str, Any]:
    """Print the figures and their mean, and store them."""
    evaluation = evaluate_run(outcome, report)
    print_tables(evaluation, settings.format, console)
    results = as_data(evaluation)
    write_atomically(Path(outcome.folder, RESULTS_FILE), json_text.dumps(results, indent=2) + "\n")
    return results


if __name__ == "__main__":
    sys.exit(main())
