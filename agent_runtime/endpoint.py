"""One HTTP server that speaks JSON: pooled connections, bounded replies and typed errors.

Nothing here repeats a request or holds one back: `agent_runtime.request_sender` does.
"""

from __future__ import annotations

import base64
import email.utils
import ipaddress
import json
import math
import re
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

import aiohttp
import orjson

from agent_runtime.errors import (
    ContextOverflow,
    PolicyError,
    PolicyLost,
    PolicyMisbehaved,
    PolicyMisconfigured,
    PolicyOverloaded,
    PolicyRejected,
    PolicyUnavailable,
    Trouble,
)
from agent_runtime.redaction import redact_text, remember

__all__ = ["Endpoint", "error_for", "is_loopback", "split_credentials"]

_CONTEXT_WORDS: Final = re.compile(
    r"context[ _-]?(length|window|size)|maximum (context|prompt|input) length"
    r"|(prompt|input) is too long|exceeds? the maximum (allowed )?(input )?length"
    r"|reduce the length of the messages",
    re.IGNORECASE,
)
_MESSAGE_LIMIT: Final = 500
_CONNECT_TIMEOUT: Final = 10.0
# Shorter than the 5 s after which uvicorn closes idle connections: a connection that the server is
# about to close is never picked for a request.
_KEEPALIVE: Final = 4.0
_REPLY_LIMIT: Final = 16 << 20
"""Bytes of a reply, decompressed: ids and logprobs of some 400,000 tokens. What is read from more
would be many times as large in memory."""
_ERROR_LIMIT: Final = 64 << 10
"""Bytes that are read of a refusal."""
_RETRY_AFTER_LIMIT: Final = 300.0
"""Seconds for which a server's wish to be left alone is respected; then it is asked again."""
_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")
_NO_DATA: Final = (b":", b"event:", b"id:", b"retry:")
_ANY_ZLIB: Final = 32 + zlib.MAX_WBITS
"""gzip or deflate, whichever the data's header says."""
# Replies are small or on this network: compressed, they would only cost time.
_HEADERS: Final = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


