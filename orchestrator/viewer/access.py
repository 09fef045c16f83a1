"""Who may ask the viewer, and what its pages may do: checked before anything else is looked at.

Transcripts are private, and every web page that this user visits can send requests to loopback. So:

- The *Host* of a request is an IP address, `localhost` or a name that this server was given: a name
  of an attacker's that resolves to this machine (DNS rebinding) is none of these.
- A request that a browser sends for another page (its Origin, its Sec-Fetch-Site) reaches no data.
- A token opens the pages: in the address at first, in a cookie from then on, as Jupyter does.
- Only GET and HEAD exist.
- A Content-Security-Policy without inline code: a page runs the scripts of this server or none.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["TOKEN_PARAMETER", "Access"]

TOKEN_PARAMETER: Final = "token"
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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

    def __init__(self, application: ASGIApp, *, token: str, hosts: Iterable[str]) -> None:
        """Guard `application`; `hosts` are the names, beside IP addresses, that are this server."""
        self._application = application
        self._token = token.encode()
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}
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
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer = self._answer(Request(scope))
        await (answer or self._application)(scope, receive, send_guarded)

    def _answer(self, request: Request) -> Response | None:
        """Return what is answered in place of the application; None = the request may pass."""
        if request.method not in ("GET", "HEAD"):
            return _refusal(405, "the viewer only shows: GET and HEAD\n")
        host = request.headers.get("host", "")
        if not self._is_own(host):
            return _refusal(
                403, f"this server is not {host!r}: use its IP address, localhost, or its --host\n"
            )
        if _is_foreign(request, host):
            return _refusal(403, "the viewer does not answer the pages of others\n")
        if self._matches(request.query_params.get(TOKEN_PARAMETER, "")):
            return self._sign_in(request)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._matches(bearer.strip()):
            return None
        cookie = request.cookies.get(self._cookie, "").encode()
        if hmac.compare_digest(cookie, self._proof.encode()):
            return None
        return _refusal(403, _LOCKED)

    def _matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token)

    def _is_own(self, host: str) -> bool:
        name = _host_name(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True

    def _sign_in(self, request: Request) -> Response:
        """Take the token out of the address: it must not stay in a history or be sent on."""
        query = [it for it in request.query_params.multi_items() if it[0] != TOKEN_PARAMETER]
        path = "/" + request.url.path.lstrip("/")
        response = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        response.set_cookie(self._cookie, self._proof, httponly=True, samesite="lax")
        return response


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # for example an IPv6 address that is none
        return ""


def _is_foreign(request: Request, host: str) -> bool:
    """Tell whether another page asks, or leads here to anything but a page."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return True
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site in ("same-origin", "none"):
        return False
    # A link in a message may be followed; what a foreign page embeds or fetches is refused.
    return request.headers.get("sec-fetch-mode") != "navigate"


def _refusal(status: int, text: str) -> Response:
    return PlainTextResponse(text, status)
