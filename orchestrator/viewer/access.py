"""Who may ask the viewer, and what its pages may do: checked before anything else is looked at.

Transcripts are private, and every web page that this user visits can send requests to loopback. So:

- The *Host* of a request is this server's, and no request is foreign (`orchestrator.listening`).
- A token opens the pages: in the address at first, in a cookie from then on, as Jupyter does.
- GET and HEAD only read. POST exists at the addresses that were named, which start something:
  with JSON (no form can send that) of a bounded size, and from a page whose Origin is this server,
  or from a program that shows the token itself. A cookie alone is no proof: a browser sends it
  for pages on other ports of this machine, too.
- A Content-Security-Policy without inline code: a page runs the scripts of this server or none. An
  answer that brings its own (a view of an environment's) keeps it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.listening import OwnHosts, is_foreign

__all__ = ["MAX_BODY_BYTES", "TOKEN_PARAMETER", "Access"]

TOKEN_PARAMETER: Final = "token"
MAX_BODY_BYTES: Final = 1024 * 1024
"""Of what is posted: an agent's reply is the longest part."""
_SAME: Final = "same-origin"
_LENGTH_DIGITS: Final = 9
"""Of a Content-Length that is read as a number at all."""
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOCKED: Final = (
    "The viewer shows this to whoever knows its token. Open the address that the command printed; "
    "programs send the header 'Authorization: Bearer TOKEN'.\n"
)


class Access:
    """ASGI middleware: lets through what may be answered, and answers the rest itself."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        token: str,
        hosts: Iterable[str],
        posts: Collection[str] = (),
    ) -> None:
        """Guard `application`.

        Args:
            application: What answers those who may ask.
            token: Opens it.
            hosts: The names, beside IP addresses, that are this server.
            posts: Paths that take POST, and nothing else.
        """
        self._application = application
        self._posts = frozenset(posts)
        self._token = token.encode()
        self._hosts = OwnHosts(hosts)
        digest = hashlib.sha256(b"name" + self._token).hexdigest()
        # Cookies know no ports: two viewers on one machine must not sign each other out.
        self._cookie = f"agentgym-viewer-{digest[:8]}"
        self._proof = hmac.digest(self._token, b"agentgym-viewer", "sha256").hex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # The lifespan; nothing here speaks WebSocket.
            await self._application(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(Request(scope))
        await (answer or self._application)(scope, receive, send_guarded)

    def _answer(self, request: Request) -> Response | None:
        """Return what is answered in place of the application; None = the request may pass."""
        posts = request.url.path in self._posts
        if request.method not in (("POST",) if posts else ("GET", "HEAD")):
            return _refusal(405, f"the viewer does not answer {request.method} here\n")
        host = request.headers.get("host", "")
        if host not in self._hosts:
            return _refusal(
                403, f"this server is not {host!r}: use its IP address, localhost, or its --host\n"
            )
        if is_foreign(request.headers, host):
            return _refusal(403, "the viewer does not answer the pages of others\n")
        if posts:
            return self._refused_post(request)
        if self._matches(request.query_params.get(TOKEN_PARAMETER, "")):
            return self._sign_in(request)
        if self._shows_token(request) or self._has_cookie(request):
            return None
        return _refusal(403, _LOCKED)

    def _refused_post(self, request: Request) -> Response | None:
        """Return why a POST that is not foreign may not pass; None = it may."""
        headers = request.headers
        if not self._shows_token(request):
            if not self._has_cookie(request):
                return _refusal(403, _LOCKED)
            # Browsers send the Origin with every POST, and the site to loopback and over TLS.
            if "origin" not in headers or headers.get("sec-fetch-site", _SAME) != _SAME:
                return _refusal(403, "posts come from the viewer's own pages, or with the token\n")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refusal(415, "what is posted is application/json\n")
        length = headers.get("content-length", "")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            return _refusal(411, "what is posted says its Content-Length\n")
        if len(length) > _LENGTH_DIGITS or int(length) > MAX_BODY_BYTES:
            return _refusal(413, f"what is posted has at most {MAX_BODY_BYTES:,} bytes\n")
        return None

    def _shows_token(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._matches(bearer.strip())

    def _has_cookie(self, request: Request) -> bool:
        cookie = request.cookies.get(self._cookie, "").encode()
        return hmac.compare_digest(cookie, self._proof.encode())

    def _matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token)

    def _sign_in(self, request: Request) -> Response:
        """Take the token out of the address: it must not stay in a history or be sent on."""
        query = [it for it in request.query_params.multi_items() if it[0] != TOKEN_PARAMETER]
        path = "/" + request.url.path.lstrip("/")
        response = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        response.set_cookie(self._cookie, self._proof, httponly=True, samesite="lax")
        return response


def _refusal(status: int, text: str) -> Response:
    return PlainTextResponse(text, status)
