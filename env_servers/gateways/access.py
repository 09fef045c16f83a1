"""Who may ask a gateway, and how much; and what leaves it where a handler fails.

Checked before a request reaches the gateway's own application, for HTTP and WebSocket alike:

- Host and Origin (`orchestrator.listening`): a web page of somebody else's reaches nothing. Pages
  of the *origins* that the operator named are let through, with what CORS wants.
- A token, where there is one: `Authorization: Bearer TOKEN`, or as the password of basic
  authentication, which clients that know of no token send for http://any:TOKEN@host.
- The size of a body: one that says it is too long is not kept, one that does not say is cut off.
  What still comes of it is thrown away, up to a bound: a connection that is closed with something
  unread is reset, and the client may lose the answer.

An error that nobody expected is logged with its traceback, and answered without.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
from collections.abc import Callable, Collection, Iterable
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_runtime.logs import get_logger
from orchestrator.listening import OwnHosts, is_foreign

__all__ = ["BODY_LIMIT", "Access", "Refusal", "plain_refusal", "reply"]

log = get_logger(__name__)

BODY_LIMIT: Final = 8 << 20
"""Bytes of a request's body: twice the longest action that servers take by default."""
_LATE_BYTES: Final = 8 * BODY_LIMIT
"""Of a body that is too long, thrown away after the answer."""
_LATE_SECONDS: Final = 10.0
_POLICY_VIOLATION: Final = 1008
"""How a WebSocket is closed that must not be opened."""

Refusal = Callable[[int, str], tuple[bytes, bytes]]
"""Content type and body of a refusal, from its status and a sentence."""


def plain_refusal(status: int, sentence: str) -> tuple[bytes, bytes]:
    """Return a refusal as text."""
    return b"text/plain; charset=utf-8", f"{sentence}\n".encode()


async def reply(
    send: Send,
    status: int,
    content_type: bytes,
    body: bytes,
    headers: Iterable[tuple[bytes, bytes]] = (),
    *,
    head: bool = False,
) -> None:
    """Send a whole response; `head` leaves the body out."""
    fields = [(b"content-length", str(len(body)).encode()), *headers]
    if content_type:
        fields.append((b"content-type", content_type))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": b"" if head else body})


class _BodyTooLong(Exception):
    """A body went past the limit while it was read."""


