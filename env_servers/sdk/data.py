"""Where official data files lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from env_servers.sdk.errors import EnvironmentUnavailable

__all__ = ["data_dir_of_machine"]

VARIABLE = "AGENTGYM_DATA"


def data_dir_of_machine() -> Path | None:
    """The folder that AGENTGYM_DATA names; raises EnvironmentUnavailable where it is none."""
    given = os.environ.get(VARIABLE, "")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise EnvironmentUnavailable(f"{VARIABLE} names {given}, which is no folder")
    return folder
