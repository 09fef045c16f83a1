"""An episode's session with the MCP server, begun with its first call.

A session that is lost (the server ended, or did not answer) is made anew where the server is
deterministic: the calls so far are made again, and have to be answered as they were. Elsewhere its
episode cannot go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

from env_servers.environments.mcp.checks import Called, judge
from env_servers.environments.mcp.errors import NotRepeatable, ServerLost
from env_servers.environments.mcp.prompt import McpTool
from env_servers.environments.mcp.server import ServerAddress
from env_servers.environments.mcp.task_file import Check
from env_servers.sdk import InvalidOption
from env_servers.toolkit.tool_calls import (
    Backend,
    Reply,
    ServiceUnavailable,
    Session,
    ToolError,
    ToolSet,
    ToolTask,
)

if TYPE_CHECKING:
    from env_servers.environments.mcp.connection import Connection

__all__ = ["McpBackend", "McpSession", "ServerOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How sessions with a server are held."""

    address: ServerAddress
    seconds: float = 20.0
    """For the start of a session, and for each call."""
    deterministic: bool = False
    """Equal calls are answered alike in every session, and none feels another."""


class _Made(NamedTuple):
    """A call that was made, and what its answer was."""

    tool: str
    arguments: Mapping[str, Any]
    ok: bool
    proof: bytes


class McpSession(Session):
    """The server's tools as one episode sees them."""

    def __init__(
        self, options: ServerOptions, toolset: ToolSet, made: Sequence[_Made] = ()
    ) -> None:
        """`made` are the calls of the episode that it continues."""
        self.verdict: tuple[bool, ...] = ()
        """Which checks held at the end."""
        self._options = options
        self._toolset = toolset
        self._made = list(made)
        self._connection: Connection | None = None
        self._begun = False

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        asked = cast("McpTool", self._toolset.get(tool))
        plain = _as_json(asked.arguments(arguments))
        text, ok = self._ask(asked.asked_as, plain)
        self._made.append(_Made(asked.asked_as, plain, ok, _proof(text, ok)))
        if not ok:
            raise ToolError(text)
        return Reply(text)

    def judge(self, checks: Sequence[Check], answer: object) -> None:
        """Find out which checks hold; raises ServiceUnavailable."""
        calls = [Called(call.tool, call.arguments) for call in self._made if call.ok]
        self.verdict = judge(checks, answer, calls, self._look)

    def fork(self) -> McpSession:
        if self._begun and not self._options.deterministic:
            raise InvalidOption(
                "an episode with an MCP server is copied only where the server is deterministic, "
                "as the setting mcp.deterministic says"
            )
        return McpSession(self._options, self._toolset, self._made)

    def cancel(self) -> None:
        if self._connection is not None:
            self._connection.cancel()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _look(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool for a check; it is no call of the episode."""
        text, ok = self._ask(tool, arguments)
        if not ok:
            raise ToolError(text)
        return text

    def _ask(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Return what a tool says, and whether it did what it was asked for."""
        connection = self._connected()
        try:
            return _answer(connection, tool, arguments)
        except ServiceUnavailable:
            self._connection = None  # it has closed itself
            raise

    def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        if self._begun and not self._options.deterministic:
            raise ServerLost(
                "the session with the MCP server was lost, and what was done in it: play the "
                "episode again"
            )
        # The SDK behind it takes longer to import than everything else here: not at the start.
        from env_servers.environments.mcp.connection import Connection

        connection = Connection.open(self._options.address, self._options.seconds)
        for call in self._made:
            text, ok = _answer(connection, call.tool, call.arguments)
            if _proof(text, ok) != call.proof:
                connection.close()
                raise NotRepeatable(
                    f"the MCP server answered {call.tool} otherwise when it was called again: it "
                    "is not deterministic, so do not set mcp.deterministic"
                )
        self._connection, self._begun = connection, True
        return connection


class McpBackend(Backend):
    """Opens a session of its own for each episode."""

    def __init__(self, options: ServerOptions, toolset: ToolSet) -> None:
        """`toolset` are the tools that the server has."""
        self._options = options
        self._toolset = toolset

    def open(self, task: ToolTask) -> Session:
        return McpSession(self._options, self._toolset)


def _answer(connection: Connection, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    try:
        result = connection.call(tool, arguments)
    except ToolError as refusal:
        return refusal.text, False
    return _text_of(result), not result.is_error


def _text_of(result: CallToolResult) -> str:
    """Return what an agent reads of a result: its texts, and what else there is by its type."""
    parts: list[str] = []
    for block in result.content:
        if isinstance(block, TextContent):
            parts.append(block.text)
        elif isinstance(block, EmbeddedResource) and isinstance(
            block.resource, TextResourceContents
        ):
            parts.append(block.resource.text)
        else:
            parts.append(f"[{block.type}]")
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _as_json(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments as a server can be sent them; raises ToolError."""
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the arguments are no JSON: {error}") from None
    return json.loads(text)


def _proof(text: str, ok: bool) -> bytes:
    return hashlib.blake2b(f"{ok} {text}".encode("utf-8", "replace"), digest_size=16).digest()