class Access:
    """ASGI middleware: lets through what may be answered, and answers the rest itself."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        token: str = "",
        hosts: Iterable[str] = (),
        origins: Collection[str] = (),
        refusal: Refusal = plain_refusal,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        """Guard an application.

        Args:
            application: What answers.
            token: Asked of every request; empty = none is.
            hosts: Names, beside IP addresses and localhost, that are this server.
            origins: Origins whose pages may ask, for example http://localhost:3000.
            refusal: How the gateway's protocol says no.
            body_limit: Bytes.
        """
        self._token = token.encode()
        self._hosts = OwnHosts(hosts)
        self._origins = frozenset(origins)
        self._refusal = refusal
        self._body_limit = body_limit
        self._known_hosts: set[str] = set()
        """Hosts that were found to be this server: parsing costs as much as a step."""
        self._answer = application
        if origins:
            self._answer = CORSMiddleware(
                application,
                allow_origins=list(origins),
                allow_methods=["*"],
                allow_headers=["*"],
                allow_credentials=True,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._answer(scope, receive, send)
            return
        # Not starlette's Headers: looking seven of them up there costs a tenth of a step.
        headers = dict(scope["headers"])
        refused = self._check(scope, headers)
        if refused is not None:
            await self._refuse(scope, receive, send, *refused)
            return
        await self._guarded(scope, _Counted(receive, self._body_limit), send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Return status and sentence of a refusal; None = the request may pass."""
        host = headers.get(b"host", b"").decode("latin-1")
        if host not in self._known_hosts:
            if host not in self._hosts:
                return (
                    403,
                    f"this server is not {host!r}: use its IP address, localhost, or its --host",
                )
            if len(self._known_hosts) < 100:
                self._known_hosts.add(host)
        if (b"origin" in headers or b"sec-fetch-site" in headers) and not self._may_ask(scope):
            return 403, "this gateway does not answer the pages of others: name them by --origin"
        if self._token and not self._is_authorized(headers) and not _is_preflight(scope, headers):
            return 401, "this gateway wants its token: Authorization: Bearer TOKEN"
        length = headers.get(b"content-length", b"0")
        # isdigit of bytes knows ASCII alone; a number of more digits is not even read.
        if not length.isdigit() or len(length) > 20 or int(length) > self._body_limit:
            return 413, f"the body is longer than {self._body_limit:,} bytes"
        return None

    def _may_ask(self, scope: Scope) -> bool:
        """Tell whether a request of a browser is of this server's pages, or of a named one."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        return origin in self._origins or not is_foreign(headers, headers.get("host", ""))

    def _is_authorized(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"").decode("latin-1")
        scheme, _, credentials = given.partition(" ")
        shown = credentials.strip().encode()
        if scheme.lower() == "basic":
            try:
                shown = base64.b64decode(shown, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(shown, self._token)

    async def _guarded(self, scope: Scope, receive: _Counted, send: Send) -> None:
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            if not receive.exceeded:  # else it is what the application makes of the cut
                started = True
                await send(message)

        try:
            await self._answer(scope, receive, noted)
        except Exception:  # boundary of a request: it fails alone
            if not receive.exceeded:
                log.exception("gateway failed", method=scope.get("method"), path=scope["path"])
                if not started:
                    sentence = "the gateway failed; its log says where"
                    await self._refuse(scope, receive, send, 500, sentence)
        if receive.exceeded and not started:
            sentence = f"the body is longer than {self._body_limit:,} bytes"
            await self._refuse(scope, receive.rest, send, 413, sentence)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, sentence: str
    ) -> None:
        if scope["type"] == "websocket":
            await send(
                {"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": sentence[:120]}
            )
            return
        content_type, body = self._refusal(status, sentence)
        extra: list[tuple[bytes, bytes]] = []
        if status == 401:
            extra.append((b"www-authenticate", b'Basic realm="gateway", charset="UTF-8"'))
        if status == 413:
            extra.append((b"connection", b"close"))
            send = _after_the_body(scope, receive, send)
        await reply(send, status, content_type, body, extra, head=scope["method"] == "HEAD")


class _Counted:
    """`receive` that ends a body at its limit: one need not say how long it is."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._left = limit
        self._ended = False
        self.exceeded = False
        """The body went past the limit; nothing that is read of it counts."""

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.exceeded = True
            self._ended = not message.get("more_body", False)
            raise _BodyTooLong
        return message

    async def rest(self) -> Message:
        """Return what comes after the cut."""
        if self._ended:
            return {"type": "http.request", "body": b"", "more_body": False}
        return await self._receive()


def _after_the_body(scope: Scope, receive: Receive, send: Send) -> Send:
    """Return `send` for an answer that is said at once, and ends when the request has."""

    async def sending(message: Message) -> None:
        if message["type"] != "http.response.body":
            await send(message)
            return
        await send({**message, "more_body": True})
        # Who asks before it sends has nothing under way.
        if not any(name == b"expect" for name, _ in scope["headers"]):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LATE_SECONDS):
                    await _throw_away(receive)
        await send({"type": "http.response.body", "body": b""})

    return sending


async def _throw_away(receive: Receive) -> None:
    left = _LATE_BYTES
    while left > 0:
        message = await receive()
        if not message.get("more_body", False):  # the end, or the client has gone
            return
        left -= len(message["body"])


def _is_preflight(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Tell whether a browser asks if it may ask: without credentials, by its rules."""
    return scope.get("method") == "OPTIONS" and b"access-control-request-method" in headers
