"""Command: judge a run's finished episodes anew, beside its records.

    python -m orchestrator.rescore RUN --threshold 0.5    another score makes a success

Writes `RUN/scores/NAME/` and changes no record. Called again with the same settings it goes on
with what has no score yet.
"""

from __future__ import annotations

import json as json_text
import math
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import tyro
from rich.progress import Progress

from agent_runtime.redaction import Json, redact
from orchestrator.command_line import ObservationOptions, make_console, run_command, run_loop
from orchestrator.configuration import CommaSeparated
from orchestrator.errors import EpisodesMissing, UsageError
from orchestrator.manifest import begin_session
from orchestrator.run_folder import find_run
from orchestrator.scorings.comparison import (
    Comparison,
    comparison_data,
    print_comparison,
    read_comparison,
)
from orchestrator.scorings.scoring import Scorer, score_run
from orchestrator.scorings.table import ScoresWriter, check_scoring_name
from orchestrator.scorings.threshold import ThresholdScorer
from orchestrator.statistics import MissingRule
from orchestrator.store import RunReader

__all__ = ["RescoreOptions", "main"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RescoreOptions:
    """Judge a run's finished episodes anew, beside its records."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or its name within `--runs`."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    name: str = ""
    """Name of the scoring; default: from how it judges, for example threshold-0.5."""
    threshold: float | None = None
    """Judge by the recorded scores: success is a score of at least this, in the environment's own
    unit."""
    environments: Annotated[CommaSeparated, tyro.conf.arg(name="env")] = ()
    """Only these environments of the run, separated by commas."""
    missing: MissingRule = "bounds"
    """What episodes without a new score count as: bounds shows what the figures are if all of them
    fail and if all succeed; fail counts them as failures; drop leaves them out; error gives no
    figures."""
    concurrency: int = 64
    """Episodes that are judged at once."""
    json: bool = False
    """Print the comparison as JSON on stdout, and everything else on stderr."""
    observation: Annotated[ObservationOptions, tyro.conf.arg(name="")] = field(
        default_factory=ObservationOptions
    )

    def check(self) -> None:
        """Raise UsageError for what cannot be meant."""
        if self.threshold is None:
            raise UsageError("say how to judge: --threshold SCORE")
        if not math.isfinite(self.threshold):
            raise UsageError("--threshold is a number")
        if self.concurrency < 1:
            raise UsageError("--concurrency is at least 1")
        check_scoring_name(self.scoring_name)

    @property
    def scoring_name(self) -> str:
        """The name of the scoring."""
        return self.name or f"threshold-{self.threshold:g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when every finished episode has a score, 1 when not."""
    return run_command(RescoreOptions, _rescore, argv, program="python -m orchestrator.rescore")


def _rescore(options: RescoreOptions) -> int:
    options.observation.configure()
    options.check()
    with RunReader.open(find_run(options.run, options.runs)) as run:
        environments = _environments(run, options)
        comparison = run_loop(_score(run, options, environments))
        print_comparison(make_console(stderr=options.json), comparison)
        if options.json:
            sys.stdout.write(json_text.dumps(comparison_data(comparison), indent=2) + "\n")
        if options.missing == "error" and not comparison.complete:
            raise EpisodesMissing(f"{run.folder}: {comparison.missing} episodes have no new score")
    return 0 if comparison.scored == comparison.finished else 1


def _environments(run: RunReader, options: RescoreOptions) -> list[str]:
    played = {identity.name for identity in run.manifest.environments}
    unknown = sorted(set(options.environments) - played)
    if unknown:
        raise UsageError(f"the run has no environment {unknown[0]!r}", valid=sorted(played))
    return sorted(options.environments or played)


async def _score(run: RunReader, options: RescoreOptions, environments: list[str]) -> Comparison:
    console = make_console(stderr=True)
    async with _open_scorer(run, options, environments) as (scorer, settings):
        settings = cast("dict[str, Json]", redact(settings | {"environments": environments}))
        session = begin_session()
        with (
            ScoresWriter.begin(run, options.scoring_name, settings, session) as scores,
            Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        ):
            task = progress.add_task("judging", total=None)
            await score_run(
                run,
                scores,
                scorer,
                environments=environments,
                concurrency=options.concurrency,
                on_score=lambda done, total: progress.update(task, completed=done, total=total),
            )
            return read_comparison(run, scores, missing=options.missing)


@asynccontextmanager
async def _open_scorer(
    run: RunReader, options: RescoreOptions, environments: list[str]
) -> AsyncGenerator[tuple[Scorer, dict[str, Any]]]:
    """Yield what judges, and the settings that say so."""
    assert options.threshold is not None
    yield ThresholdScorer(options.threshold), {"threshold": options.threshold}


if __name__ == "__main__":
    sys.exit(main())
