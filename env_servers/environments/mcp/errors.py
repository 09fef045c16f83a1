"""Why there is no answer of an MCP server, and what is wrong with a task file.

EnvironmentUnavailable (env_servers.sdk)
├── TaskFileError           the file cannot be read, or asks for what is not there
└── ServiceUnavailable (env_servers.toolkit.tool_calls): infrastructure, never a reward
    ├── ServerNotStarted    there is no such program or address, or it does not speak MCP
    ├── ServerLost          it ended, or closed the connection
    ├── ServerSilent        it did not answer in time
    ├── OversizeMessage     it sent more than one message may have
    └── NotRepeatable       it called itself deterministic, and answers otherwise now
"""

from __future__ import annotations

from env_servers.sdk import EnvironmentUnavailable
from env_servers.toolkit.tool_calls import ServiceUnavailable

__all__ = [
    "NotRepeatable",
    "OversizeMessage",
    "ServerLost",
    "ServerNotStarted",
    "ServerSilent",
    "TaskFileError",
]


class TaskFileError(EnvironmentUnavailable):
    """When a task file is not what it should be; names the file, the task and the key."""


class ServerNotStarted(ServiceUnavailable):
    """When an MCP server cannot be started or reached, or does not speak MCP."""


class ServerLost(ServiceUnavailable):
    """When an MCP server ended or closed the connection before it answered."""


class ServerSilent(ServiceUnavailable):
    """When an MCP server did not answer in time; its session is ended."""


class OversizeMessage(ServiceUnavailable):
    """When an MCP server sent a longer message than is read; its session is ended."""


class NotRepeatable(ServiceUnavailable):
    """When a session that was made anew answered a call otherwise than the one before."""
