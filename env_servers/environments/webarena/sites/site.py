"""A site: a host with pages and forms, its templates, and the Starlette application of both.

Pages and forms are plain functions of a `Visit`. They raise `Missing` and `Refused`; everything
else that they raise is a fault of the site and leaves the application as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from env_servers.environments.webarena.sites import formats
from env_servers.environments.webarena.sites.fields import Fields
from env_servers.environments.webarena.sites.visit import Missing, Refused, Visit

__all__ = ["HOSTS", "MAX_FORM", "Handler", "Site"]

HOSTS: Final[Mapping[str, str]] = {
    "shop": "http://shop.test/",
    "admin": "http://admin.test/admin",
    "forum": "http://forum.test/",
    "git": "http://git.test/",
    "map": "http://map.test/",
    "wiki": "http://wiki.test/wiki",
    "home": "http://home.test/",
}
"""Where each site's front page is."""
MAX_FORM: Final = 1 << 20
"""Bytes of a form."""

Handler = Callable[[Visit], Response]
_SHARED_TEMPLATES: Final = Path(__file__).parent / "templates"


class Site:
    """The pages and forms of one host, in the order in which they are tried."""

    def __init__(self, name: str, folder: Path, *, sign_in: str = "/login") -> None:
        """`folder` has the site's `templates`; `sign_in` is the page that asks who one is."""
        self.name = name
        self.host = URL(HOSTS[name]).hostname or ""
        self.sign_in = sign_in
        self._folder = folder
        self._routes: list[Route] = []

    def page(self, *paths: str, signed_in: bool = False) -> Callable[[Handler], Handler]:
        """Declare what answers GET at these paths, which are written without a slash at the end."""
        return self._declare(paths, "GET", signed_in)

    def form(self, *paths: str, signed_in: bool = True) -> Callable[[Handler], Handler]:
        """Declare what answers POST at these paths. Guests are sent to the sign-in page first."""
        return self._declare(paths, "POST", signed_in)

    def _declare(
        self, paths: tuple[str, ...], method: str, signed_in: bool
    ) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            async def endpoint(request: Request) -> Response:
                form = Fields.parse(await request.body()) if method == "POST" else Fields()
                visit = Visit(self, request, form)
                if signed_in and not visit.account:
                    back = visit.here if method == "GET" else form.text("back", "/")
                    return visit.redirect(f"{self.sign_in}?back={quote(back, safe='')}")
                try:
                    response = handler(visit)
                except Missing:
                    response = visit.render("missing.html", 404)
                except Refused as refused:
                    response = visit.render("refused.html", 403, reason=str(refused))
                return visit.finish(response)

            self._routes.extend(Route(path, endpoint, methods=[method]) for path in paths)
            return handler

        return declare

    @cached_property
    def app(self) -> Starlette:
        """The application of all that was declared; its scope has the `world`."""
        app = Starlette(routes=self._routes, exception_handlers={HTTPException: self._refuse})
        app.router.redirect_slashes = False
        return app

    def _refuse(self, request: Request, error: Exception) -> Response:
        """Answer what no route takes, or not with this method."""
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            visit = Visit(self, request, Fields())
            return visit.finish(visit.render("missing.html", 404))
        return PlainTextResponse(error.detail, error.status_code, headers=error.headers)

    @cached_property
    def _templates(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader([self._folder / "templates", _SHARED_TEMPLATES]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters.update(formats.FILTERS)
        return environment

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """Give this site's templates a filter of their own."""
        self._templates.filters[name] = function

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a page's text."""
        return self._templates.get_template(template).render(values)

    def address_of(self, site: str, seen: URL) -> str:
        """Return a site's front page; `seen` is an address at which a browser reaches some site.

        Served on a port, hosts end in something else than `.test`: `shop.localhost:8123`.
        """
        address = URL(HOSTS[site])
        _, _, ending = (seen.hostname or "").partition(".")
        if seen.port is None and ending == "test":
            return str(address)
        host = f"{(address.hostname or '').partition('.')[0]}.{ending}"
        return str(address.replace(scheme=seen.scheme, hostname=host, port=seen.port))
