"""The shop: categories, products, reviews, cart, checkout, customers' accounts."""

# The order is that in which addresses are tried: what takes any address comes last.
from env_servers.environments.webarena.sites.shop import account, addresses, buying

from env_servers.environments.webarena.sites.shop import browse  # isort: skip
from env_servers.environments.webarena.sites.shop.frame import SHOP

__all__ = ["SHOP", "account", "addresses", "browse", "buying"]
