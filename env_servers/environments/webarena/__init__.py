"""WebArena: tasks on web sites, in a real browser."""

from env_servers.environments.webarena.environment import WebArena

environment = WebArena

__all__ = ["WebArena", "environment"]