class Endpoint:
    """A server under one base address; use between `open` and `close`."""

    def __init__(self, base_url: str, *, timeout: float, api_key: str = "") -> None:
        """Describe the server; nothing is connected before `open`.

        Args:
            base_url: What paths are appended to, http(s)://HOST... A user and a password in it
                go before the key; neither is in the attribute `base_url`.
            timeout: Seconds for one exchange.
            api_key: Bearer token; never shown in errors.

        Raises:
            PolicyMisconfigured: `base_url` is not an http(s) address.
        """
        try:
            parts = urlsplit(base_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            usable = False
        if not usable:
            shown = redact_text(base_url)
            raise PolicyMisconfigured(f"{shown!r} is no address: it must be http(s)://HOST...")
        self.base_url, self._authorization = split_credentials(base_url.rstrip("/"))
        if not self._authorization and api_key:
            self._authorization = f"Bearer {api_key}"
        remember(api_key)
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None
        self._control: aiohttp.ClientSession | None = None
        """For what cannot be sent twice: each request has a connection of its own, because one that
        lies in the pool may be closed by the server in the same moment."""

    async def open(self) -> None:
        """Make the connection pool; needs a running event loop."""
        if self._session is None:
            headers = {"Authorization": self._authorization} if self._authorization else {}
            # The sender bounds what is in flight; the pool must not queue beneath it.
            pool = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE)
            single = aiohttp.TCPConnector(limit=0, force_close=True)
            # Decompressed here, within a limit that aiohttp does not know.
            self._session, self._control = (
                aiohttp.ClientSession(connector=connector, headers=headers, auto_decompress=False)
                for connector in (pool, single)
            )

    async def close(self) -> None:
        """Close all connections."""
        sessions = (self._session, self._control)
        self._session = self._control = None
        for session in sessions:
            if session is not None:
                await session.close()

    async def post(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send one request.

        Returns:
            The reply's JSON object.

        Raises:
            PolicyError: The server refused, failed or could not be reached.
        """
        return _json_object(await self._exchange("POST", path, self._timeout, body, headers))

    async def stream(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[dict[str, Any]]:
        """Send one request and read its server-sent events.

        Ends with the stream, whether or not the server said that it was whole.

        Yields:
            The JSON object of each event.

        Raises:
            PolicyError: As `post`; also what an event says that went wrong.
        """
        async with self._request("POST", path, self._timeout, body, headers) as response:
            if response.status >= 300:
                raise await self._error(response)
            buffer = bytearray()
            async for chunk in self._chunks(response):
                buffer += chunk
                while (end := _EVENT_END.search(buffer)) is not None:
                    data = _event_data(bytes(buffer[: end.start()]))
                    del buffer[: end.end()]
                    if data == b"[DONE]":
                        return
                    if data:
                        yield _event(data)

    async def control(
        self, path: str, body: Mapping[str, Any], *, timeout: float
    ) -> dict[str, Any]:
        """Send one request for control.

        Returns:
            The reply where that is a JSON object; else an empty one.

        Raises:
            PolicyError: As `post`.
        """
        content = await self._exchange("POST", path, timeout, body, session=self._control)
        try:
            return _json_object(content)
        except PolicyMisbehaved:  # several commands are answered by a sentence, or not at all
            return {}

    async def get(self, path: str, *, timeout: float) -> dict[str, Any]:
        """Read the JSON object under a path; empty for an empty reply. Raises PolicyError."""
        content = await self._exchange("GET", path, timeout)
        return _json_object(content) if content.strip() else {}

    async def _exchange(
        self,
        method: str,
        path: str,
        timeout: float,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> bytes:
        async with self._request(method, path, timeout, body, headers, session) as response:
            if response.status >= 300:
                raise await self._error(response)
            content = bytearray()
            async for chunk in self._chunks(response):
                content += chunk
            return bytes(content)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        timeout: float,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        session: aiohttp.ClientSession | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open one exchange; what breaks it, also while its body is read, becomes a PolicyError."""
        session = session or self._session
        if session is None:
            raise RuntimeError("the policy is not started")
        try:
            async with session.request(
                method,
                self.base_url + path,
                data=None if body is None else orjson.dumps(body),
                headers={**_HEADERS, **(headers or {})},
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_TIMEOUT),
                allow_redirects=False,
            ) as response:
                yield response
        except aiohttp.ConnectionTimeoutError as error:
            raise PolicyLost(f"{self.base_url}: no connection") from error
        except TimeoutError:
            text = f"{self.base_url} did not answer within {timeout:g} s"
            raise PolicyUnavailable(text, trouble=Trouble.TIMEOUT) from None
        except (aiohttp.ClientError, OSError) as error:
            text = f"{self.base_url}: {str(error) or type(error).__name__}"
            connected = not isinstance(error, aiohttp.ClientConnectorError)
            trouble = Trouble.BROKEN if connected else Trouble.DOWN
            raise PolicyLost(text, trouble=trouble) from error

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        """Read a body by and by, decompressed; raises PolicyMisbehaved beyond the limit."""
        unpack = _unpacker(response.headers.get("Content-Encoding", ""))
        left = _REPLY_LIMIT
        async for packed in response.content.iter_any():
            try:
                chunk = unpack(packed, left + 1)
            except zlib.error as error:
                raise PolicyMisbehaved(f"the reply cannot be decompressed: {error}") from error
            left -= len(chunk)
            if left < 0:
                raise PolicyMisbehaved(f"the reply is longer than {_REPLY_LIMIT >> 20} MiB")
            yield chunk

    async def _error(self, response: aiohttp.ClientResponse) -> PolicyError:
        content = bytearray()
        async for chunk in self._chunks(response):
            content += chunk
            if len(content) >= _ERROR_LIMIT:
                break
        text = redact_text(content[:_ERROR_LIMIT].decode("utf-8", "replace"))
        return error_for(response.status, text, response.headers)


