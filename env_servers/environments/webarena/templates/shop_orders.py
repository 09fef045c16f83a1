"""Templates of the shop: what the customer bought before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from env_servers.environments.webarena.sites.formats import long_day, money, short_day
from env_servers.environments.webarena.sites.shop.rows import (
    CART,
    ITEMS,
    PRODUCTS,
    CartLine,
    Item,
    Order,
    status_name,
)
from env_servers.environments.webarena.sites.shop.trade import PAYMENTS
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.changes import changed_rows
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move
from env_servers.environments.webarena.templates.shop_moves import (
    CART_OWNER,
    SERVED,
    START,
    in_order_history,
    own_orders,
    product_of,
    short_name,
    to_order,
)
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    at_page,
    unachievable,
    worded,
)
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_TOWARDS_HISTORY: Final = (ClickOn("link", "My Account"), ClickOn("link", "My Orders"))


def _told(intent: str, answer: str, way: tuple[Move, ...]) -> SiteTask:
    """Return the task of an answer that stands at the end of a way."""
    return SiteTask(
        intent=intent, start=START, criteria=answered(answer), plan=(*way, Answer(answer))
    )


def _alone_on_its_day(world: World) -> Sequence[Order]:
    """Return the own orders that can be told by their day."""
    orders = own_orders(world)
    days = [order.created.date() for order in orders]
    return [order for order in orders if days.count(order.created.date()) == 1]


def _day(order: Order) -> str:
    return long_day(order.created)


@template("shop.order_total", own_orders)
def order_total(world: World, order: Order) -> SiteTask:
    """What an order cost."""
    number = order.number
    intent = worded(
        order.id,
        f"How much did I pay for order {number}?",
        f"What was the total of order {number}?",
    )
    return _told(intent, money(order.total), in_order_history(world, order))


def _in_all_states(world: World) -> Sequence[Order]:
    """Return orders of which not nearly all are complete."""
    orders = _alone_on_its_day(world)
    complete = [order for order in orders if order.status == "complete"]
    return [*(order for order in orders if order.status != "complete"), *complete[:15]]


@template("shop.order_state", _in_all_states)
def order_state(world: World, order: Order) -> SiteTask:
    """What became of an order."""
    intent = f"What is the status of the order that I placed on {_day(order)}?"
    return _told(intent, status_name(order.status), in_order_history(world, order))


@template("shop.order_on_day", _alone_on_its_day)
def order_on_day(world: World, order: Order) -> SiteTask:
    """The number of the order of a day."""
    intent = f"Give me the number of the order I placed on {_day(order)}."
    return _told(intent, order.number, in_order_history(world, order))


@template("shop.payment", own_orders)
def payment(world: World, order: Order) -> SiteTask:
    """How an order was paid."""
    listed = ", ".join(PAYMENTS)
    intent = f"How did I pay for order {order.number}? It is one of: {listed}."
    return _told(intent, order.payment_method, to_order(world, order))


@template("shop.shipping_cost", _alone_on_its_day)
def shipping_cost(world: World, order: Order) -> SiteTask:
    """What the shipping of an order cost."""
    intent = worded(
        order.id,
        f"How much was shipping for my order of {_day(order)}?",
        f"What did the shop charge for shipping and handling of what I ordered on {_day(order)}?",
    )
    return _told(intent, money(order.shipping), to_order(world, order))


def _chosen(world: World) -> Sequence[tuple[Order, Item, str, str]]:
    """Return the options of products that stand once in the own orders."""
    pairs = [(order, item) for order in own_orders(world) for item in _items(world, order)]
    bought = [item.product for _, item in pairs]
    return [
        (order, item, name.lower(), value)
        for order, item in pairs
        for name, value in item.options[-1:]
        if bought.count(item.product) == 1 and len(value) > 2
    ]


def _items(world: World, order: Order) -> list[Item]:
    return world[ITEMS].where(order=order.id)


@template("shop.bought_option", _chosen)
def bought_option(world: World, chosen: tuple[Order, Item, str, str]) -> SiteTask:
    """Which option of a product was bought."""
    order, item, name, value = chosen
    bought = short_name(product_of(world, item.product))
    intent = f"Which {name} did I choose for the {bought} in {order.created:%B %Y}?"
    return SiteTask(
        intent=f"{intent} Answer with the {name} alone, as the order has it.",
        start=START,
        criteria=answered_exactly(value),
        plan=(*to_order(world, order), Answer(value)),
    )


def _products_bought(world: World) -> Sequence[tuple[int, Order]]:
    """Return the products that were bought, each with the newest order that has it."""
    newest: dict[int, Order] = {}
    for order in own_orders(world):
        for item in _items(world, order):
            newest.setdefault(item.product, order)
    return [*newest.items()]


@template("shop.last_bought", _products_bought)
def last_bought(world: World, bought: tuple[int, Order]) -> SiteTask:
    """When a product was bought last."""
    number, order = bought
    name = short_name(product_of(world, number))
    intent = worded(
        number,
        f"When did I last order the {name}? Write the date alone, as the order history does.",
        f"Find the date of my latest order of the {name}. Write it alone, as in the order history.",
    )
    day = short_day(order.created)
    return SiteTask(
        intent=intent,
        start=START,
        criteria=answered_exactly(day),
        plan=(*to_order(world, order), Answer(day)),
    )


def _periods(world: World) -> Sequence[tuple[date, date]]:
    """Return times of one to three whole months in which something was completed."""
    months = [date(2023 + n // 12, n % 12 + 1, 1) for n in range(6, 30)]
    return [
        (start, end)
        for place, start in enumerate(months)
        for end in months[place + 1 : place + 4]
        if _completed(world, start, end)
    ]


def _completed(world: World, start: date, end: date) -> list[Order]:
    """Return the completed own orders from a day on and before another, newest first."""
    return [
        order
        for order in own_orders(world)
        if order.status == "complete" and start <= order.created.date() < end
    ]


def _span(start: date, end: date) -> str:
    last = date(end.year - (end.month == 1), (end.month - 2) % 12 + 1, 1)
    if start == last:
        return f"in {start:%B %Y}"
    return f"from the beginning of {start:%B %Y} to the end of {last:%B %Y}"


def _across(world: World, orders: Sequence[Order]) -> tuple[Move, ...]:
    """Return the way through the order history to the last of some orders."""
    return in_order_history(world, orders[-1])


@template("shop.spent", _periods)
def spent(world: World, period: tuple[date, date]) -> SiteTask:
    """What was spent in a time."""
    orders = _completed(world, *period)
    intent = (
        f"How much did I spend {_span(*period)}? Count completed orders only, with their shipping."
    )
    total = money(sum(order.total for order in orders))
    return _told(intent, total, _across(world, orders))


@template("shop.orders_in_time", _periods)
def orders_in_time(world: World, period: tuple[date, date]) -> SiteTask:
    """How often something was bought in a time."""
    orders = _completed(world, *period)
    intent = f"How many orders that I placed {_span(*period)} are complete?"
    count = str(len(orders))
    return SiteTask(
        intent=f"{intent} Answer with the number alone.",
        start=START,
        criteria=answered_exactly(count),
        plan=(*_across(world, orders), Answer(count)),
    )


@template("shop.show_order", _alone_on_its_day)
def show_order(world: World, order: Order) -> SiteTask:
    """The page of an order."""
    intent = worded(
        order.id,
        f"Show me the order I placed on {_day(order)}.",
        f"Open my order of {_day(order)}.",
    )
    return SiteTask(
        intent=intent,
        start=START,
        criteria=at_page(f"{SERVED}/sales/order/view/order_id/{order.id}"),
        plan=(*to_order(world, order), Answer()),
    )


def _available(world: World) -> Sequence[Order]:
    """Return the orders of which everything can be bought again."""
    stock = {product.id: product.stock for product in world[PRODUCTS]}
    return [
        order
        for order in own_orders(world)
        if all(stock[item.product] >= 2 * item.quantity for item in _items(world, order))
    ]


@template("shop.reorder", _available)
def reorder(world: World, order: Order) -> SiteTask:
    """The things of an order to be put into the cart again."""
    wanted = sorted((i.product, i.options, i.quantity) for i in _items(world, order))

    def check(now: World) -> bool:
        lines: list[CartLine] = changed_rows(now, CART) or []
        found = sorted((line.product, line.options, line.quantity) for line in lines)
        return found == wanted and all(line.owner == CART_OWNER for line in lines)

    place = own_orders(world).index(order) % 10
    plan = (*in_order_history(world, order), ClickOn("button", "Reorder", place), Answer())
    intent = worded(
        order.id,
        f"Put everything from my order {order.number} into the cart again.",
        f"I want the same as in order {order.number} once more: fill my cart with it.",
    )
    return SiteTask(intent=intent, start=START, check=check, plan=plan)


@template("shop.redirect_order", own_orders)
def redirect_order(world: World, order: Order) -> SiteTask:
    """A change of an order that the shop does not let a customer make."""
    street = f"{order.id * 7 % 900 + 10} Willow Lane"
    intent = (
        f"Change the delivery address of my order {order.number} to {street}, Chicago, IL 60601."
    )
    return SiteTask(
        intent=f"{intent} Say N/A if that cannot be done.",
        start=START,
        criteria=unachievable(),
        plan=(*to_order(world, order), Answer("N/A")),
    )


def _days(world: World) -> Sequence[tuple[date, Order | None]]:
    """Return days with one order each, and as many without any."""
    orders = {order.created.date(): order for order in _alone_on_its_day(world)}
    busy = {order.created.date() for order in own_orders(world)}
    idle = (day + timedelta(days=5) for day in orders)
    return [*orders.items(), *((day, None) for day in idle if day not in busy)]


@template("shop.total_of_day", _days)
def total_of_day(world: World, chosen: tuple[date, Order | None]) -> SiteTask:
    """What the order of a day cost, if there is one."""
    day, order = chosen
    way = _TOWARDS_HISTORY if order is None else in_order_history(world, order)
    answer = "N/A" if order is None else money(order.total)
    return SiteTask(
        intent=f"What was the total of my order of {long_day(day)}? Say N/A if there is none.",
        start=START,
        criteria=unachievable() if order is None else answered(answer),
        plan=(*way, Answer(answer)),
    )


TEMPLATES: Final = (
    order_total,
    order_state,
    order_on_day,
    payment,
    shipping_cost,
    bought_option,
    last_bought,
    spent,
    orders_in_time,
    show_order,
    reorder,
    redirect_order,
    total_of_day,
)
