"""Conformance to docs/protocol.md, checked from outside: against a server in any language.

`run_conformance` plays every rule that can be observed over the wire with raw generated stubs. It
knows nothing of how a server is built; what it needs to know of an environment it asks the server.
"""

from env_servers.conformance.command import check_server
from env_servers.conformance.harness import NotApplicable, Violation
from env_servers.conformance.printing import print_report, print_result
from env_servers.conformance.reports import as_json, as_junit
from env_servers.conformance.suite import (
    CHECKS,
    CheckResult,
    ConformanceReport,
    run_conformance,
    select_checks,
)
from env_servers.conformance.target import Target

__all__ = [
    "CHECKS",
    "CheckResult",
    "ConformanceReport",
    "NotApplicable",
    "Target",
    "Violation",
    "as_json",
    "as_junit",
    "check_server",
    "print_report",
    "print_result",
    "run_conformance",
    "select_checks",
]
