"""`python -m benchmark.gateways`: steps per second through the AgentGym gateway and its original.

Both play TextCraft with the same clients, in turn: the original's own (a thread for each episode, a
connection for each call), and one that keeps its connections, on asyncio and on uvloop. The
gateway's server process is counted with it. Prints the ratios and writes them with the raw cells.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import tyro
from rich.console import Console
from rich.table import Table

from benchmark.load import Cell, Contender, Report, Settings, measure, python_server
from benchmark.tables import RESULTS, summarise

__all__ = ["Gateways", "main"]

_CLIENTS: Final = "benchmark.baselines.agentgym_http"
_ORIGINAL: Final = python_server("benchmark.baselines.agentgym_http")
_GATEWAY: Final = (
    *(sys.executable, "-m", "env_servers", "gateway", "agentgym"),
    *("{environment}", "--port", "{port}", "--servers", "1"),
)
_KINDS: Final[Mapping[str, tuple[str, Literal["asyncio", "uvloop"]]]] = {
    "requests": ("RequestsClient", "asyncio"),
    "aiohttp": ("AiohttpClient", "asyncio"),
    "aiohttp on uvloop": ("AiohttpClient", "uvloop"),
}
_GOAL: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateways:
    """Measure the AgentGym gateway beside AgentGym's own server shape."""

    episodes: int = 256
    """Clients at once."""
    rounds: int = 3
    """Every cell is measured so often, in turn."""
    seconds: float = 4.0
    """Measured per cell."""
    quick: bool = False
    """One short round of everything, to see that it works; writes nothing."""


def contenders() -> tuple[Contender, ...]:
    """Each client with each server."""
    return tuple(
        Contender(name=f"{server}, {kind}", client=f"{_CLIENTS}:{name}", server=command, loop=loop)
        for kind, (name, loop) in _KINDS.items()
        for server, command in (("AgentGym's shape", _ORIGINAL), ("gateway", _GATEWAY))
    )


def ratios(report: Report) -> list[dict[str, Any]]:
    """The gateway against AgentGym's shape, by client."""
    rates = {it.contender: it.steps_per_s for it in summarise(report.cells) if it.rounds}
    rows: list[dict[str, Any]] = []
    for kind in _KINDS:
        theirs, ours = (rates.get(f"{name}, {kind}") for name in ("AgentGym's shape", "gateway"))
        ratio = None if ours is None or not theirs else round(ours / theirs, 2)
        rows.append({"client": kind, "ours": ours, "theirs": theirs, "ratio": ratio, "goal": _GOAL})
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write; returns 0."""
    config = tyro.cli(Gateways, prog="python -m benchmark.gateways", args=argv)
    console = Console()

    def show(cell: Cell) -> None:
        rate = f"{cell.steps_per_s:>10,.0f} steps/s  {cell.outcome.value} {cell.detail}"
        console.print(f"{cell.contender:<40}{rate}", markup=False)

    settings = Settings(
        episodes=(config.episodes,),
        seconds=1.5 if config.quick else config.seconds,
        warmup_s=2.0,
        rounds=1 if config.quick else config.rounds,
        environment="textcraft",
    )
    report = measure(contenders(), settings, on_cell=show)
    rows = ratios(report)
    table = Table("client", "gateway", "AgentGym's shape", "ratio", "goal")
    for row in rows:
        figures = (row["ours"], row["theirs"], row["ratio"])
        shown = ["-" if it is None else f"{it:,.2f}" for it in figures]
        table.add_row(row["client"], *shown, f">= {row['goal']:g}")
    console.print(table)
    if not config.quick:
        RESULTS.mkdir(parents=True, exist_ok=True)
        data = {"config": asdict(config), "ratios": rows, "report": report.as_json()}
        (RESULTS / "gateways.json").write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
