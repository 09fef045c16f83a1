"""Command: the runs below some folders, and what they come to.

    python -m orchestrator.list                       below runs/
    python -m orchestrator.list DIR DIR --sort cost

Live runs are listed, too.
"""

from __future__ import annotations

import dataclasses
import json as json_text
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.command_line import make_console, run_command
from orchestrator.report import count_text, figure_text
from orchestrator.run_list import PolicyOutcome, RunEntry, entry_data, list_runs, name_some
from orchestrator.run_state import RunState
from orchestrator.statistics import MissingRule
from orchestrator.terminal import visible

__all__ = ["ListOptions", "main"]

_STYLES: Final = {
    RunState.LIVE: "bold cyan",
    RunState.FINISHED: "green",
    RunState.UNREADABLE: "bold red",
}

Order = Literal["begun", "name", "state", "success", "episodes", "tokens", "cost"]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """List the runs below some folders: state, policies, success, tokens, cost."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = (
        Path("runs"),
    )
    """Folders of runs, looked through to any depth."""
    sort: Order = "begun"
    """What comes first: the latest, the best policy's, the largest, the dearest; by the alphabet
    for name and state."""
    reverse: bool = False
    """The other way round."""
    state: Annotated[
        tuple[RunState, ...], tyro.conf.UseAppendAction, tyro.conf.EnumChoicesFromValues
    ] = ()
    """Only runs in this state; may be given more than once. Incomplete: episodes were given up;
    limited: a limit of the run ended it; killed: its last session did not end in order."""
    environment: str = ""
    """Only runs of this environment."""
    policy: str = ""
    """Only policies whose names contain this, and runs that have one."""
    limit: int = 0
    """Only so many, the first by --sort; 0 = all."""
    missing: MissingRule = "bounds"
    """What missing episodes count as: bounds shows what the rates are if all of them fail and if
    all succeed; fail counts them as failures; drop leaves them out; error gives no rates."""
    json: bool = False
    """Print a JSON list."""

    def select(self, entries: Iterable[RunEntry]) -> Iterator[RunEntry]:
        """Yield the runs that are to be listed, with the policies that are."""
        for entry in entries:
            policies = [it for it in entry.policies if self.policy in it.policy]
            if (
                (not self.state or entry.state in self.state)
                and (not self.environment or self.environment in entry.environments)
                and (not self.policy or policies)
            ):
                yield dataclasses.replace(entry, policies=policies)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 where a run cannot be read, or not whole."""
    return run_command(ListOptions, _list, argv, program="python -m orchestrator.list")


def _list(options: ListOptions) -> int:
    found = list(options.select(list_runs(options.folders, missing=options.missing)))
    key, largest_first = _ORDERS[options.sort]
    found.sort(key=key, reverse=largest_first != options.reverse)
    shown = found[: options.limit] if options.limit else found
    if options.json:
        sys.stdout.write(json_text.dumps([entry_data(entry) for entry in shown], indent=2) + "\n")
    else:
        _print(make_console(), shown, len(found))
    return 1 if any(entry.problem for entry in shown) else 0


def _best_rate(entry: RunEntry) -> float:
    """Return the highest rate of a policy, of bounds the lower one; below 0 = there is none."""
    measured = [policy.success for policy in entry.policies]
    rates = [it.bounds.low if it.bounds is not None else it.value for it in measured]
    return max((rate for rate in rates if rate is not None), default=-1.0)


_ORDERS: Final[Mapping[Order, tuple[Callable[[RunEntry], Any], bool]]] = {
    "begun": (lambda entry: entry.created, True),
    "name": (lambda entry: str(entry.folder), False),
    "state": (lambda entry: entry.state, False),
    "success": (_best_rate, True),
    "episodes": (lambda entry: entry.finished, True),
    "tokens": (lambda entry: entry.tokens, True),
    "cost": (lambda entry: -1.0 if entry.cost_usd is None else entry.cost_usd, True),
}
"""By what an order sorts, and whether the largest comes first."""


def _print(console: Console, entries: Sequence[RunEntry], found: int) -> None:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left")
    table.add_column("run\n  environments", overflow="fold")
    table.add_column("state\nbegun, UTC", no_wrap=True)
    table.add_column("policy", overflow="fold")
    table.add_column("judged/\nplanned", justify="right", no_wrap=True)
    # Where it is narrow a rate's interval goes below it: else rich drops the policy's column.
    table.add_column("success %", justify="right", overflow="fold")
    table.add_column("tokens", justify="right", no_wrap=True)
    priced = any(entry.cost_usd is not None for entry in entries)
    if priced:
        table.add_column("$", justify="right", no_wrap=True)
    for entry in entries:
        if entry.policies:
            for at, outcome in enumerate(entry.policies):
                last = at == len(entry.policies) - 1
                cells = _cells(outcome, priced)
                table.add_row(*(_heading(entry) if not at else ("", "")), *cells, end_section=last)
        else:
            table.add_row(*_heading(entry), end_section=True)
    console.print(table)
    for entry in entries:
        if entry.problem:
            text = f"{entry.folder}: {entry.problem}"
            console.print(Text(visible(text), style="bold red"), soft_wrap=True)
    hidden = f", {len(entries)} shown" if len(entries) < found else ""
    console.print(Text(f"{found} runs{hidden}", style="dim"))


def _heading(entry: RunEntry) -> tuple[Text, Text]:
    name = Text(str(entry.folder), style="bold")
    name.append("".join(f"\n  {it}" for it in entry.environments), style="not bold dim")
    if entry.played_from:
        name.append(f"\n  played on from {entry.played_from}", style="not bold dim")
    if entry.imported_from:
        name.append(f"\n  imported from {name_some(entry.imported_from)}", style="not bold dim")
    state = Text(entry.state, style=_STYLES.get(entry.state, "yellow"))
    state.append("".join(f"\n{it}" for it in entry.created[:16].split("T")), style="not bold dim")
    return name, state


def _cells(outcome: PolicyOutcome, priced: bool) -> list[str | Text]:
    planned = "?" if outcome.planned is None else str(outcome.planned)
    value, bounds, interval = outcome.success
    cells: list[str | Text] = [
        Text(outcome.policy),
        f"{outcome.judged}/{planned}",
        figure_text(value, bounds, interval, percent=True),
        count_text(outcome.tokens),
    ]
    if priced:
        cells.append("-" if outcome.cost_usd is None else f"{outcome.cost_usd:.2f}")
    return cells


if __name__ == "__main__":
    sys.exit(main())
