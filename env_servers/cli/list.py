"""`python -m env_servers list`: a table of environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    Metric,
    environment_names,
    load_environment,
)
from env_servers.sdk.data import official_data_dir

__all__ = ["List", "print_environments"]

_METRICS = {Metric.SUCCESS_RATE: "success", Metric.MEAN_SCORE: "score"}


@dataclass(frozen=True, kw_only=True)
class List:
    """List environments, their splits and how they are measured."""

    environments: tyro.conf.Positional[tuple[str, ...]] = ()
    """Only these; default: all that are installed."""
    data: Path | None = None
    """Folder of official data files; default: AGENTGYM_DATA."""

    def run(self) -> int:
        """Print the table; returns the exit status."""
        print_environments(
            self.environments or environment_names(), self.data or official_data_dir()
        )
        return 0


def print_environments(
    names: Sequence[str], data_dir: Path | None, console: Console | None = None
) -> None:
    """Print one line per environment; those that cannot be loaded say what they need.

    Raises:
        UnknownEnvironment: There is no environment of one of the names.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    # Nothing is cut: a name is one word, and lists are broken between their entries.
    for heading in ("environment", "version", "splits", "metric", "rounds", "runs", "profiles"):
        table.add_column(heading, no_wrap=heading == "environment", overflow="fold")
    for name in names:
        try:
            environment = load_environment(name)
            tasks = environment.load_tasks(EnvironmentConfig(data_dir))
        except EnvironmentUnavailable as error:
            table.add_row(name, "-", str(error), "-", "-", "-", "-")
            continue
        spec = environment.spec
        splits = "\n".join(f"{split} {size:,}" for split, size in tasks.splits().items())
        metric = _METRICS[spec.metric]
        profiles = "\n".join(spec.profiles)
        rounds = str(spec.max_rounds)
        table.add_row(name, spec.version, splits, metric, rounds, spec.execution.value, profiles)
        tasks.close()
    (console or Console()).print(table)
