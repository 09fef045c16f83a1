"""One session with an MCP server, for a caller without an event loop.

Sessions of a process share one event loop in a thread, which is there while one of them is open. A
call that gets no answer ends its session: nobody knows what the server has done of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from typing import Any, Final, TypeVar

import anyio
from anyio.from_thread import BlockingPortalProvider
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolResult, Tool

from env_servers.environments.mcp.errors import ServerLost, ServerNotStarted, ServerSilent
from env_servers.environments.mcp.server import ServerAddress
from env_servers.toolkit.tool_calls import ServiceUnavailable, ToolError

__all__ = ["Connection"]

T = TypeVar("T")

_PORTALS: Final = BlockingPortalProvider()
_LOST: Final = (CONNECTION_CLOSED, REQUEST_TIMEOUT)
_PAGES: Final = 100
"""Of a list of tools that are read."""
_CLOSE_SECONDS: Final = 10.0


class Connection:
    """An open session; made by `open`."""

    def __init__(self, address: ServerAddress, seconds: float) -> None:
        """Describe a session; `seconds` bound its opening and each call."""
        self._transport = address.transport()
        self._seconds = seconds
        self._held = ExitStack()
        self._portal = self._held.enter_context(_PORTALS)
        self._ready: Future[Client] = Future()
        self._closing = anyio.Event()
        self._ended: Future[None] | None = None
        self._lock = threading.Lock()
        self._waiting: Future[Any] | None = None

    @classmethod
    def open(cls, address: ServerAddress, seconds: float) -> Connection:
        """Start or reach a server.

        Raises:
            ServerNotStarted: There is none, or it does not speak MCP.
            ServerSilent: It says nothing.
            ServiceUnavailable: It ended, or said too much.
        """
        connection = cls(address, seconds)
        connection._ended = connection._portal.start_task_soon(connection._serve)
        try:
            connection._ready.result(seconds)
        except TimeoutError:
            connection.close()
            raise ServerSilent(
                f"the MCP server did not begin a session within {seconds:g} s"
            ) from None
        except ServiceUnavailable:
            connection.close()
            raise
        return connection

    def tools(self) -> Sequence[Tool]:
        """Return the server's tools; raises ServiceUnavailable."""
        return self._wait(self._list)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool by the server's name for it.

        Raises:
            ToolError: The server refuses the call.
            ServiceUnavailable: There is no answer; the session is closed.
        """
        return self._wait(lambda: self._client.call_tool(tool, dict(arguments)))

    def cancel(self) -> None:
        """Let a call that waits return early, from another thread; it ends the session."""
        with self._lock:
            waiting = self._waiting
        if waiting is not None:
            waiting.cancel()

    def close(self) -> None:
        """End the session, and the server's process."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        self._portal.start_task_soon(self._closing.set)
        try:
            ended.result(_CLOSE_SECONDS if self._ready.done() else 0.0)
        except (TimeoutError, CancelledError):
            ended.cancel()  # whatever it waits for, its process is ended on the way out
        self._held.close()

    @property
    def _client(self) -> Client:
        return self._ready.result()

    async def _serve(self) -> None:
        """Hold the session open, in the one task that may open and close it."""
        try:
            async with Client(self._transport, cache=None) as client:
                self._ready.set_result(client)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - boundary: the SDK raises groups of anything
            if not self._ready.done():
                self._ready.set_exception(self._not_started(error))

    def _not_started(self, error: BaseException) -> ServiceUnavailable:
        if self._transport.fault is not None:
            return self._transport.fault
        causes = _leaves(error)
        known = next((it for it in causes if isinstance(it, ServiceUnavailable)), None)
        return known or ServerNotStarted(
            f"there is no session with the MCP server: {causes[0] or type(causes[0]).__name__}"
        )

    async def _list(self) -> Sequence[Tool]:
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise ServerNotStarted(f"the MCP server's list of tools has more than {_PAGES} pages")

    def _wait(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        future = self._portal.start_task_soon(ask)
        with self._lock:
            self._waiting = future
        try:
            return future.result(self._seconds)
        except TimeoutError:
            future.cancel()
            fault: ServiceUnavailable = ServerSilent(
                f"the MCP server did not answer within {self._seconds:g} s"
            )
        except CancelledError:
            fault = ServerSilent("the MCP server was asked in a step that was cancelled")
        except ServiceUnavailable as error:
            fault = error
        except MCPError as error:
            if self._transport.fault is None and error.code not in _LOST:
                raise ToolError(error.message) from error
            fault = ServerLost(f"the MCP server does not answer: {error.message}")
        except Exception as error:  # noqa: BLE001 - boundary: what the SDK makes of wrong answers
            fault = ServerLost(f"the MCP server's answer cannot be used: {_leaves(error)[0]}")
        finally:
            with self._lock:
                self._waiting = None
        fault = self._transport.fault or fault  # asked before closing, which is an end, too
        self.close()
        raise fault


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, or the error."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]
