"""The network of windows: every request of a browser passes here, and most end here.

Invariant: no request leaves for a host that is not the window's. The requests of a whole browser
are paused by one session, so a tab's first request and every redirect are seen, too; a header that
only this module knows tells whose a request is, and never gets any further.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from env_servers.environments.webarena.browser.errors import SiteFailed
from env_servers.environments.webarena.browser.protocol import ProtocolSession

__all__ = ["Answer", "Door", "Gate", "Refused", "Request", "Respond"]

_HEADER: Final = "x-window"
_MAX_BODY: Final = 32 << 20
_SHOWN_REFUSALS: Final = 100
_MOST_IN_FLIGHT: Final = 256
"""Requests of one window; a page that sends thousands would hold up the sites for all."""
_ANSWERS: Final = 20.0
"""Seconds in which a site of this process has to answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a page asks for."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


class Answer(Protocol):
    """What a site answers."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[str, str]]: ...
    @property
    def body(self) -> bytes: ...


Respond = Callable[[Request], Awaitable[Answer]]
"""A site in this process."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that was not let through."""

    url: str
    why: str


@dataclass(slots=True, eq=False)
class Door:
    """What one window may reach."""

    hosts: Collection[str]
    """Host names, with `:port` unless it is the scheme's; all else is refused."""
    respond: Respond | None = None
    """None = requests to the hosts go to the network."""
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    refused: list[Refused] = field(default_factory=list[Refused])
    failure: SiteFailed | None = None
    shut: str = ""
    """Why nothing is let through any more, for as long as it says so."""
    in_flight: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def headers(self) -> dict[str, str]:
        """What the window's requests must carry."""
        return {_HEADER: self.token}

    def refuse(self, url: str, why: str) -> None:
        if len(self.refused) < _SHOWN_REFUSALS:
            self.refused.append(Refused(url[:500], why))

    def raise_failure(self) -> None:
        """Raise what a site raised since the last call."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


class Gate:
    """The paused requests of one browser process."""

    def __init__(self, session: ProtocolSession, *, reaches_nothing: bool) -> None:
        self._session = session
        self._reaches_nothing = reaches_nothing
        self._doors: dict[str, Door] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._session.on("Fetch.requestPaused", lambda event: self._pause(event))
        await self._session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})

    def open(self, door: Door) -> None:
        self._doors[door.token] = door

    def close(self, door: Door) -> None:
        self._doors.pop(door.token, None)

    def _pause(self, event: dict[str, Any]) -> None:
        headers: dict[str, str] = event["request"]["headers"]
        token = headers.pop(_HEADER, "")
        door = self._doors.get(token)
        task = asyncio.ensure_future(self._answer(event, door))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        if door is not None:
            door.in_flight += 1
            door.changed.set()

    async def _answer(self, event: dict[str, Any], door: Door | None) -> None:
        request_id, url = event["requestId"], event["request"]["url"]
        try:
            if door is None:
                await self._send("Fetch.failRequest", request_id, errorReason="BlockedByClient")
            elif door.shut or door.in_flight > _MOST_IN_FLIGHT:
                door.refuse(url, door.shut or f"more than {_MOST_IN_FLIGHT} requests at once")
                await self._send("Fetch.failRequest", request_id, errorReason="Failed")
            elif _host(url) not in door.hosts:
                door.refuse(url, "this host is none of the sites'")
                await self._refuse(event, door)
            elif door.respond is None:
                headers = [
                    {"name": name, "value": value}
                    for name, value in event["request"]["headers"].items()
                ]
                await self._send("Fetch.continueRequest", request_id, headers=headers)
            else:
                await self._fulfil(event, door, door.respond)
        finally:
            if door is not None:
                door.in_flight -= 1
                door.changed.set()

    async def _refuse(self, event: dict[str, Any], door: Door) -> None:
        """Let the request fail as if there were no such host."""
        if self._reaches_nothing and ":" in _host(event["request"]["url"]):
            # The browser knows ports that no page may open, and says so before it looks for a host.
            await self._send("Fetch.continueRequest", event["requestId"])
            return
        await self._send("Fetch.failRequest", event["requestId"], errorReason="NameNotResolved")

    async def _fulfil(self, event: dict[str, Any], door: Door, respond: Respond) -> None:
        request_id, url = event["requestId"], event["request"]["url"]
        body = _body(event["request"])
        if body is None:
            door.refuse(url, "the browser does not hand over what is uploaded")
            await self._send("Fetch.failRequest", request_id, errorReason="Failed")
            return
        request = Request(event["request"]["method"], url, event["request"]["headers"], body)
        try:
            async with asyncio.timeout(_ANSWERS):
                answer = await respond(request)
        except Exception as error:  # noqa: BLE001 - the boundary to the sites
            door.failure = SiteFailed(f"{request.method} {url[:200]}: {error!r}")
            door.failure.__cause__ = error
            await self._send("Fetch.failRequest", request_id, errorReason="Failed")
            return
        if len(answer.body) > _MAX_BODY:
            door.refuse(url, f"an answer of more than {_MAX_BODY} bytes")
            await self._send("Fetch.failRequest", request_id, errorReason="Failed")
            return
        await self._send(
            "Fetch.fulfillRequest",
            request_id,
            responseCode=answer.status,
            responseHeaders=[{"name": name, "value": value} for name, value in answer.headers],
            body=base64.b64encode(answer.body).decode("ascii"),
        )

    async def _send(self, method: str, request_id: str, **parameters: Any) -> None:
        """Tell the browser; a request whose page is gone by now needs no answer."""
        from playwright.async_api import Error

        with suppress(Error):
            await self._session.send(method, {"requestId": request_id, **parameters})


def _host(url: str) -> str:
    """The part of an address that is allowed or not; a standard port is no part of it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    standard = {"http": 80, "https": 443}.get(parts.scheme)
    return host if port in (None, standard) else f"{host}:{port}"


def _body(request: Mapping[str, Any]) -> bytes | None:
    if not request.get("hasPostData"):
        return b""
    entries = request.get("postDataEntries")
    if entries and all("bytes" in entry for entry in entries):
        return b"".join(base64.b64decode(entry["bytes"]) for entry in entries)
    return request["postData"].encode() if "postData" in request else None
