"""The table of environments behind `python -m env_servers list`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, load_environment

__all__ = ["print_catalogue"]


def print_catalogue(
    names: Sequence[str], data_dir: Path | None, console: Console | None = None
) -> int:
    """Print one line per environment; those that cannot be loaded say what they need.

    Returns 0. Raises UnknownEnvironment.
    """
    table = Table("environment", "version", "splits", "metric", "rounds", "runs", "profiles")
    for name in names:
        try:
            environment = load_environment(name)
            tasks = environment.load_tasks(EnvironmentConfig(data_dir))
        except EnvironmentUnavailable as error:
            table.add_row(name, "-", str(error), "-", "-", "-", "-")
            continue
        spec = environment.spec
        splits = ", ".join(f"{split} {size:,}" for split, size in tasks.splits().items())
        metric = spec.metric.name.lower().replace("_", " ")
        profiles = ", ".join(spec.profiles)
        rounds = str(spec.max_rounds)
        table.add_row(name, spec.version, splits, metric, rounds, spec.execution.value, profiles)
        tasks.close()
    (console or Console()).print(table)
    return 0
