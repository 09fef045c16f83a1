"""The map: places of 28 towns, search, and directions on a road graph."""

from env_servers.environments.webarena.sites.map.content import build
from env_servers.environments.webarena.sites.map.pages import MAP
from env_servers.environments.webarena.sites.map.places import PLACES, Place

__all__ = ["MAP", "PLACES", "Place", "build"]
