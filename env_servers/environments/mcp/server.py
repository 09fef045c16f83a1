"""Which MCP server is asked, and how it is reached: a command, or an address of streamable HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from env_servers.environments.mcp.errors import ServerNotStarted

if TYPE_CHECKING:
    from env_servers.environments.mcp.http import HttpTransport
    from env_servers.environments.mcp.stdio import StdioTransport

__all__ = ["ServerAddress"]

_MESSAGE_BYTES: Final = 1024 * 1024
"""Longest message of a server that is read; what a tool returns is shown whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """An MCP server: a command that is started for each episode, or an address."""

    command: tuple[str, ...] = ()
    url: str = ""
    """Of streamable HTTP; empty = the command."""
    variables: tuple[str, ...] = ()
    """Names of environment variables that the command gets."""
    token: str = ""
    """Name of the environment variable that holds the bearer token of the address."""

    def transport(self) -> StdioTransport | HttpTransport:
        """Return a way to the server, to be used once; raises ServerNotStarted."""
        # Each imports a part of the SDK that the other does not need.
        if not self.url:
            from env_servers.environments.mcp.stdio import StdioTransport

            return StdioTransport(self.command, _values(self.variables), _MESSAGE_BYTES)
        from env_servers.environments.mcp.http import HttpTransport

        headers: dict[str, str] = {}
        if self.token:
            headers["authorization"] = f"Bearer {_values([self.token])[self.token]}"
        return HttpTransport(self.url, headers, _MESSAGE_BYTES)


def _values(names: Sequence[str]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ServerNotStarted(f"the environment variable {missing[0]} is not set")
    return {name: os.environ[name] for name in names}
