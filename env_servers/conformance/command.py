"""The suite as a command: checks a server, prints what it finds, gives the exit status."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import grpc.aio
from rich.console import Console

from env_servers.conformance.printing import print_report, print_result
from env_servers.conformance.reports import as_json, as_junit
from env_servers.conformance.suite import (
    Check,
    CheckResult,
    ConformanceReport,
    run_conformance,
    select_checks,
)
from env_servers.conformance.target import Target
from env_servers.sdk import SdkError

__all__ = ["check_server"]


def check_server(
    address: str,
    environment: str = "echo",
    *,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    checks: Sequence[str] = (),
    drain_command: str = "",
    json: Path | None = None,
    junit: Path | None = None,
) -> int:
    """Check a running server; 0 = it conforms, 1 = it does not.

    `checks` are ids and rules (none = all), `json` and `junit` files for the report.

    The bearer token is read from AGENTGYM_TOKEN, those of two further clients from
    AGENTGYM_OTHER_TOKEN and AGENTGYM_OPERATOR_TOKEN. Raises SdkError where the server does not
    answer or has no such environment, for checks that do not exist, and for files that cannot be
    written.
    """
    target = Target(
        address=address,
        environment=environment,
        ca=ca,
        cert=cert,
        key=key,
        token=os.environ.get("AGENTGYM_TOKEN", ""),
        other_token=os.environ.get("AGENTGYM_OTHER_TOKEN", ""),
        operator_token=os.environ.get("AGENTGYM_OPERATOR_TOKEN", ""),
        drain_command=drain_command,
    )
    selected = select_checks(checks)
    console = Console()
    try:
        report = asyncio.run(_check(target, selected, console))
    except grpc.aio.AioRpcError as error:
        raise SdkError(f"{address}: {error.code().name}: {error.details()}") from error
    print_report(report, console)
    for path, text in ((json, as_json(report)), (junit, as_junit(report))):
        if path is not None:
            _write(path, text)
    return report.exit_status


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise SdkError(f"the report cannot be written: {error}") from error


async def _check(
    target: Target, checks: Sequence[tuple[str, Check]], console: Console
) -> ConformanceReport:
    def show(result: CheckResult) -> None:
        if console.is_terminal:
            print_result(result, console)

    return await run_conformance(target, checks=checks, on_result=show)
