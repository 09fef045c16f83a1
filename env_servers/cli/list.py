"""`python -m env_servers list`: a table of environments, or everything about some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from env_servers.sdk import (
    Environment,
    EnvironmentConfig,
    EnvironmentUnavailable,
    Metric,
    TaskSet,
    environment_names,
    load_environment,
)
from env_servers.sdk.data import official_data_dir

__all__ = ["List", "describe_environments", "print_environments"]

_METRICS: Final = {Metric.SUCCESS_RATE: "success rate", Metric.MEAN_SCORE: "mean score"}
_NARROW: Final = 80


@dataclass(frozen=True, kw_only=True)
class List:
    """List environments and their tasks; those that are named with splits, profiles and formats."""

    environments: tyro.conf.Positional[tuple[str, ...]] = ()
    """Everything about these; default: a line for each that is installed."""
    data: Path | None = None
    """Folder of official data files; default: AGENTGYM_DATA."""

    def run(self) -> int:
        """Print; returns the exit status."""
        data, console = self.data or official_data_dir(), Console()
        if not console.is_terminal:
            console.width = _NARROW
        if self.environments:
            describe_environments(self.environments, data, console)
        else:
            print_environments(environment_names(), data, console)
        return 0


def print_environments(names: Sequence[str], data_dir: Path | None, console: Console) -> None:
    """Print one line per environment; below them what those need that cannot be loaded.

    Raises:
        UnknownEnvironment: There is no environment of one of the names.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("environment", no_wrap=True)
    for heading in ("train", "eval", "official", "other", "rounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("metric", "runs"):
        table.add_column(heading, no_wrap=True)
    missing: list[str] = []
    for name in names:
        try:
            environment, tasks = _load(name, data_dir)
        except EnvironmentUnavailable as error:
            missing.append(f"{name}: {error}")
            continue
        spec = environment.spec
        sizes = [f"{size:,}" if size else "-" for size in _sizes(tasks)]
        tasks.close()
        how = (str(spec.max_rounds), _METRICS[spec.metric], spec.execution.value)
        table.add_row(name, *sizes, *how)
    console.print(table)
    for problem in missing:
        console.print(Text(problem))
    console.print(Text("python -m env_servers list NAME says everything about one."))


def _load(name: str, data_dir: Path | None) -> tuple[type[Environment], TaskSet]:
    environment = load_environment(name)
    return environment, environment.load_tasks(EnvironmentConfig(data_dir))


def _sizes(tasks: TaskSet) -> list[int]:
    """Return how many tasks there are for training, evaluation, of official splits, and others."""
    sizes = dict(tasks.splits())
    train, held_out = sizes.pop("train", 0), sizes.pop("eval", 0)
    official = sum(size for split, size in sizes.items() if split.startswith("official"))
    return [train, held_out, official, sum(sizes.values()) - official]


def describe_environments(names: Sequence[str], data_dir: Path | None, console: Console) -> None:
    """Print all that a spec and its tasks say of each environment.

    Raises:
        UnknownEnvironment: There is no environment of one of the names.
    """
    for name in names:
        try:
            environment, tasks = _load(name, data_dir)
        except EnvironmentUnavailable as error:
            console.print(Text(f"{name}: {error}\n"))
            continue
        spec = environment.spec
        players = "expert, random, noop" if spec.has_expert else "random, noop"
        grid = Table.grid(padding=(0, 2))
        for what, says in (
            ("splits", ", ".join(f"{split} {size:,}" for split, size in tasks.splits().items())),
            ("metric", f"{_METRICS[spec.metric]}, at most {spec.max_rounds} rounds"),
            ("profiles", ", ".join(spec.profiles)),
            ("formats", ", ".join(form.name.lower() for form in spec.conversation_starts)),
            ("players", players),
            ("pictures", "drawn for people" if spec.has_views else "none"),
            ("images", "by an option, for agents" if spec.has_images else "none"),
            (
                "runs",
                f"{spec.execution.value}, {'' if spec.deterministic else 'not '}deterministic",
            ),
        ):
            grid.add_row(f"  {what}", Text(says))
        tasks.close()
        console.print(Text(f"{name}, version {spec.version}", style="bold"))
        console.print(Text(f"  {spec.description}"))
        console.print(grid)
        console.print()
