"""The reference engine: TextWorld itself, behind the same interface as the native one.

Contains the use of `textworld`, `fast_downward` and `alfworld`, which are imported when a game is
first played (extra `alfworld-reference`). They keep global state, so everything in a process runs
under one lock; run it with `--execution alfworld=process` to use more cores. A loaded planner
library cannot be unloaded safely, so engines are kept and used again.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

from env_servers.environments.alfworld.game import Game
from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command

__all__ = ["ReferencePlay", "check_installed"]

_MODULES: Final = ("textworld", "fast_downward", "alfworld")
_LOCK: Final = threading.RLock()
_IDLE: Final[list[Any]] = []
"""Engines whose episode has ended."""


def check_installed() -> None:
    """Raise EnvironmentUnavailable where the reference engine is not installed."""
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentUnavailable(
            f"the engine textworld needs {', '.join(missing)}: "
            f"{install_command('alfworld-reference')} (it needs a C++ compiler and 415 MB), or use "
            "the engine native, which gives the same texts"
        )


class ReferencePlay:
    """Played by TextWorld's PDDL engine."""

    def __init__(self, game: Game, content: bytes | Mapping[str, str]) -> None:
        """Starts the game; raises EnvironmentUnavailable where TextWorld cannot load it."""
        check_installed()
        self.game = game
        self.state = game.first
        self._content = content
        self._journal: list[str] = []
        with _alone():
            self._engine: Any = _IDLE.pop() if _IDLE else _new_engine()
            try:
                data = json.loads(content) if isinstance(content, bytes) else dict(content)
                self._engine.load(data)
                self._last: Any = self._engine.reset()
            except Exception as error:
                raise EnvironmentUnavailable(
                    f"TextWorld cannot load the game: {error!r:.200}"
                ) from error

    def intro(self) -> str:
        return str(self._last.feedback)

    def admissible(self) -> list[str]:
        return list(self._last["admissible_commands"])

    def act(self, command: str) -> tuple[str, bool]:
        with _alone():
            self._last, _, _ = self._engine.step(command)
        self._journal.append(command)
        self.state, _ = self.game.act(self.state, command)
        return str(self._last.feedback), bool(self._last["won"])

    def fork(self) -> Self:
        copy = type(self)(self.game, self._content)
        for command in self._journal:
            copy.act(command)
        return copy

    def close(self) -> None:
        if self._engine is not None:
            with _alone():
                _IDLE.append(self._engine)
            self._engine = None


@contextmanager
def _alone() -> Iterator[None]:
    """One use of the engine at a time; the planner's translator overwrites the command line."""
    with _LOCK:
        arguments = sys.argv
        try:
            yield
        finally:
            sys.argv = arguments


def _new_engine() -> Any:
    from alfworld.agents.environment.alfred_tw_env import (  # pyright: ignore[reportMissingImports]
        AlfredDemangler,
    )
    from textworld.core import EnvInfos  # pyright: ignore[reportMissingImports]
    from textworld.envs.pddl import PddlEnv  # pyright: ignore[reportMissingImports]

    return AlfredDemangler(PddlEnv(EnvInfos(admissible_commands=True, won=True)))
