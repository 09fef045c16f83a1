"""WebShop: find, configure and buy a product in a simulated online shop."""

from env_servers.environments.webshop.environment import WebShop

environment = WebShop

__all__ = ["WebShop", "environment"]
