"""What a suite file says, as one typed tree, and how a suite is found by its name or path.

    title = "My suite"

    [environments.maze]
    split = "eval"
    episodes = 50
    options = { rows = 9 }

An unknown key, a value of another type and a suite of nothing are ConfigurationErrors that name the
file and the key. Whether environments, splits and items exist only their servers know.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from agent_runtime.agents import PlaySettings
from orchestrator.configuration import convert, read_toml
from orchestrator.errors import ConfigurationError, UsageError

__all__ = [
    "DEMO_SUITE",
    "Suite",
    "SuiteEnvironment",
    "SuiteMetric",
    "load_suite",
    "suite_names",
]

DEMO_SUITE: Final = "demo"
"""The suite of the agent that plays, else of the shipped one."""
_FOLDER: Final = Path(__file__).parent
_SUFFIX: Final = ".toml"

SuiteMetric = Literal["", "success rate", "mean score"]
"""By what episodes are judged; empty = by each environment's own metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEnvironment:
    """What a suite plays of one environment, and how; what is empty is the environment's own."""

    split: str = ""
    """Empty = eval, unless single items are named."""
    items: tuple[str, ...] = ()
    """Ids of single tasks."""
    episodes: int = 0
    """Tasks that belong to the suite, chosen by a hash of their ids; 0 = all. Where the split has
    fewer, the environment is played in part."""
    samples: int = 0
    """Episodes per task and policy; 0 = 1."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Reset options."""
    profile: str = ""
    max_rounds: int = 0
    """Replies per episode."""
    needs: str = ""
    """Data without which the split is not there: then the environment is not played, and this is
    what people are told. Empty = the split is always there."""

    def settings(self) -> PlaySettings:
        """Return how it is played."""
        return PlaySettings(
            profile=self.profile,
            options=self.options,
            max_rounds=self.max_rounds,
            items=self.items,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Environments in the order in which tables have them."""

    title: str = ""
    """What tables are called; empty = the file's name."""
    metric: SuiteMetric = ""
    agent_settings: bool = False
    """Environments, tasks and settings are those of the agent that plays, and none are here."""
    environments: Mapping[str, SuiteEnvironment] = field(
        default_factory=dict[str, SuiteEnvironment]
    )


def suite_names() -> list[str]:
    """Return the names of the suites of this package, sorted."""
    return sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}"))


def load_suite(name: str) -> Suite:
    """Read the suite of this package with a name, or the one at a path.

    Raises:
        UsageError: There is no such suite.
        ConfigurationError: The file cannot be read, or says what no suite can.
    """
    path = _find(name)
    try:
        suite = convert(Suite, read_toml(path))
    except ConfigurationError as error:
        raise ConfigurationError(_named(path, str(error))) from error
    for problem in _problems(suite):
        raise ConfigurationError(_named(path, problem))
    return replace(suite, title=suite.title or path.stem)


def _find(name: str) -> Path:
    if name in suite_names():
        return _FOLDER / f"{name}{_SUFFIX}"
    if name.endswith(_SUFFIX) or os.sep in name:
        return Path(name)
    raise UsageError(
        f"unknown suite {name!r}: name one of this package or the path of a {_SUFFIX} file",
        valid=suite_names(),
    )


def _named(path: Path, problem: str) -> str:
    return problem if str(path) in problem else f"{path}: {problem}"


def _problems(suite: Suite) -> Iterator[str]:
    if suite.agent_settings and suite.environments:
        yield "agent_settings takes everything from the agent: remove the sections [environments.*]"
    if not suite.agent_settings and not suite.environments:
        yield "it names no environment: add a section [environments.NAME]"
    for name, entry in suite.environments.items():
        if entry.split and entry.items:
            yield f"environments.{name}: give a split or items, not both"
        for key in ("episodes", "samples", "max_rounds"):
            if getattr(entry, key) < 0:
                yield f"environments.{name}.{key}: is at least 0"
