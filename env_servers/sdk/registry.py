"""From an environment's name to its class, without importing any other environment.

Three places are asked in order: the built-in table, the entry points of the group
`agentgym.environments`, and an importable module of that (dotted) name, for a package
in the working folder. Each must hold one `Environment` subclass under the name `environment`.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import entry_points
from typing import Final

from env_servers.sdk.environment import Environment
from env_servers.sdk.errors import EnvironmentUnavailable, UnknownEnvironment
from env_servers.sdk.extras import install_command

__all__ = ["BUILT_IN", "display_name", "environment_names", "load_environment"]

BUILT_IN: Final = (
    "academia",
    "alfworld",
    "babyai",
    "bird",
    "echo",
    "maze",
    "mcp",
    "movie",
    "sciworld",
    "searchqa",
    "sheet",
    "shell",
    "textcraft",
    "todo",
    "weather",
    "webarena",
    "webshop",
    "wordle",
)
"""Environments of this distribution, each the package `env_servers.environments.<name>`."""
ENTRY_POINT_GROUP: Final = "agentgym.environments"
_EXTRAS: Final = {
    "babyai": "babyai",
    "mcp": "mcp",
    "sciworld": "sciworld",
    "weather": "weather",
    "webarena": "webarena",
}
"""Environments whose engine is an optional dependency, with the extra that brings it."""

_DISPLAY_NAMES: Final = {
    "alfworld": "ALFWorld",
    "babyai": "BabyAI",
    "bird": "BIRD",
    "mcp": "MCP",
    "sciworld": "SciWorld",
    "searchqa": "SearchQA",
    "textcraft": "TextCraft",
    "webarena": "WebArena",
    "webshop": "WebShop",
}
"""Where more than the first letter is large."""


def display_name(name: str) -> str:
    """Return a name as people write it, without spaces: "TextCraft" for "textcraft"."""
    return _DISPLAY_NAMES.get(name) or "".join(part.capitalize() for part in name.split("_"))


def environment_names() -> list[str]:
    """Return the names of built-in and installed environments, sorted."""
    installed = {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}
    return sorted(installed.union(BUILT_IN))


def load_environment(name: str) -> type[Environment]:
    """Return the environment class of a name.

    Raises:
        UnknownEnvironment: There is no such environment.
        EnvironmentUnavailable: Its engine is not installed.
    """
    try:
        module = importlib.import_module(_module_name(name))
    except ModuleNotFoundError as error:
        raise EnvironmentUnavailable(_missing(name, error)) from error
    environment = getattr(module, "environment", None)
    if not (isinstance(environment, type) and issubclass(environment, Environment)):
        raise UnknownEnvironment(
            f"module {module.__name__} has no Environment subclass named `environment`",
            valid=environment_names(),
        )
    return environment


def _module_name(name: str) -> str:
    if name in BUILT_IN:
        return f"env_servers.environments.{name}"
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return point.module
    if name != "__main__" and _is_module(name):
        return name
    raise UnknownEnvironment(f"unknown environment {name[:100]!r}", valid=environment_names())


def _is_module(name: str) -> bool:
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package that is not there
        return False


def _missing(name: str, error: ModuleNotFoundError) -> str:
    own = _module_name(name)
    if error.name is not None and f"{error.name}.".startswith(f"{own}."):
        return f"environment {name} imports {error.name}, which its own package does not have"
    extra = _EXTRAS.get(name)
    advice = install_command(extra) if extra else f"install {error.name}"
    return f"environment {name} needs the module {error.name}, which is not installed: {advice}"