def split_credentials(url: str) -> tuple[str, str]:
    """Return an address without user and password, and the header that they come to, or ""."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return url, ""
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    for secret in (password, parts.password or "", encoded):
        remember(secret)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, f"Basic {encoded}"


def is_loopback(url: str) -> bool:
    """Tell whether an address is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def error_for(status: int, content: str, headers: Mapping[str, str]) -> PolicyError:
    """Return the error that an HTTP status of 300 and above means.

    Args:
        status: The HTTP status.
        content: The reply's body.
        headers: The reply's headers; `Retry-After` and `retry-after-ms` count.
    """
    code, message = _error_fields(content)
    text = f"HTTP {status}: {message[:_MESSAGE_LIMIT] or 'no message'}"
    if status in (400, 413, 422) and (
        code == "context_length_exceeded" or _CONTEXT_WORDS.search(message)
    ):
        return ContextOverflow(text)
    wait = _retry_after(headers)
    full = status == 503 and "queue is full" in message
    if full or (status == 429 and code != "insufficient_quota"):
        return PolicyOverloaded(text, retry_after=wait)
    if status in (502, 503, 504):
        return PolicyLost(text, retry_after=wait)
    if status in (408, 409, 425) or status >= 500:
        return PolicyUnavailable(text, trouble=Trouble.ERROR, retry_after=wait)
    return PolicyRejected(text, status=status)


def _error_fields(content: str) -> tuple[str, str]:
    """Read code and message of an error body, whichever of the common layouts it has."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return "", content.strip()
    error: object = body
    if isinstance(error, dict):
        outer = cast("dict[str, object]", error)
        error = outer.get("error") or outer.get("detail") or outer
    if isinstance(error, dict):
        inner = cast("dict[str, object]", error)
        return str(inner.get("code") or inner.get("type") or ""), str(inner.get("message") or inner)
    return "", str(error)


def _event_data(event: bytes) -> bytes:
    """Return the data of a server-sent event; empty for a comment, by which servers keep alive."""
    lines = (line for line in event.splitlines() if not line.startswith(_NO_DATA))
    return b"\n".join(line.removeprefix(b"data:").strip() for line in lines)


def _event(data: bytes) -> dict[str, Any]:
    """Read one event's object; raises the error that it carries."""
    event = _json_object(data)
    if "error" not in event:
        return event
    error = event["error"]
    details = cast("dict[str, object]", error) if isinstance(error, dict) else {}
    status = details.get("code")
    raise error_for(status if isinstance(status, int) else 500, data.decode("utf-8", "replace"), {})


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how long a server asks to wait, in seconds; None = it does not say.

    `retry-after-ms` goes before `Retry-After`, which is a number of seconds or a date.
    """
    for name, unit in (("retry-after-ms", 0.001), ("Retry-After", 1.0)):
        value = headers.get(name, "").strip()
        try:
            return _bounded_wait(float(value) * unit)
        except ValueError:
            continue
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("Retry-After", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    return _bounded_wait(moment - time.time())


def _bounded_wait(seconds: float) -> float:
    """Raises ValueError for what is no number."""
    if math.isnan(seconds):
        raise ValueError(seconds)
    return min(max(0.0, seconds), _RETRY_AFTER_LIMIT)


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes]:
    """Return what decompresses pieces of a body, giving no more bytes than it is told."""
    if encoding in ("", "identity"):
        return lambda packed, _limit: packed
    if encoding not in ("gzip", "deflate"):
        raise PolicyMisbehaved(f"the reply is compressed by {encoding[:40]!r}, without being asked")
    decompressor = zlib.decompressobj(_ANY_ZLIB)
    return decompressor.decompress


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(content)
    except ValueError:
        text = f"the reply is no JSON: {content[:80]!r}"
        raise PolicyMisbehaved(text, trouble=Trouble.INVALID) from None
    if not isinstance(body, dict):
        text = f"the reply is no JSON object: {content[:80]!r}"
        raise PolicyMisbehaved(text, trouble=Trouble.INVALID)
    return cast("dict[str, Any]", body)
