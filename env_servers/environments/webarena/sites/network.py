"""The network of a world: which site answers at which host, in process.

A request never leaves the process and needs no port: `answer` calls the site's ASGI application
with the world in its scope. A host that is none of the sites' has no address here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from env_servers.environments.webarena.sites.site import MAX_FORM, Site
from env_servers.environments.webarena.sites.visit import SESSION_COOKIE, open_session
from env_servers.environments.webarena.sites.world import World

__all__ = ["MAX_ADDRESS", "Answer", "Cookie", "Network", "UnknownHost"]

MAX_ADDRESS: Final = 4000
"""Characters of a path with its query."""


class UnknownHost(Exception):
    """None of the sites has this host; the browser must refuse the request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a site answered."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first header of a name, which is lower-case."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class Cookie:
    """What a browser must have to be signed in."""

    name: str
    value: str
    host: str


class Network:
    """All sites by their hosts."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self.sites: Mapping[str, Site] = {site.name: site for site in sites}
        self._hosts = {site.host.partition(".")[0]: site for site in self.sites.values()}
        self._full_hosts = {site.host for site in self.sites.values()}

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that have an address."""
        return frozenset(self._full_hosts)

    async def answer(
        self,
        world: World,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Return what a site answers to one request.

        Raises:
            UnknownHost: No site is at the address.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.netloc not in self._full_hosts:
            raise UnknownHost(f"no site is at {url[:200]!r}; there are {sorted(self._full_hosts)}")
        pairs = [(b"host", parts.netloc.encode())] + [
            (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in (headers or {}).items()
            if name.lower() != "host"
        ]
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method.upper(),
            "scheme": "http",
            "path": unquote(parts.path or "/"),
            "raw_path": parts.path.encode(errors="replace"),
            "query_string": parts.query.encode(errors="replace"),
            "root_path": "",
            "headers": pairs,
            "server": (parts.netloc, 80),
            "client": None,
            "world": world,
        }
        return await _exchange(self, scope, body)

    def sign_in(self, world: World, site: str, account: str) -> Cookie:
        """Open a session for an account, without its sign-in page; the browser needs the cookie."""
        session = open_session(world, site, account)
        return Cookie(SESSION_COOKIE, session.id, self.sites[site].host)

    def within(self, world: World) -> ASGIApp:
        """Return an application all of whose requests happen in one world."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self({**scope, "world": world}, receive, send)

        return app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: ASGI, with the `world` in the scope."""
        if scope["type"] != "http":
            raise ValueError(f"sites speak HTTP, not {scope['type']}")
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").partition(":")[0]
        site = self._hosts.get(host.partition(".")[0])
        if site is None:
            app: ASGIApp = PlainTextResponse(f"No site is at {host}.", 404)
        elif len(scope["path"]) + len(scope["query_string"]) > MAX_ADDRESS:
            app = PlainTextResponse("The address is too long.", 414)
        elif _length(scope) > MAX_FORM:
            app = PlainTextResponse("The form is too large.", 413)
        else:
            # A page has one name: with and without a slash at its end.
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
            app = site.app
        await app(scope, receive, send)


def _length(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() and len(length) < 16 else MAX_FORM + 1


async def _exchange(app: ASGIApp, scope: Scope, body: bytes) -> Answer:
    scope["headers"].append((b"content-length", str(len(body)).encode()))
    request: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return request.pop() if request else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = tuple((n.decode("latin-1"), v.decode("latin-1")) for n, v in sent[0]["headers"])
    return Answer(sent[0]["status"], headers, b"".join(part.get("body", b"") for part in sent[1:]))
