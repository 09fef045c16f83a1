"""Which addresses an agent is told for the sites, and which the browser opens.

Agents know the sites by their public names, whatever hosts serve them here. Both ways are plain
replacements of text, in the order of the table, as the original does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["PUBLIC", "Addresses"]

PUBLIC: Final[Mapping[str, str]] = {
    "forum": "http://reddit.com",
    "shop": "http://onestopmarket.com",
    "shop_admin": "http://luma.com/admin",
    "code": "http://gitlab.com",
    "encyclopedia": "http://wikipedia.org",
    "map": "http://openstreetmap.org",
    "home": "http://homepage.com",
}
"""What each site is called towards agents, in the order of replacement."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses under which the sites are served."""

    served: Mapping[str, str]
    """By the names of PUBLIC; a site that is missing is not mapped."""

    def shown(self, url: str) -> str:
        """Return an address of the browser as agents know it."""
        for site, public in PUBLIC.items():
            if served := self.served.get(site):
                url = url.replace(served, public)
        return url

    def opened(self, action: str) -> str:
        """Return an agent's action with the browser's addresses; typed text is mapped, too."""
        for site, public in PUBLIC.items():
            if served := self.served.get(site):
                action = action.replace(public, served)
                action = action.replace(public.replace("http", "https", 1), served)
        return action
