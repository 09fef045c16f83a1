"""A conformance report on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from env_servers.conformance.suite import CheckResult, ConformanceReport

__all__ = ["print_report", "print_result"]


def print_result(result: CheckResult, console: Console) -> None:
    """One line as a check ends."""
    console.print(_mark(result), Text(f"{result.rule:4} {result.description}"))
    for line in (result.failure, result.skipped):
        if line:
            console.print(Text(f"          {line}", style="dim"))


def print_report(report: ConformanceReport, console: Console) -> None:
    """The table of all checks, and the verdict."""
    table = Table(title=f"Conformance of {report.target.address} ({report.server_version})")
    table.add_column("rule", no_wrap=True)
    table.add_column("what it asks for")
    table.add_column("verdict", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for result in report.results:
        sentence = Text(result.description)
        if result.failure or result.skipped:
            sentence.append(f"\n{result.failure or result.skipped}", style="dim")
        table.add_row(result.rule, sentence, _mark(result), f"{result.seconds:.2f}")
    console.print(table)
    failed = sum(bool(result.failure) for result in report.results)
    skipped = sum(bool(result.skipped) for result in report.results)
    passed = len(report.results) - failed - skipped
    verdict = "conforms" if report.passed else "does not conform"
    console.print(
        f"environment {report.target.environment}: {passed} passed, {failed} failed, "
        f"{skipped} skipped: the server {verdict}"
    )


def _mark(result: CheckResult) -> Text:
    if result.failure:
        return Text("FAIL", style="bold red")
    if result.skipped:
        return Text("skip", style="yellow")
    return Text("ok  ", style="green")
