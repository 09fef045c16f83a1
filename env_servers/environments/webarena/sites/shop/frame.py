"""The shop as a site: who visits it, and what stands around every page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from env_servers.environments.webarena.sites.shop.rows import (
    CART,
    CATEGORIES,
    CUSTOMERS,
    PAGES,
    REVIEWS,
    Category,
    Customer,
    Product,
    status_name,
)
from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__ = ["SHOP", "Stars", "cart_owner", "customer_of", "me", "stars_of"]


class _Shop(Site):
    """Every page of the shop shows the menu, the visitor's name and the cart."""

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        visit: Visit = values["visit"]
        lines = visit.world[CART].where(owner=cart_owner(visit))
        around = {
            "menu": _menu(visit.world),
            "customer": customer_of(visit),
            "not_found": next(iter(visit.world[PAGES].where(path="no-route"))),
            "in_cart": sum(line.quantity for line in lines),
        }
        return super().render(template, {**around, **values})


SHOP: Final = _Shop("shop", Path(__file__).parent, sign_in="/customer/account/login/")
SHOP.add_filter("status_name", status_name)

Stars = tuple[int, int]
"""Average of a product's stars in percent, and the number of reviews."""


def customer_of(visit: Visit) -> Customer | None:
    """Return the customer who is signed in."""
    return visit.world[CUSTOMERS].get(int(visit.account)) if visit.account else None


def me(visit: Visit) -> Customer:
    """Return the customer who is signed in, on pages that are for customers only."""
    customer = customer_of(visit)
    if customer is None:
        raise Missing
    return customer


def cart_owner(visit: Visit) -> str:
    """Return whose cart the visitor fills; a guest without a session has none yet."""
    if visit.account:
        return f"customer:{visit.account}"
    return f"guest:{visit.session.id}" if visit.session is not None else ""


def stars_of(world: World, product: Product) -> Stars:
    """Return how a product is rated by the reviews that are shown."""
    stars = [r.stars for r in world[REVIEWS].where(product=product.id) if r.status == "approved"]
    return (round(sum(stars) * 20 / len(stars)) if stars else 0, len(stars))


def _menu(world: World) -> list[tuple[Category, list[Category]]]:
    categories = world[CATEGORIES]
    return [(top, categories.where(parent=top.id)) for top in categories.where(parent=0)]
