"""`python -m benchmark.baselines`: measure the baselines against each other.

Writes benchmark/results/<name>.json and .md and prints the tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmark.baselines.contenders import BASELINES
from benchmark.load import Cell, Settings, measure
from benchmark.tables import RESULTS, render_markdown, write_report


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmark.baselines")
    parser.add_argument("--episodes", type=_numbers, default=(1, 64, 512, 2000))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--environment", default="echo", help="echo, or a name of the SDK")
    parser.add_argument("--only", default="", help="contenders whose name contains this text")
    parser.add_argument("--name", default="baselines", help="of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of result files")
    return parser.parse_args()


def main() -> None:
    """Measure, write, print."""
    arguments = _arguments()
    contenders = [each for each in BASELINES if arguments.only.lower() in each.name.lower()]
    settings = Settings(
        episodes=arguments.episodes,
        seconds=arguments.seconds,
        warmup_s=arguments.warmup,
        rounds=arguments.rounds,
        environment=arguments.environment,
    )
    total = len(contenders) * len(settings.episodes) * settings.rounds
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn()) as progress:
        bar = progress.add_task("measuring", total=total)

        def show(cell: Cell) -> None:
            rate = f"{cell.steps_per_s:>10,.0f} steps/s  {cell.outcome.value} {cell.detail}"
            progress.console.print(f"{cell.contender:<34}{cell.episodes:>6} {rate}", markup=False)
            progress.advance(bar)

        report = measure(contenders, settings, on_cell=show)
    print(render_markdown(report))
    for path in write_report(report, arguments.name, arguments.results):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
