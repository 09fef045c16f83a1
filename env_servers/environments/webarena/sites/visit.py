"""One request to a site: the world it happens in, what was sent, and the answer to it.

A page (GET) reads the world and never changes it; only forms (POST) do. So an agent that looks
around leaves no trace, and a page that is loaded again is the same page. What a form has to say is
carried to the next page by a cookie, not by the world.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlencode

from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from env_servers.environments.webarena.sites.fields import Fields
from env_servers.environments.webarena.sites.tables import Table
from env_servers.environments.webarena.sites.world import World

__all__ = [
    "SESSIONS",
    "SESSION_COOKIE",
    "Missing",
    "Refused",
    "Session",
    "Visit",
    "VisitedSite",
    "open_session",
]

SESSION_COOKIE: Final = "session"
MESSAGE_COOKIE: Final = "message"
MAX_MESSAGE: Final = 400
"""Characters of a message that is carried to the next page."""


class Missing(Exception):
    """The site has no such page: answered by the site's page for that, status 404."""


class Refused(Exception):
    """The account may not do this: answered with its text, status 403."""


class VisitedSite(Protocol):
    """What a visit needs of its site."""

    name: str

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a page's text."""
        ...

    def address_of(self, site: str, seen: URL) -> str:
        """Return another site's address, as the browser that is at `seen` reaches it."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """A visitor whom a site knows again by a cookie."""

    id: str
    site: str
    account: str
    """Name of the account that is signed in; empty for a guest."""


SESSIONS: Final = Table("web.sessions", Session, indexed=("site",))


def open_session(world: World, site: str, account: str = "") -> Session:
    """Return a new session; its id depends only on how many the world has had."""
    number = f"{site}/{len(world[SESSIONS])}/{world.changes}"
    token = hashlib.blake2b(number.encode(), digest_size=12).hexdigest()
    return world[SESSIONS].put(Session(token, site, account))


class Visit:
    """A request as the pages of a site see it."""

    def __init__(self, site: VisitedSite, request: Request, form: Fields) -> None:
        self.site = site
        self.world: World = request.scope["world"]
        self.request = request
        self.parameters: dict[str, Any] = request.path_params
        self.path = request.url.path
        self.query = Fields.parse(request.url.query)
        self.form = form
        self.session = self._session()
        self._cookies: list[tuple[str, str]] = []

    def _session(self) -> Session | None:
        session = self.world[SESSIONS].get(self.request.cookies.get(SESSION_COOKIE, ""))
        return session if session is not None and session.site == self.site.name else None

    @property
    def account(self) -> str:
        """Name of the account that is signed in; empty for a guest."""
        return self.session.account if self.session is not None else ""

    def known_session(self) -> Session:
        """Return the visitor's session, opening one for a new guest. Only for forms."""
        return self.session if self.session is not None else self.sign_in("")

    def sign_in(self, account: str) -> Session:
        """Open a session for an account, in place of the one before."""
        self.session = open_session(self.world, self.site.name, account)
        self._cookies.append((SESSION_COOKIE, self.session.id))
        return self.session

    def sign_out(self) -> None:
        """Forget the session."""
        if self.session is not None:
            self.world[SESSIONS].remove(self.session.id)
            self.session = None
        self._cookies.append((SESSION_COOKIE, ""))

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Answer with a page."""
        kind, _, text = unquote(self.request.cookies.get(MESSAGE_COOKIE, "")).partition("|")
        if text:
            self._cookies.append((MESSAGE_COOKIE, ""))
        values = {"visit": self, "site": self.site, "message": text, "kind": kind, **values}
        return HTMLResponse(self.site.render(template, values), status)

    def text(self, text: str, status: int = 200) -> Response:
        """Answer with plain text."""
        return PlainTextResponse(text, status)

    def redirect(self, path: str, message: str = "", *, failed: bool = False) -> Response:
        """Send the browser to another page of this site, which shows the message."""
        if message:
            kind = "error" if failed else "success"
            self._cookies.append((MESSAGE_COOKIE, quote(f"{kind}|{message[:MAX_MESSAGE]}")))
        return RedirectResponse(_local(path), 303)

    def back(self, default: str, message: str = "", *, failed: bool = False) -> Response:
        """Send the browser where the form said (field `back`), or else to a default."""
        return self.redirect(self.form.text("back") or default, message, failed=failed)

    def link(self, **changes: object) -> str:
        """Return this page's address with other values in its query; None removes a name."""
        kept = [(name, text) for name, text in self.query.pairs if name not in changes]
        added = [(name, str(value)) for name, value in changes.items() if value is not None]
        query = urlencode(kept + added)
        return f"{quote(self.path)}?{query}" if query else quote(self.path)

    @property
    def here(self) -> str:
        """Path and query of the page, for a form that comes back to it."""
        return self.link()

    def address(self, site: str) -> str:
        """Return the address of another site's front page, as this browser reaches it."""
        return self.site.address_of(site, self.request.url)

    def finish(self, response: Response) -> Response:
        """Add the cookies that this visit set."""
        for name, value in self._cookies:
            if value:
                response.set_cookie(name, value, httponly=True, samesite="lax")
            else:
                response.delete_cookie(name, httponly=True, samesite="lax")
        return response


def _local(path: str) -> str:
    """Return a path of this host, whatever a form sent."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
