"""A retriever on another machine, spoken to as Search-R1's retrieval server expects it.

    POST URL  {"queries": [...], "topk": K, "return_scores": true}
    reply     {"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}

Contains the HTTP exchange: one request for a batch of queries, one deadline for all of it, a bound
on the reply. It asks once: who retries is decided elsewhere. Whatever goes wrong is an
EnvironmentUnavailable, which reaches clients as an INFRASTRUCTURE fault and never as a reward.
"""

from __future__ import annotations

import http
import http.client
import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from env_servers.environments.searchqa.passages import Passage, from_contents
from env_servers.sdk import EnvironmentUnavailable, InvalidOption

__all__ = ["RemoteRetriever"]

MAX_QUERY_CHARS: Final = 4_096
"""Longer queries are cut: encoders read 256 tokens."""
MAX_REPLY_BYTES: Final = 64 * 2**20
_CHUNK: Final = 1 << 16
_OVERLOADED: Final = frozenset((429, 502, 503, 504))
"""Statuses that say nothing about the queries."""


class _Refused(Exception):
    """A status that may be the fault of one query of the batch."""


class RemoteRetriever:
    """A `Retriever` behind a URL."""

    def __init__(self, url: str, top_k: int, *, timeout: float) -> None:
        """`timeout` in seconds, for a whole exchange; raises InvalidOption for no URL."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidOption(f"retriever {url[:200]!r} is no http URL", valid="http://host:port")
        self.url = url
        self._parts: SplitResult = parts
        self._path = (parts.path or "/retrieve") + (f"?{parts.query}" if parts.query else "")
        self._top_k = top_k
        self._timeout = timeout

    def search(self, queries: Sequence[str]) -> list[tuple[Passage, ...]]:
        """Ask for all queries at once; a blank one finds nothing and is not asked."""
        sent = [query[:MAX_QUERY_CHARS] for query in queries if query.strip()]
        results = iter(self._found(sent, time.monotonic() + self._timeout) if sent else ())
        return [next(results) if query.strip() else () for query in queries]

    def close(self) -> None:
        """Nothing is kept between requests."""

    def _found(self, queries: Sequence[str], deadline: float) -> list[tuple[Passage, ...]]:
        """Return the answers; where the server refuses a batch, its halves are asked apart.

        So one query that the server cannot take spoils no others.
        """
        try:
            return self._read(self._post(queries, deadline), len(queries))
        except _Refused as refusal:
            if len(queries) == 1:
                raise self._unavailable(str(refusal)) from None
        half = len(queries) // 2
        return [
            *self._found(queries[:half], deadline),
            *self._found(queries[half:], deadline),
        ]

    def _post(self, queries: Sequence[str], deadline: float) -> bytes:
        payload = {"queries": queries, "topk": self._top_k, "return_scores": True}
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection = self._connection(deadline)
        try:
            connection.connect()
            line = connection.sock
            connection.request("POST", self._path, json.dumps(payload).encode(), headers)
            reply = connection.getresponse()
            content = self._content(line, reply, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if reply.status != http.HTTPStatus.OK:
            problem = f"status {reply.status}: {content[:200].decode('utf-8', 'replace')}"
            if reply.status in _OVERLOADED or reply.status < http.HTTPStatus.BAD_REQUEST:
                raise self._unavailable(problem)
            raise _Refused(problem)
        return content

    def _connection(self, deadline: float) -> http.client.HTTPConnection:
        https = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
        return kind(str(self._parts.hostname), self._parts.port, timeout=self._left(deadline))

    def _content(
        self, line: socket.socket, reply: http.client.HTTPResponse, deadline: float
    ) -> bytes:
        """Return the whole reply, within the deadline also where it comes in drops."""
        content = bytearray()
        while len(content) <= MAX_REPLY_BYTES:
            line.settimeout(self._left(deadline))
            chunk = reply.read1(_CHUNK)
            if not chunk:
                if reply.length:
                    raise http.client.IncompleteRead(bytes(content[:100]), reply.length)
                return bytes(content)
            content += chunk
        raise ValueError(f"the reply has more than {MAX_REPLY_BYTES:,} bytes")

    def _left(self, deadline: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def _read(self, content: bytes, count: int) -> list[tuple[Passage, ...]]:
        try:
            rows = json.loads(content)["result"]
            if not isinstance(rows, list) or len(rows) != count:
                raise ValueError(f"no list of {count} results")
            return [
                tuple(_passage(item) for item in row[: self._top_k])
                for row in cast("list[list[Mapping[str, Any]]]", rows)
            ]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise self._unavailable(
                f"unreadable reply ({type(error).__name__}: {error})"
            ) from error

    def _unavailable(self, problem: str) -> EnvironmentUnavailable:
        return EnvironmentUnavailable(f"the retrieval server {self.url} failed: {problem}"[:500])


def _passage(item: Mapping[str, Any]) -> Passage:
    """Return a result with its score around it, or bare; `contents`, or `title` and `text`."""
    document: Mapping[str, Any] = item.get("document", item)
    identifier = str(document.get("id", ""))
    contents = document.get("contents")
    if contents is None:
        return Passage(identifier, str(document["title"]), str(document["text"]))
    return from_contents(identifier, str(contents))
