"""The administration as its templates speak of it: ways through its menu and grids."""

from __future__ import annotations

from typing import Final

from env_servers.environments.webarena.sites.shop.rows import PRODUCTS, Customer, Order, Product
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.shop_moves import short_name
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    WorldCheck,
    answered,
    answered_exactly,
    at_page,
)

__all__ = [
    "SERVED",
    "changed",
    "counted",
    "ends_at",
    "find",
    "report",
    "some_products",
    "to_customer",
    "to_order",
    "to_product",
    "told",
]

_START: Final = "http://luma.com/admin"
SERVED: Final = "http://admin.test/admin"
_STRIDE: Final = 7
"""Candidates are every seventh product: enough, and drawn quickly."""
_FIRST_LONG_ID: Final = 1000
"""Numbers from here on have four digits, so that none is the beginning of another."""


def told(intent: str, plan: tuple[Move, ...], *answer: str) -> SiteTask:
    """Return the task of an answer that includes some texts."""
    plan = (*plan, Answer(", ".join(answer)))
    return SiteTask(intent=intent, start=_START, criteria=answered(*answer), plan=plan)


def counted(intent: str, plan: tuple[Move, ...], number: int) -> SiteTask:
    """Return the task of an answer that is a number and nothing else."""
    return SiteTask(
        intent=f"{intent} Answer with the number alone.",
        start=_START,
        criteria=answered_exactly(str(number)),
        plan=(*plan, Answer(str(number))),
    )


def ends_at(intent: str, plan: tuple[Move, ...], page: str) -> SiteTask:
    """Return the task of a page of the administration."""
    return SiteTask(
        intent=intent, start=_START, criteria=at_page(f"{SERVED}/{page}"), plan=(*plan, Answer())
    )


def changed(intent: str, plan: tuple[Move, ...], check: WorldCheck) -> SiteTask:
    """Return the task of a change."""
    return SiteTask(intent=intent, start=_START, check=check, plan=(*plan, Answer()))


def find(grid: str, text: str) -> tuple[Move, ...]:
    """Return how rows with a text are found in the grid that a link of the menu opens."""
    return ClickOn("link", grid), TypeInto("textbox", "Search by keyword", text, enter=True)


def report(name: str, start: str, end: str, period: str) -> tuple[Move, ...]:
    """Return how a report over a time is made; the one about orders stands last in the menu."""
    return (
        ClickOn("link", name, 1 if name == "Orders" else 0),
        TypeInto("combobox", "Period", period),
        TypeInto("textbox", "From", start),
        TypeInto("textbox", "To", end),
        ClickOn("button", "Show Report"),
    )


def to_order(order: Order) -> tuple[Move, ...]:
    """Return the way to the page of an order."""
    return *find("Orders", order.number), ClickOn("link", "View")


def to_product(product: Product) -> tuple[Move, ...]:
    """Return the way to the form of a product."""
    return *find("Products", short_name(product)), ClickOn("link", "Edit")


def to_customer(customer: Customer) -> tuple[Move, ...]:
    """Return the way to the form of a customer."""
    return *find("All Customers", customer.email), ClickOn("link", "Edit")


def some_products(world: World) -> list[Product]:
    """Return a share of the products, whose numbers have four digits."""
    return [p for p in world[PRODUCTS] if p.id >= _FIRST_LONG_ID and p.id % _STRIDE == 0]
