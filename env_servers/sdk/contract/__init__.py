"""What every environment promises, as checks that anyone can run against it.

`run_contract("maze")` gives a report; a test class that inherits `EnvironmentContract` gives one
pytest test per promise. Nothing here imports pytest or knows an environment by name.
"""

from env_servers.sdk.contract.mixin import EnvironmentContract
from env_servers.sdk.contract.report import (
    CHECKS,
    Check,
    CheckResult,
    ContractReport,
    run_contract,
)
from env_servers.sdk.contract.subject import NotApplicable, Subject, Terms

__all__ = [
    "CHECKS",
    "Check",
    "CheckResult",
    "ContractReport",
    "EnvironmentContract",
    "NotApplicable",
    "Subject",
    "Terms",
    "run_contract",
]
