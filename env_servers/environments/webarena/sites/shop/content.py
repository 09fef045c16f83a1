"""Builds the database `shop`, which the shop and its administration share."""

from __future__ import annotations

from typing import Any

from env_servers.environments.webarena.sites.shop import rows
from env_servers.environments.webarena.sites.shop.catalogue import (
    make_categories,
    make_products,
    make_reviews,
    read_kinds,
)
from env_servers.environments.webarena.sites.shop.trade import make_terms, make_trade
from env_servers.environments.webarena.sites.tables import Content

__all__ = ["build"]


def build() -> list[Content[Any]]:
    """Return all tables of the database; it is the same on every machine."""
    kinds = read_kinds()
    categories = make_categories(kinds)
    leaves = [category.id for category in categories[-len(kinds) :]]
    products = make_products(kinds, leaves)
    trade = make_trade(products)
    return [
        Content(rows.CATEGORIES, categories),
        Content(rows.PRODUCTS, products),
        Content(rows.REVIEWS, make_reviews(kinds, products)),
        Content(rows.CUSTOMERS, trade.customers),
        Content(rows.ADDRESSES, trade.addresses),
        Content(rows.ORDERS, trade.orders),
        Content(rows.ITEMS, trade.items),
        Content(rows.NOTES, trade.notes),
        Content(rows.INVOICES, trade.invoices),
        Content(rows.SHIPMENTS, trade.shipments),
        Content(rows.WISHES, trade.wishes),
        Content(rows.RULES, trade.rules),
        Content(rows.PAGES, trade.pages),
        Content(rows.TERMS, make_terms(products)),
    ]
