"""Where official data files lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from env_servers.sdk.errors import EnvironmentUnavailable

__all__ = ["official_data_dir"]

VARIABLE = "AGENTGYM_DATA"


def official_data_dir() -> Path | None:
    """Return the folder that AGENTGYM_DATA names; None where it is not set.

    Raises:
        EnvironmentUnavailable: There is no such folder.
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        return None
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise EnvironmentUnavailable(f"{VARIABLE} names {path}, which is no folder")
    return folder
