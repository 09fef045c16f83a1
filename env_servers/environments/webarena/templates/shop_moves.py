"""The shop as its templates speak of it: names of products, ways to pages, what fills a field.

The moves are those of a customer: search box, menu, links, forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.environments.webarena.sites.shop.rows import (
    CATEGORIES,
    ORDERS,
    PRODUCTS,
    REVIEWS,
    Category,
    Order,
    Product,
    Review,
)
from env_servers.environments.webarena.sites.shop.trade import SHOPPER
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import ClickOn, Move, TypeInto

__all__ = [
    "CART_OWNER",
    "SERVED",
    "START",
    "approved_reviews",
    "deliverable",
    "in_order_history",
    "leaves",
    "own_orders",
    "product_of",
    "search",
    "short_name",
    "to_order",
    "to_product",
    "to_shelf",
]

START: Final = "http://onestopmarket.com"
SERVED: Final = "http://shop.test"
CART_OWNER: Final = f"customer:{SHOPPER}"
_ORDERS_PER_PAGE: Final = 10


def short_name(product: Product) -> str:
    """Return brand, style, kind and model, which no two products share."""
    return product.name.partition(",")[0]


def product_of(world: World, number: int) -> Product:
    """Return a product of the untouched shop, which has all that anybody bought."""
    product = world[PRODUCTS].get(number)
    assert product is not None, "nothing is removed from an untouched shop"
    return product


def deliverable(world: World) -> Sequence[Product]:
    """Return the products without options of which ten can be bought."""
    return [p for p in world[PRODUCTS] if p.stock >= 10 and not p.options]


def leaves(world: World) -> Sequence[Category]:
    """Return the categories that hold products."""
    return [category for category in world[CATEGORIES] if category.path.count("/") == 2]


def approved_reviews(world: World, product: Product) -> list[Review]:
    """Return what the page of a product shows of its reviews."""
    return world[REVIEWS].where(product=product.id, status="approved")


def own_orders(world: World) -> Sequence[Order]:
    """Return the orders of the customer whom agents act for, newest first."""
    orders = world[ORDERS].where(customer=SHOPPER)
    return sorted(orders, key=lambda order: order.created, reverse=True)


def search(text: str) -> Move:
    """Return how something is searched for in the shop."""
    return TypeInto("combobox", "Search", text, enter=True)


def to_product(product: Product) -> tuple[Move, ...]:
    """Return the way to the page of a product."""
    return search(short_name(product)), ClickOn("link", product.name)


def to_shelf(world: World, category: Category) -> tuple[Move, ...]:
    """Return the way to a category, from the menu down."""
    way = [ClickOn("link", category.name)]
    while (above := world[CATEGORIES].get(category.parent)) is not None:
        category = above
        way.insert(0, ClickOn("link", category.name))
    return tuple(way)


def in_order_history(world: World, order: Order) -> tuple[Move, ...]:
    """Return the way to the page of the order history that lists an order."""
    page = own_orders(world).index(order) // _ORDERS_PER_PAGE
    way = (ClickOn("link", "My Account"), ClickOn("link", "My Orders"))
    return way + (ClickOn("link", "Page Next"),) * page


def to_order(world: World, order: Order) -> tuple[Move, ...]:
    """Return the way to the page of an order."""
    place = own_orders(world).index(order) % _ORDERS_PER_PAGE
    return *in_order_history(world, order), ClickOn("link", "View Order", place)
