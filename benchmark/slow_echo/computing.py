"""The computing echo; see the package."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Execution

__all__ = ["environment"]


class ComputingEcho(EchoEnvironment):
    """Echo under another name, executed elsewhere."""

    spec: ClassVar[EnvironmentSpec] = replace(
        EchoEnvironment.spec, name="computing_echo", execution=Execution.PROCESS
    )


environment = ComputingEcho
