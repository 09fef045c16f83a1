"""A conformance report on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from env_servers.conformance.suite import CheckResult, ConformanceReport

__all__ = ["print_report", "print_result"]


def print_result(result: CheckResult, console: Console) -> None:
    """One line as a check ends."""
    console.print(_mark(result), Text(f"{result.check_id:6} {result.description}"))
    for line in (result.failure, result.skipped):
        if line:
            console.print(Text(f"            {line}", style="dim"))


def print_report(report: ConformanceReport, console: Console) -> None:
    """The table of all checks, why some were skipped, and the verdict."""
    console.print(Text(f"{report.target.address} ({report.server_version})", style="bold"))
    table = Table(pad_edge=False, box=box.SIMPLE_HEAD)
    table.add_column("check", no_wrap=True)
    table.add_column("what it asks for")
    table.add_column("verdict", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for result in report.results:
        sentence = Text(result.description)
        if result.failure:
            sentence.append(f"\n{result.failure}", style="dim")
        table.add_row(result.check_id, sentence, _mark(result), f"{result.seconds:.2f}")
    console.print(table)
    for reason, checks in _skipped(report).items():
        console.print(Text(f"skipped {', '.join(checks)}: {reason}"))
    verdict = "conforms" if report.passed else "does not conform"
    console.print(
        Text(
            f"environment {report.target.environment}: {report.count('passed')} passed, "
            f"{report.count('failed')} failed, {report.count('skipped')} skipped: "
            f"the server {verdict}"
        )
    )


def _skipped(report: ConformanceReport) -> dict[str, list[str]]:
    """The ids of the checks that were not made, by the reason, which says what would allow them."""
    found: dict[str, list[str]] = {}
    for result in report.results:
        if result.skipped:
            found.setdefault(result.skipped, []).append(result.check_id)
    return found


def _mark(result: CheckResult) -> Text:
    if result.failure:
        return Text("FAIL", style="bold red")
    if result.skipped:
        return Text("skip", style="yellow")
    return Text("ok  ", style="green")
