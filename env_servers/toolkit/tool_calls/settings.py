"""Settings of a tool environment, from `serve --set <name>.<key>=<value>`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, InvalidOption
from env_servers.toolkit.tool_calls.backends import EMBEDDED, LIVE, RECORDED

__all__ = ["AUTO", "ToolSettings"]

AUTO: Final = "auto"
"""The backend when none is asked for: recorded for official tasks where there is a recording."""
_BACKENDS: Final = (AUTO, EMBEDDED, RECORDED, LIVE)


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Settings of one environment: `serve --set <name>.<key>=<value>`."""

    name: str
    values: Mapping[str, str]

    @classmethod
    def read(
        cls, config: EnvironmentConfig, name: str, keys: Sequence[str] = ("backend",)
    ) -> ToolSettings:
        """Return the settings of an environment.

        Args:
            config: Holds the settings of all environments.
            name: The environment; its settings start with it and a dot.
            keys: The settings that the environment has.

        Raises:
            InvalidOption: A setting that does not exist, or an unknown backend.
        """
        prefix = f"{name}."
        values = {
            key.removeprefix(prefix): str(value)
            for key, value in config.settings.items()
            if key.startswith(prefix)
        }
        for key in values:
            if key not in keys:
                raise InvalidOption(
                    f"unknown setting {key[:100]!r} of {name}", valid=keys or "no settings"
                )
        backend = values.get("backend", AUTO)
        if backend not in _BACKENDS:
            raise InvalidOption(f"unknown backend {backend[:100]!r} of {name}", valid=_BACKENDS)
        return cls(name, values)

    @property
    def backend(self) -> str:
        """The backend that was asked for; `auto` without one."""
        return self.values.get("backend", AUTO)

    def text(self, key: str, default: str) -> str:
        """Return a setting as text."""
        return self.values.get(key, default)

    def number(self, key: str, default: float) -> float:
        """Return a positive number; raises InvalidOption."""
        try:
            value = float(self.values.get(key, default))
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            raise InvalidOption(f"setting {self.name}.{key} must be a positive number")
        return value

    def flag(self, key: str) -> bool:
        """Return whether a consent was given: `yes`, `true` or `1`."""
        return self.values.get(key, "").casefold() in ("yes", "true", "1")

    def secret(self, variable: str) -> str:
        """Return a key from the environment; raises EnvironmentUnavailable where it is missing."""
        value = os.environ.get(variable, "")
        if not value:
            raise EnvironmentUnavailable(
                f"backend live of {self.name} needs a key: set the environment variable {variable}"
            )
        return value
