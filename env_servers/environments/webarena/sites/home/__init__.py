"""The home page: links to all sites, a scratchpad and a calculator."""

from env_servers.environments.webarena.sites.home.pages import HOME

__all__ = ["HOME"]
