"""An MCP server at an address of streamable HTTP, with a bound on what one answer may hold."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client

from env_servers.environments.mcp.errors import OversizeMessage
from env_servers.toolkit.tool_calls import ServiceUnavailable

__all__ = ["HttpTransport"]


class HttpTransport:
    """Carries messages to a server and back; an async context manager, used once."""

    def __init__(self, url: str, headers: Mapping[str, str], message_bytes: int) -> None:
        """Describe a server; of its answers at most `message_bytes` are read."""
        self.fault: ServiceUnavailable | None = None
        """Why the connection ended, where the server is to blame."""
        self._url = url
        self._headers = headers
        self._message_bytes = message_bytes
        self._opened = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Any:
        return await self._opened.enter_async_context(self._streams())

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._opened.__aexit__(*error)

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Any]:
        """Yield the streams of messages from the server and to it."""
        # No time limit here: whoever asks knows how long an answer may take.
        transport = _Bounded(self._message_bytes, self._blame)
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=None, transport=transport) as client,
            streamable_http_client(
                self._url, http_client=client, max_sse_event_size=self._message_bytes
            ) as streams,
        ):
            yield streams

    def _blame(self) -> None:
        self.fault = OversizeMessage(
            f"the MCP server sent a message of more than {self._message_bytes:,} bytes"
        )


class _Bounded(httpx2.AsyncHTTPTransport):
    """Reads no longer answer than is allowed; of event streams the SDK bounds each event."""

    def __init__(self, limit: int, blame: Callable[[], None]) -> None:
        super().__init__()
        self._limit = limit
        self._blame = blame

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if "text/event-stream" not in response.headers.get("content-type", ""):
            stream = cast("httpx2.AsyncByteStream", response.stream)
            response.stream = _BoundedStream(stream, self._limit, self._blame)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, limit: int, blame: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._left = limit
        self._blame = blame

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                self._blame()
                raise httpx2.StreamError("the answer is too long")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
