"""`python -m benchmark.guard`: fails where a step or reset costs far more of echo's than it did.

The ratios of this run stand beside the committed ones. What is beyond the margin is measured once
more, longer, and counts if it is so again. `--save` writes this run's ratios as those to compare
with: after a change that is worth its price, or that made something faster.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tyro
from rich.console import Console
from rich.table import Table

from benchmark.guard.ratios import ENVIRONMENTS, WIRE, measure
from benchmark.manifest import read_manifest
from env_servers.server.app import run_loop

__all__ = ["COMMITTED", "Guard", "main", "slower"]

COMMITTED: Final = Path(__file__).parents[1] / "results" / "guard.json"
_AGAIN: Final = 3
"""A figure beyond the margin is measured again with so many times the rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Compare the costs of steps and resets, in steps of echo, with the committed ones."""

    margin: float = 2.0
    """How many times the committed ratio fails. On a busy machine ratios differ by a tenth, those
    of what leaves the thread by a half."""
    rounds: int = 5
    """Blocks of each figure; the median counts."""
    save: bool = False
    """Write this run's ratios as the committed ones; compare nothing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and compare; returns 1 where something became slower."""
    config = tyro.cli(Guard, args=argv, prog="python -m benchmark.guard")
    names = (WIRE, *ENVIRONMENTS)
    manifest = read_manifest().as_json()
    ratios = _measure(names, config.rounds)
    if config.save:
        found = {"manifest": manifest, "ratios": ratios}
        COMMITTED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        return 0
    committed: dict[str, float] = json.loads(COMMITTED.read_text(encoding="utf-8"))["ratios"]
    suspects = slower(ratios, committed, config.margin)
    if suspects:
        again = [name for name in names if any(it.split()[0] == name.split()[0] for it in suspects)]
        ratios |= _measure(again, _AGAIN * config.rounds)
        suspects = slower(ratios, committed, config.margin)
    _print(ratios, committed, suspects)
    if suspects:
        sys.stderr.write(
            f"more than {config.margin:g} times as slow as committed: {', '.join(suspects)}; "
            "if that is meant, run it with --save and commit the result\n"
        )
    return 1 if suspects else 0


def slower(ratios: Mapping[str, float], committed: Mapping[str, float], margin: float) -> list[str]:
    """Return the figures that are beyond the margin, or that nothing is committed for."""
    return [
        figure
        for figure, ratio in ratios.items()
        if figure not in committed or ratio > margin * committed[figure]
    ]


def _measure(names: Sequence[str], rounds: int) -> dict[str, float]:
    found: dict[str, float] = {}

    async def work() -> None:
        found.update(await measure(names, rounds))

    run_loop(work())
    return found


def _print(
    ratios: Mapping[str, float], committed: Mapping[str, float], suspects: Sequence[str]
) -> None:
    table = Table("cost", "steps of echo", "committed", "now / committed")
    for figure, ratio in ratios.items():
        before = committed.get(figure)
        shown = ("none", "") if before is None else (f"{before:,.2f}", f"{ratio / before:.2f}")
        table.add_row(figure, f"{ratio:,.2f}", *shown, style="red" if figure in suspects else "")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
