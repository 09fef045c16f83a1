"""Pages of the home site.

The calculator and the scratchpad work in the browser, as the original's do: they need no server,
and the world has nothing of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.visit import Visit

__all__ = ["HOME"]

HOME: Final = Site("home", Path(__file__).parent)
_SITES: Final = (
    ("shop", "OneStopShop", "An online shop"),
    ("admin", "Shop administration", "Orders, products and customers of the shop"),
    ("forum", "Forum", "Forums where people post links and questions"),
    ("git", "Code hosting", "Repositories, issues and merge requests"),
    ("map", "Map", "Places and directions between them"),
    ("wiki", "Encyclopedia", "Articles to read and search"),
)


@HOME.page("/")
def front(visit: Visit) -> Response:
    """Show a link to each site."""
    sites = [(visit.address(name), title, about) for name, title, about in _SITES]
    return visit.render("front.html", sites=sites)


@HOME.page("/calculator", "/calculator.html")
def calculator(visit: Visit) -> Response:
    """Show the calculator."""
    return visit.render("calculator.html")


@HOME.page("/scratchpad", "/scratchpad.html")
def scratchpad(visit: Visit) -> Response:
    """Show the scratchpad."""
    return visit.render("scratchpad.html")
