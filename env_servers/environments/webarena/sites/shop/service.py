"""The shop's programming interface, answered from a world's tables.

It has what evaluators ask of the original's: the newest order, and the reviews of a product.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urlsplit

from env_servers.environments.webarena.sites.shop.rows import ORDERS, PRODUCTS, REVIEWS
from env_servers.environments.webarena.sites.world import World

__all__ = ["ADDRESS", "WorldShop"]

ADDRESS: Final = "http://shop.test"


class WorldShop:
    """An `evaluation.ShopService` of one world."""

    def __init__(self, world: World) -> None:
        self.address = ADDRESS
        self._world = world

    async def get(self, path: str) -> object:
        """Return what is at a path below `/rest/V1/`.

        Raises:
            LookupError: There is nothing.
        """
        match urlsplit(path).path.strip("/").split("/"):
            case ["orders"]:
                newest = max(self._world[ORDERS], key=lambda order: (order.created, order.id))
                return {"items": [{"increment_id": newest.number}]}
            case ["products", sku, "reviews"]:
                return self._reviews(unquote(sku))
            case _:
                raise LookupError(f"the shop has nothing at {path[:200]!r}")

    def _reviews(self, sku: str) -> list[dict[str, object]]:
        found = self._world[PRODUCTS].where(sku=sku)
        reviews = self._world[REVIEWS].where(product=found[0].id) if found else []
        return [
            {
                "nickname": review.nickname,
                "ratings": [{"rating_name": "Rating", "percent": review.stars * 20}],
            }
            for review in reviews
        ]
