"""An MCP server as a process of its own, with bounds on what it sends and on how long it ends.

The SDK's own transport reads lines of any length. The process gets the few environment variables
that the SDK passes on, and those that were named.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from env_servers.environments.mcp.errors import OversizeMessage, ServerLost, ServerNotStarted
from env_servers.toolkit.tool_calls import ServiceUnavailable

__all__ = ["StdioTransport"]

_LEAVE_SECONDS: Final = 2.0
"""For a process to end by itself once its input is closed; then it is killed with its children."""
_LOOK_SECONDS: Final = 0.005
"""Between two looks whether a process has ended."""
_CHUNK: Final = 64 * 1024
_TAIL_BYTES: Final = 2_000
"""Of what a server complained about, for errors."""


class StdioTransport:
    """Starts a server and carries messages; an async context manager, used once."""

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], message_bytes: int
    ) -> None:
        """Describe a server.

        Args:
            command: The program and its arguments.
            variables: Environment variables, besides those that the SDK passes on.
            message_bytes: Longest message that is read.
        """
        self.fault: ServiceUnavailable | None = None
        """Why the connection ended, where the server is to blame."""
        self._command = command
        self._variables = variables
        self._message_bytes = message_bytes
        self._complaints = b""
        self._opened = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Any:
        return await self._opened.enter_async_context(self._streams())

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._opened.__aexit__(*error)

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Any]:
        """Yield the streams of messages from the server and to it; raises ServerNotStarted."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=get_default_environment() | dict(self._variables),
                limit=self._message_bytes,
                start_new_session=True,  # its children are killed with it
            )
        except (OSError, ValueError) as error:
            raise ServerNotStarted(f"cannot start {self._command[0]!r}: {error}") from error
        arriving, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, process, arriving)
            tasks.start_soon(self._speak, process, leaving)
            tasks.start_soon(self._overhear, process)
            try:
                yield from_server, to_server
            finally:
                for stream in (from_server, to_server):
                    stream.close()
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()

    async def _listen(self, process: asyncio.subprocess.Process, arriving: Any) -> None:
        """Pass on what the server says until it ends; later words are thrown away."""
        assert process.stdout is not None
        async with arriving:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._pass_on(process, process.stdout, arriving)
        while await process.stdout.read(_CHUNK):  # who cannot write does not end
            pass

    async def _pass_on(
        self, process: asyncio.subprocess.Process, said: asyncio.StreamReader, arriving: Any
    ) -> None:
        while True:
            try:
                line = await said.readline()
            except ValueError:
                self.fault = OversizeMessage(
                    f"the MCP server sent a message of more than {self._message_bytes:,} bytes"
                )
                return
            if not line:
                # Its last words may still be on their way, and its exit status.
                await _exited(process, _LEAVE_SECONDS)
                self.fault = ServerLost(self._obituary(process))
                return
            await arriving.send(_read(line))

    async def _speak(self, process: asyncio.subprocess.Process, leaving: Any) -> None:
        assert process.stdin is not None
        async with leaving:
            with contextlib.suppress(OSError):  # that it has ended is seen where it is listened to
                async for message in leaving:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(f"{text}\n".encode())
                    await process.stdin.drain()

    async def _overhear(self, process: asyncio.subprocess.Process) -> None:
        """Keep the end of what the server complains about."""
        assert process.stderr is not None
        while chunk := await process.stderr.read(_CHUNK):
            self._complaints = (self._complaints + chunk)[-_TAIL_BYTES:]

    def _obituary(self, process: asyncio.subprocess.Process) -> str:
        text = self._complaints.decode("utf-8", "replace").strip()
        status = "closed its output" if process.returncode is None else "ended"
        if process.returncode is not None:
            status += f" with status {process.returncode}"
        return f"the MCP server {status}" + (f"; it said: {text}" if text else "")


def _read(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:  # for the session, which asks nobody and goes on
        return error


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let a process end by itself, or kill it and its children."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _exited(process, _LEAVE_SECONDS):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await _exited(process, _LEAVE_SECONDS)


async def _exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait until a process has ended; returns whether it has.

    Not by its own `wait`, which waits for the end of its output, too: a child may hold that.
    """
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_LOOK_SECONDS)
    return process.returncode is not None
