"""The suite as a command: checks a server, prints what it finds, gives the exit status."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import grpc.aio
from rich.console import Console

from env_servers.conformance.printing import print_report, print_result
from env_servers.conformance.suite import CheckResult, ConformanceReport, run_conformance
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
) -> int:
    """Check a running server; 0 = it conforms, 1 = it does not.

    The bearer token is read from AGENTGYM_TOKEN, those of two further clients from
    AGENTGYM_OTHER_TOKEN and AGENTGYM_OPERATOR_TOKEN. Raises SdkError where the server does not
    answer or has no such environment.
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
    )
    console = Console()
    try:
        report = asyncio.run(_check(target, console))
    except grpc.aio.AioRpcError as error:
        raise SdkError(f"{address}: {error.code().name}: {error.details()}") from error
    print_report(report, console)
    return report.exit_status


async def _check(target: Target, console: Console) -> ConformanceReport:
    def show(result: CheckResult) -> None:
        if console.is_terminal:
            print_result(result, console)

    return await run_conformance(target, on_result=show)
