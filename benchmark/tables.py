"""From a measurement's cells to medians, tables and files.

Invariant: a figure in a table is the median of its rounds, with the smallest and the largest
beside it; what failed or starved is named, never left out. Measures nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmark.load import Cell, Outcome, Report

__all__ = ["RESULTS", "Summary", "render_markdown", "summarise", "write_report"]

RESULTS: Final = Path(__file__).parent / "results"
MEASURED: Final = frozenset({Outcome.OK, Outcome.STARVED, Outcome.ERRORS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One contender with one number of episodes, over all rounds that gave figures."""

    contender: str
    episodes: int
    rounds: int
    """Rounds that gave figures."""
    steps_per_s: float
    lowest: float
    highest: float
    p50_ms: float | None
    p99_ms: float | None
    answered: float
    client_us_per_step: float | None
    server_us_per_step: float | None
    client_rss_mib: float | None
    server_rss_mib: float | None
    remarks: tuple[str, ...]
    """Outcomes other than ok, each once."""


def summarise(cells: Iterable[Cell]) -> list[Summary]:
    """Medians per contender and number of episodes, in the order of the cells."""
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.contender, cell.episodes), []).append(cell)
    return [_summary(group) for group in groups.values()]


def _summary(group: Sequence[Cell]) -> Summary:
    measured = [cell for cell in group if cell.outcome in MEASURED]
    rates = [cell.steps_per_s for cell in measured] or [0.0]

    def middle(read: Callable[[Cell], float | None]) -> float | None:
        values = [value for cell in measured if (value := read(cell)) is not None]
        return median(values) if values else None

    return Summary(
        contender=group[0].contender,
        episodes=group[0].episodes,
        rounds=len(measured),
        steps_per_s=median(rates),
        lowest=min(rates),
        highest=max(rates),
        p50_ms=middle(lambda cell: cell.p50_ms),
        p99_ms=middle(lambda cell: cell.p99_ms),
        answered=middle(lambda cell: cell.answered) or 0,
        client_us_per_step=middle(lambda cell: _per_step(cell.client_cpu_s, cell.steps)),
        server_us_per_step=middle(lambda cell: _per_step(cell.server_cpu_s, cell.steps)),
        client_rss_mib=middle(lambda cell: cell.client_rss_mib),
        server_rss_mib=middle(lambda cell: cell.server_rss_mib),
        remarks=tuple(dict.fromkeys(_remarks(group))),
    )


def _per_step(cpu_s: float | None, steps: int) -> float | None:
    return 1e6 * cpu_s / steps if cpu_s is not None and steps else None


def _remarks(group: Sequence[Cell]) -> Iterable[str]:
    for cell in group:
        if cell.outcome is Outcome.STARVED:
            yield (
                f"starved, window too short for a rate: {cell.steps} steps, "
                f"{cell.answered} of {cell.episodes} episodes were answered"
            )
        elif cell.outcome is Outcome.ERRORS:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(cell.errors.items()))
            yield f"episodes ended by errors: {kinds}"
        elif cell.outcome is not Outcome.OK:
            yield f"{cell.outcome.value}: {cell.detail}"


def render_markdown(report: Report) -> str:
    """Throughput, latency, CPU and memory tables with remarks and the machine."""
    found = {(row.contender, row.episodes): row for row in summarise(report.cells)}
    counts = report.settings.episodes
    names = [contender.name for contender in report.contenders]

    def table(title: str, show: Callable[[Summary], str]) -> str:
        head = "".join(f" {count:,} |" for count in counts)
        lines = [f"### {title}", "", f"| episodes: |{head}", "|---|" + "---|" * len(counts)]
        for name in names:
            shown = (found.get((name, count)) for count in counts)
            texts = "".join(f" {show(row) if row else '-'} |" for row in shown)
            lines.append(f"| {name} |{texts}")
        return "\n".join(lines)

    parts = [
        table("Steps per second: median (lowest to highest)", _show_rate),
        table("Latency of a step, p50 / p99 in ms", _show_latency),
        table("CPU of a step, client / server in µs", _show_cpu),
        table("Resident memory, client / server in MiB", _show_memory),
    ]
    remarks = [
        f"- {row.contender}, {row.episodes:,}: {text}"
        for row in found.values()
        for text in row.remarks
    ]
    notes = [f"- {each.name}: {each.note}" for each in report.contenders if each.note]
    parts += ["\n".join(["### Settings", "", *notes])] * bool(notes)
    parts += ["\n".join(["### Remarks", "", *remarks])] * bool(remarks)
    return "\n\n".join([*parts, _show_manifest(report)]) + "\n"


def _show_rate(row: Summary) -> str:
    if not row.rounds:
        return row.remarks[0].partition(":")[0] if row.remarks else "-"
    mark = "\\*" if row.remarks else ""
    return f"{row.steps_per_s:,.0f}{mark} ({row.lowest:,.0f} to {row.highest:,.0f})"


def _show_latency(row: Summary) -> str:
    return _pair(row.p50_ms, row.p99_ms, digits=2)


def _show_cpu(row: Summary) -> str:
    return _pair(row.client_us_per_step, row.server_us_per_step, digits=1)


def _show_memory(row: Summary) -> str:
    return _pair(row.client_rss_mib, row.server_rss_mib, digits=0)


def _pair(first: float | None, second: float | None, *, digits: int) -> str:
    shown = ("-" if value is None else f"{value:,.{digits}f}" for value in (first, second))
    return " / ".join(shown)


def _show_manifest(report: Report) -> str:
    manifest, settings = report.manifest, report.settings
    used = [cell.others_cpu_s for cell in report.cells if cell.others_cpu_s is not None]
    cores = [spent / settings.seconds for spent in used] or [0.0]
    packages = ", ".join(f"{name} {version}" for name, version in manifest.packages.items())
    lines = [
        f"{settings.environment} environment, closed loop, loopback; {settings.rounds} rounds of "
        f"{settings.seconds:g} s after {settings.warmup_s:g} s.",
        f"{manifest.cpu}, {manifest.cores} cores, {manifest.memory_gib:g} GiB, {manifest.system}, "
        f"load average {manifest.load_average:g} before. Meanwhile other processes used "
        f"{median(cores):.2f} cores (median of the cells; at most {max(cores):.2f}).",
        f"{manifest.python}; {packages}.",
        f"{manifest.date}, commit {manifest.git_commit or 'unknown'}, `{manifest.command}`.",
    ]
    return "\n".join(["### Machine", "", *(f"- {line}" for line in lines)])


def write_report(report: Report, name: str, folder: Path = RESULTS) -> tuple[Path, Path]:
    """Write `<name>.json` (everything) and `<name>.md` (the tables); returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, text = folder / f"{name}.json", folder / f"{name}.md"
    data.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    text.write_text(render_markdown(report))
    return data, text
