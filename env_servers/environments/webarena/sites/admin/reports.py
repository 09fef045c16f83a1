"""Reports: what was sold in a time, what sells best, what runs out, who buys and writes."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date
from typing import Any, Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.admin.frame import ADMIN
from env_servers.environments.webarena.sites.formats import money
from env_servers.environments.webarena.sites.shop.rows import (
    ITEMS,
    ORDERS,
    PRODUCTS,
    REVIEWS,
    STATUSES,
    Order,
)
from env_servers.environments.webarena.sites.visit import Visit

__all__: list[str] = []

PERIODS: Final = (("day", "Day"), ("month", "Month"), ("year", "Year"))
_LOW_STOCK: Final = 10


def _period(day: date, kind: str) -> str:
    if kind == "year":
        return str(day.year)
    return f"{day.month}/{day.year}" if kind == "month" else f"{day:%b} {day.day}, {day.year}"


def _report(
    visit: Visit,
    title: str,
    head: tuple[str, ...],
    rows: list[tuple[Any, ...]],
    *,
    dated: bool = False,
    asked: bool = True,
) -> Response:
    """`dated` reports ask for a time first; `asked` says whether they got one."""
    query = visit.query
    return visit.render(
        "report.html",
        title=title,
        head=head,
        rows=rows,
        start=query.text("from"),
        end=query.text("to"),
        period=query.choice("period_type", [name for name, _ in PERIODS], "day"),
        periods=PERIODS,
        wanted=query.choice("order_statuses", STATUSES, ""),
        statuses=[("", "Any"), *STATUSES.items()],
        dated=dated,
        asked=asked,
    )


def _orders(visit: Visit) -> list[Order] | None:
    """Return the orders of the time and state that are asked for; None while no time is."""
    start, end = visit.query.day("from"), visit.query.day("to")
    if start is None or end is None:
        return None
    status = visit.query.choice("order_statuses", STATUSES, "")
    orders = visit.world[ORDERS]
    return [
        order
        for order in orders
        if start <= order.created.date() <= end and status in ("", order.status)
    ]


@ADMIN.page("/admin/reports/report_sales/sales", signed_in=True)
def sales(visit: Visit) -> Response:
    """Show orders, pieces and money by day, month or year."""
    kind = visit.query.choice("period_type", ("day", "month", "year"), "day")
    head = ("Interval", "Orders", "Sales Items", "Sales Total", "Discount", "Canceled")
    orders = _orders(visit)
    groups: defaultdict[str, list[Order]] = defaultdict(list)
    for order in orders or ():
        groups[_period(order.created.date(), kind)].append(order)
    rows = [_sales_row(visit, name, group) for name, group in groups.items()]
    if orders:
        rows.append(_sales_row(visit, "Total", orders))
    return _report(visit, "Orders Report", head, rows, dated=True, asked=orders is not None)


def _sales_row(visit: Visit, name: str, orders: list[Order]) -> tuple[Any, ...]:
    kept = [order for order in orders if order.status != "canceled"]
    items = visit.world[ITEMS]
    pieces = sum(item.quantity for order in kept for item in items.where(order=order.id))
    canceled = sum(order.total for order in orders if order.status == "canceled")
    return (
        name,
        len(kept),
        pieces,
        money(sum(order.total for order in kept)),
        money(-sum(order.discount for order in kept)),
        money(canceled),
    )


@ADMIN.page("/admin/reports/report_sales/bestsellers", signed_in=True)
def bestsellers(visit: Visit) -> Response:
    """Show the products of which most pieces were ordered, by day (5), month or year (10)."""
    kind = visit.query.choice("period_type", ("day", "month", "year"), "day")
    orders, world = _orders(visit), visit.world
    pieces: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for order in orders or ():
        for item in world[ITEMS].where(order=order.id):
            pieces[_period(order.created.date(), kind)][item.product] += item.quantity
    rows: list[tuple[Any, ...]] = []
    for name, counts in pieces.items():
        best = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[
            : 5 if kind == "day" else 10
        ]
        for number, quantity in best:
            product = world[PRODUCTS].get(number)
            if product is not None:
                rows.append((name, product.name, money(product.price), quantity))
    head = ("Interval", "Product", "Price", "Order Quantity")
    return _report(visit, "Bestsellers Report", head, rows, dated=True, asked=orders is not None)


@ADMIN.page("/admin/reports/report_product/lowstock", signed_in=True)
def low_stock(visit: Visit) -> Response:
    """Show the products of which few are left."""
    few = [p for p in visit.world[PRODUCTS] if p.stock < _LOW_STOCK and p.enabled]
    few.sort(key=lambda product: (product.stock, product.id))
    rows = [(product.name, product.sku, product.stock) for product in few[:200]]
    return _report(visit, "Low Stock Report", ("Product", "SKU", "Stock Quantity"), rows)


@ADMIN.page("/admin/reports/report_customer/orders", signed_in=True)
def by_customer(visit: Visit) -> Response:
    """Show the customers who ordered most often."""
    counts: Counter[tuple[str, str]] = Counter()
    money_of: Counter[tuple[str, str]] = Counter()
    for order in visit.world[ORDERS]:
        if order.status != "canceled":
            counts[order.name, order.email] += 1
            money_of[order.name, order.email] += order.total
    best = sorted(counts, key=lambda key: (-counts[key], key))[:100]
    rows = [(*key, counts[key], money(money_of[key])) for key in best]
    return _report(visit, "Order Count Report", ("Customer", "Email", "Orders", "Total"), rows)


@ADMIN.page("/admin/reports/report_review/product", signed_in=True)
def by_review(visit: Visit) -> Response:
    """Show the products about which most was written."""
    stars: defaultdict[int, list[int]] = defaultdict(list)
    for review in visit.world[REVIEWS]:
        stars[review.product].append(review.stars)
    best = sorted(stars, key=lambda number: (-len(stars[number]), number))[:100]
    rows: list[tuple[Any, ...]] = []
    for number in best:
        product = visit.world[PRODUCTS].get(number)
        if product is not None:
            average = sum(stars[number]) / len(stars[number])
            rows.append((number, product.name, len(stars[number]), f"{average:.2f}"))
    head = ("ID", "Product", "Reviews", "Average")
    return _report(visit, "Product Reviews Report", head, rows)
