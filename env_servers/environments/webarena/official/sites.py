"""The official sites and where they are.

The setting of a site is its name: `--set webarena.gitlab=http://host:8023`. A task is played only
where all of its sites have an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit

from env_servers.sdk import EnvironmentUnavailable, InvalidOption

__all__ = ["OfficialSites", "Site"]

_PLACEHOLDER: Final = re.compile("__([A-Z]+(?:_[A-Z]+)*)__")


class Site(StrEnum):
    """A site, by the name that task files and settings have for it."""

    SHOPPING = "shopping"
    """The shop, as its customers see it (Magento)."""
    SHOPPING_ADMIN = "shopping_admin"
    """The same shop's administration."""
    REDDIT = "reddit"
    """The forum (Postmill)."""
    GITLAB = "gitlab"
    """Code hosting."""
    WIKIPEDIA = "wikipedia"
    """The encyclopedia (Kiwix); read-only."""
    MAP = "map"
    """The map (OpenStreetMap); read-only."""
    HOMEPAGE = "homepage"
    """The page that links to all; read-only."""

    @property
    def store(self) -> Site:
        """The site whose data it shows: a shop and its administration have one database."""
        return Site.SHOPPING if self is Site.SHOPPING_ADMIN else self

    @property
    def changeable(self) -> bool:
        """Whether anything that a visitor does stays."""
        return self.store in (Site.SHOPPING, Site.REDDIT, Site.GITLAB)


@dataclass(frozen=True, slots=True)
class OfficialSites:
    """The addresses of the sites that are there, without a slash at the end."""

    addresses: Mapping[Site, str]

    @classmethod
    def read(cls, settings: Mapping[str, str]) -> Self:
        """Return the sites of the settings; others are left alone. Raises InvalidOption."""
        addresses: dict[Site, str] = {}
        for site in Site:
            if url := settings.get(site.value, ""):
                addresses[site] = _address(site, url)
        return cls(addresses)

    def hosts(self, sites: Iterable[Site]) -> frozenset[str]:
        """Return the hosts of sites that are there, with a port unless it is the scheme's."""
        return frozenset(_host(self.addresses[site]) for site in sites if site in self.addresses)

    def require(self, sites: Iterable[Site]) -> None:
        """Raise EnvironmentUnavailable where one of the sites has no address."""
        missing = sorted(site for site in set(sites) if site not in self.addresses)
        if missing:
            settings = " ".join(f"--set webarena.{site}=http://HOST:PORT" for site in missing)
            raise EnvironmentUnavailable(
                f"the task needs official sites whose address is not known: say {settings}"
            )

    def place(self, value: Any) -> Any:
        """Return a JSON value with the addresses in place of `__GITLAB__` and the like.

        Raises EnvironmentUnavailable for a site without an address.
        """
        if isinstance(value, str):
            return _PLACEHOLDER.sub(self._placed, value)
        if isinstance(value, list):
            return [self.place(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {key: self.place(item) for key, item in cast("dict[str, Any]", value).items()}
        return value

    def _placed(self, match: re.Match[str]) -> str:
        name = match[1].lower()
        if name not in Site.__members__.values():
            return match[0]
        self.require([Site(name)])
        return self.addresses[Site(name)]


def _host(url: str) -> str:
    parts = urlsplit(url)
    standard = {"http": 80, "https": 443}[parts.scheme]
    host = parts.hostname or ""
    return host if parts.port in (None, standard) else f"{host}:{parts.port}"


def _address(site: Site, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise InvalidOption(
            f"setting webarena.{site} is no address of a site: {url[:200]!r}",
            valid="http://HOST:PORT, without a user name",
        )
    return url.rstrip("/")
