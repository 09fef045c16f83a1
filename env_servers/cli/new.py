"""`python -m env_servers new`: an environment package that works and is short enough to edit.

With `--package` it is in a project that can be installed, published and run in a container. Nothing
that exists is ever overwritten.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Final

import tyro

from env_servers.cli.new_files import (
    PACKAGE_FILES,
    PACKAGE_STEPS,
    PROJECT_FILES,
    PROJECT_STEPS,
)
from env_servers.sdk import SdkError, environment_names

__all__ = ["New", "NewConfig", "Scaffold", "ScaffoldError", "create"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


class ScaffoldError(SdkError):
    """Raised when a package cannot be created under that name in that folder."""


@dataclass(frozen=True, slots=True)
class NewConfig:
    """Write a new environment package that is ready to edit."""

    name: tyro.conf.Positional[str]
    """Package and environment name, for example my_env: lower-case letters, digits, underscores."""
    folder: Path = Path()
    """Where the package's folder is made."""
    package: bool = False
    """Make a project around it: pyproject.toml with the entry point, Dockerfile, tests, README."""


@dataclass(frozen=True, kw_only=True)
class New(NewConfig):
    """Write a new environment package that is ready to edit."""

    def run(self) -> int:
        """Write the files and say what to do next; returns the exit status."""
        scaffold = create(self.name, self.folder, project=self.package)
        files = "\n".join(f"  {path}" for path in scaffold.files)
        sys.stdout.write(f"wrote\n{files}\n{scaffold.next_steps}\n")
        return 0


@dataclass(frozen=True, slots=True)
class Scaffold:
    """What was written."""

    root: Path
    """The new folder: the package, or the project around it."""
    files: tuple[Path, ...]
    """Its files, in the order in which they are best read."""
    next_steps: str
    """What to do with it, for a terminal."""


def create(name: str, folder: Path = Path(), *, project: bool = False) -> Scaffold:
    """Write the package `folder/name`, or a project of that name around it.

    Raises ScaffoldError and touches nothing that exists.
    """
    _check_name(name)
    root = folder / name
    try:
        root.mkdir(parents=True)
    except FileExistsError:
        raise ScaffoldError(f"{root} exists already; choose another name") from None
    except OSError as error:
        raise ScaffoldError(f"cannot create {root}: {error.strerror}") from error
    words = {
        "name": name,
        "class_name": "".join(part.capitalize() for part in name.split("_")),
        "distribution": name.replace("_", "-"),
        "requirement": _requirement(),
    }
    files: list[Path] = []
    for path, template in (PROJECT_FILES if project else PACKAGE_FILES).items():
        file = root / Template(path).substitute(words)
        file.parent.mkdir(exist_ok=True)
        file.write_text(Template(template).substitute(words), encoding="utf-8")
        files.append(file)
    steps = PROJECT_STEPS if project else PACKAGE_STEPS
    return Scaffold(root, tuple(files), Template(steps).substitute(words).strip())


def _requirement() -> str:
    """Return what a project needs: this distribution, at least in this version."""
    name = "agentgym-grpc"
    return f"{name}>={version(name)}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ScaffoldError(
            f"{name[:60]!r} cannot name an environment",
            valid="a lower-case letter, then up to 39 letters, digits and underscores",
        )
    if name in environment_names():
        raise ScaffoldError(f"the environment {name} exists already; choose another name")
    if name in sys.stdlib_module_names or _importable(name):
        raise ScaffoldError(f"a module {name} exists already and would hide it")


def _importable(name: str) -> bool:
    """Whether a real module has the name; a mere folder without code does not count."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None
