"""The checks in order, and what running them found.

A check is an async function of a harness; its docstring's first line is the rule in short. Its id
is the rule of docs/protocol.md and a number within it, which stays for good: a new check gets the
next number, that of a dropped one is not given again. What a check raises is sorted here and
nowhere else.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import grpc.aio

from env_servers.conformance import (
    client_checks,
    deadline_checks,
    episode_checks,
    image_checks,
    lease_checks,
    limit_checks,
    operation_checks,
    rebuild_checks,
    sequence_checks,
    stream_checks,
    unary_checks,
    view_checks,
)
from env_servers.conformance.harness import Harness, NotApplicable, Violation
from env_servers.conformance.target import Target
from env_servers.sdk import SdkError

__all__ = [
    "CHECKS",
    "Check",
    "CheckResult",
    "ConformanceReport",
    "run_conformance",
    "select_checks",
]

Check = Callable[[Harness], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found."""

    check_id: str
    """For example `R16.2`."""
    name: str
    description: str
    """The rule in one sentence."""
    failure: str = ""
    """How the server broke it; empty = it did not."""
    skipped: str = ""
    """Why the check was not made; empty = it was."""
    seconds: float = 0.0

    @property
    def rule(self) -> str:
        """Number in docs/protocol.md."""
        return self.check_id.partition(".")[0]

    @property
    def passed(self) -> bool:
        """Made, and the rule held."""
        return not self.failure and not self.skipped

    @property
    def verdict(self) -> str:
        """`passed`, `failed` or `skipped`."""
        return "failed" if self.failure else "skipped" if self.skipped else "passed"


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """What all checks found about one server."""

    target: Target
    server_version: str
    results: tuple[CheckResult, ...]

    def count(self, verdict: str) -> int:
        """How many checks ended with a verdict."""
        return sum(result.verdict == verdict for result in self.results)

    @property
    def passed(self) -> bool:
        """Whether no rule is broken."""
        return not any(result.failure for result in self.results)

    @property
    def exit_status(self) -> int:
        """0 = conforms, 1 = breaks a rule."""
        return 0 if self.passed else 1


CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    *stream_checks.CHECKS,
    *episode_checks.CHECKS,
    *sequence_checks.CHECKS,
    *lease_checks.CHECKS,
    *rebuild_checks.CHECKS,
    *deadline_checks.CHECKS,
    *limit_checks.CHECKS,
    *unary_checks.CHECKS,
    *client_checks.CHECKS,
    *view_checks.CHECKS,
    *image_checks.CHECKS,
    *operation_checks.CHECKS,
)
"""(id, check); the last one ends the server, where it was told how."""


def select_checks(wanted: Sequence[str]) -> tuple[tuple[str, Check], ...]:
    """Return the checks of these ids and rules (`R16.2`, `R16`); none named = all.

    Raises SdkError for what is neither.
    """
    valid = {name for check_id, _ in CHECKS for name in (check_id, check_id.partition(".")[0])}
    unknown = sorted(set(wanted) - valid)
    if unknown:
        raise SdkError(
            f"no check or rule is called {', '.join(unknown)}",
            valid=[check_id for check_id, _ in CHECKS],
        )
    return tuple(
        (check_id, check)
        for check_id, check in CHECKS
        if not wanted or check_id in wanted or check_id.partition(".")[0] in wanted
    )


async def run_conformance(
    target: Target,
    *,
    checks: Sequence[tuple[str, Check]] = CHECKS,
    on_result: Callable[[CheckResult], None] | None = None,
) -> ConformanceReport:
    """Make the checks on a server, one after another.

    `on_result` hears of each check as it ends. Raises grpc.aio.AioRpcError where the target does
    not answer or has no such environment; whatever else is wrong is in the report.
    """
    results: list[CheckResult] = []
    async with Harness(target) as harness:
        hosted = await unary_checks.list_environments(harness)
        for check_id, check in checks:
            results.append(await _make(harness, check_id, check))
            if on_result is not None:
                on_result(results[-1])
    return ConformanceReport(target, hosted.server_version, tuple(results))


async def _make(harness: Harness, check_id: str, check: Check) -> CheckResult:
    name = getattr(check, "__name__", "?")
    description = (check.__doc__ or name).partition("\n")[0]
    started = time.monotonic()
    failure = skipped = ""
    try:
        async with harness.cleanup():
            await check(harness)
    except NotApplicable as reason:
        skipped = str(reason)
    except Violation as violation:
        failure = str(violation)
    except grpc.aio.AioRpcError as error:
        failure = f"the call failed with {error.code().name}: {error.details()}"
    except Exception as error:  # noqa: BLE001 - boundary: a check that raises has failed
        frame = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"raised {error!r:.200} at {frame.name}:{frame.lineno}"
    seconds = time.monotonic() - started
    return CheckResult(check_id, name, description, failure, skipped, seconds)
