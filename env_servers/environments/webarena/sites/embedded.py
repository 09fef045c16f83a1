"""The embedded sites together: their network, and the base that worlds of this process share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from env_servers.environments.webarena.sites.admin import ADMIN
from env_servers.environments.webarena.sites.forum import FORUM
from env_servers.environments.webarena.sites.forum.content import build as build_forum
from env_servers.environments.webarena.sites.git import GIT
from env_servers.environments.webarena.sites.git import build as build_git
from env_servers.environments.webarena.sites.home import HOME
from env_servers.environments.webarena.sites.map import MAP
from env_servers.environments.webarena.sites.map import build as build_map
from env_servers.environments.webarena.sites.network import Network
from env_servers.environments.webarena.sites.shop import SHOP
from env_servers.environments.webarena.sites.shop.content import build as build_shop
from env_servers.environments.webarena.sites.tables import Base, Builder
from env_servers.environments.webarena.sites.wiki import WIKI
from env_servers.environments.webarena.sites.wiki import build as build_wiki
from env_servers.environments.webarena.sites.world import World

__all__ = ["BUILDERS", "embedded_base", "embedded_network", "new_world"]

BUILDERS: Final[Mapping[str, Builder]] = {
    "forum": build_forum,
    "git": build_git,
    "map": build_map,
    "shop": build_shop,
    "wiki": build_wiki,
}
"""What builds each database; sites may share one."""


@cache
def embedded_base() -> Base:
    """Return the base that all worlds of this process share; databases are built on first use."""
    return Base(BUILDERS)


@cache
def embedded_network() -> Network:
    """Return the network of all embedded sites."""
    return Network([SHOP, ADMIN, FORUM, GIT, HOME, MAP, WIKI])


def new_world() -> World:
    """Return an untouched world over the shared base."""
    return World(embedded_base())
