"""Templates of the administration: orders, their bills, parcels and history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from env_servers.environments.webarena.sites.formats import money
from env_servers.environments.webarena.sites.people import FAMILY_NAMES
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    INVOICES,
    NOTES,
    ORDERS,
    SHIPMENTS,
    STATUSES,
    Address,
    Invoice,
    Order,
    Shipment,
)
from env_servers.environments.webarena.sites.shop.trade import CARRIERS
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.admin_moves import (
    changed,
    counted,
    ends_at,
    find,
    to_order,
    told,
)
from env_servers.environments.webarena.templates.changes import changed_rows
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    WorldCheck,
    answered,
    unachievable,
    worded,
)
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_TOLD: Final = (
    "Your parcel leaves our warehouse tomorrow.",
    "We are sorry for the delay.",
    "The color that you chose arrives next week.",
    "Please tell us when you are at home.",
)
_Month = tuple[date, str]
"""The first day of a month, and a state of orders."""


def _of_state(*states: str) -> Callable[[World], Sequence[Order]]:
    """Return the orders in some states."""
    return lambda world: [o for o in world[ORDERS] if o.status in states]


def _complete(remainder: int) -> Callable[[World], Sequence[Order]]:
    """Return a share of the completed orders, so that templates differ in theirs."""
    return lambda world: [o for o in _of_state("complete")(world) if o.id % 5 == remainder]


def _becomes(order: Order, **values: object) -> WorldCheck:
    """Return whether an order has changed, as wanted, and no other one."""

    def check(world: World) -> bool:
        return changed_rows(world, ORDERS) == [replace(order, **values)]

    return check


@template("admin.order_buyer", _complete(0))
def order_buyer(_: World, order: Order) -> SiteTask:
    """Who placed an order."""
    intent = worded(
        order.id // 5,
        f"Which e-mail address belongs to the customer of order {order.number}?",
        f"Get me the e-mail address under which order {order.number} was placed.",
    )
    return told(intent, find("Orders", order.number), order.email)


@template("admin.order_subtotal", _complete(1))
def order_subtotal(_: World, order: Order) -> SiteTask:
    """What the goods of an order cost."""
    intent = f"What was the subtotal of order {order.number}, before shipping and discount?"
    return told(intent, to_order(order), money(order.subtotal))


@template("admin.invoice_total", lambda world: [*world[INVOICES]][1000::7])
def invoice_total(_: World, invoice: Invoice) -> SiteTask:
    """The amount of a bill."""
    intent = worded(
        invoice.id,
        f"Tell me the amount of invoice {invoice.number}.",
        f"How much money does invoice {invoice.number} ask for?",
    )
    return told(intent, find("Invoices", invoice.number), money(invoice.total))


def _tracked(world: World) -> Sequence[Shipment]:
    return [shipment for shipment in world[SHIPMENTS] if shipment.tracking][::9]


@template("admin.order_of_parcel", _tracked)
def order_of_parcel(_: World, shipment: Shipment) -> SiteTask:
    """Which order a parcel belongs to."""
    intent = (
        f"A parcel with the tracking number {shipment.tracking} came back. Which order is it "
        "from? Give its number with nine digits."
    )
    way = (*find("Shipments", shipment.tracking), ClickOn("link", "View"))
    return told(intent, way, f"{shipment.order:09d}")


@template("admin.carrier", _tracked)
def carrier(_: World, shipment: Shipment) -> SiteTask:
    """Who carried a parcel."""
    intent = f"Which company carries shipment {shipment.number}?"
    return told(intent, find("Shipments", shipment.number), shipment.carrier)


def _months(world: World) -> Sequence[_Month]:
    """Return months with a state in which some of their orders are."""
    months = [date(2023 + n // 12, n % 12 + 1, 1) for n in range(7, 29)]
    states = ("canceled", "closed", "complete")
    return [(m, s) for m in months for s in states if _placed(world, m, s)]


def _placed(world: World, month: date, state: str) -> list[Order]:
    orders = world[ORDERS].where(status=state)
    return [order for order in orders if order.created.date().replace(day=1) == month]


def _written(day: date) -> str:
    return f"{day:%m/%d/%Y}"


def _filtered(month: date, state: str) -> tuple[Move, ...]:
    """Return the way to the orders of a month that are in a state."""
    return (
        ClickOn("link", "Orders"),
        ClickOn("DisclosureTriangle", "Filters"),
        TypeInto("textbox", "Purchase Date from", _written(month)),
        TypeInto("textbox", "Purchase Date to", _written(_last_day(month))),
        TypeInto("combobox", "Status", STATUSES[state]),
        ClickOn("button", "Apply Filters"),
    )


def _last_day(month: date) -> date:
    return (month + timedelta(days=31)).replace(day=1) - timedelta(days=1)


@template("admin.orders_in_state", _months)
def orders_in_state(world: World, chosen: _Month) -> SiteTask:
    """How many orders of a month came to a state."""
    month, state = chosen
    intent = f'How many orders of {month:%B %Y} have the status "{STATUSES[state]}"?'
    return counted(intent, _filtered(*chosen), len(_placed(world, *chosen)))


@template("admin.filter_orders", _months)
def filter_orders(_: World, chosen: _Month) -> SiteTask:
    """The grid of orders narrowed to a time and a state."""
    month, state = chosen
    intent = (
        f'Filter the orders for the status "{STATUSES[state]}" and a purchase date from '
        f"{_written(month)} to {_written(_last_day(month))}, written like this."
    )
    first, last = (_written(day).replace("/", "%2F") for day in (month, _last_day(month)))
    query = f"status={state}&created_at[from]={first}&created_at[to]={last}"
    return ends_at(intent, _filtered(*chosen), f"sales/order?{query}")


@template("admin.open_order", _complete(2))
def open_order(_: World, order: Order) -> SiteTask:
    """The page of an order."""
    intent = f"Bring up the details of order {order.number}."
    return ends_at(intent, to_order(order), f"sales/order/view/order_id/{order.id}")


@template("admin.name_of_order", _complete(3))
def name_of_order(_: World, order: Order) -> SiteTask:
    """Whom an order is for; every second one was never placed."""
    is_there = order.id % 2 == 0
    number = order.number if is_there else f"{order.id + 5000:09d}"
    answer = order.name if is_there else "N/A"
    return SiteTask(
        intent=f"Who placed order {number}? Say N/A if there is no such order.",
        start="http://luma.com/admin",
        criteria=answered(answer) if is_there else unachievable(),
        plan=(*find("Orders", number), Answer(answer)),
    )


@template("admin.cancel", _of_state("pending", "processing"))
def cancel(_: World, order: Order) -> SiteTask:
    """An order that is not wanted any more."""
    intent = worded(
        order.id,
        f"Cancel order {order.number}.",
        f"{order.name} does not want order {order.number} any more. Cancel it.",
    )
    plan = (*to_order(order), ClickOn("button", "Cancel"))
    return changed(intent, plan, _becomes(order, status="canceled"))


@template("admin.hold", _of_state("pending", "processing"))
def hold(_: World, order: Order) -> SiteTask:
    """An order that has to wait."""
    intent = f"Put order {order.number} on hold until {order.name} has answered us."
    plan = (*to_order(order), ClickOn("button", "Hold"))
    return changed(intent, plan, _becomes(order, status="holded"))


@template("admin.release", lambda world: world[ORDERS].where(status="holded"))
def release(_: World, order: Order) -> SiteTask:
    """An order that need not wait any longer."""
    intent = f"Order {order.number} was on hold for long enough: release it."
    plan = (*to_order(order), ClickOn("button", "Unhold"))
    return changed(intent, plan, _becomes(order, status="pending"))


@template("admin.invoice", lambda world: world[ORDERS].where(status="pending"))
def invoice(_: World, order: Order) -> SiteTask:
    """An order that was paid."""

    def check(world: World) -> bool:
        bills = [(bill.order, bill.total) for bill in changed_rows(world, INVOICES) or ()]
        return bills == [(order.id, order.total)]

    intent = f"The money for order {order.number} has come in. Make out its invoice."
    return changed(intent, (*to_order(order), ClickOn("button", "Invoice")), check)


@template("admin.ship", _of_state("pending", "processing"))
def ship(_: World, order: Order) -> SiteTask:
    """An order that is sent."""
    chosen, tracking = CARRIERS[order.id % len(CARRIERS)], f"{order.id * 7919 + 10**9}"

    def check(world: World) -> bool:
        parcels = [
            (it.order, it.carrier, it.tracking) for it in changed_rows(world, SHIPMENTS) or ()
        ]
        return parcels == [(order.id, chosen, tracking)]

    plan = (
        *to_order(order),
        TypeInto("combobox", "Carrier", chosen),
        TypeInto("textbox", "Number", tracking),
        ClickOn("button", "Ship"),
    )
    return changed(
        f"Ship order {order.number} with {chosen}; the tracking number is {tracking}.", plan, check
    )


def _untracked(world: World) -> Sequence[Shipment]:
    return [shipment for shipment in world[SHIPMENTS] if not shipment.tracking][::5]


@template("admin.track", _untracked)
def track(_: World, shipment: Shipment) -> SiteTask:
    """The number of a parcel that is on its way."""
    chosen, tracking = CARRIERS[shipment.id % len(CARRIERS)], f"{shipment.id * 6577 + 10**9}"
    wanted = replace(shipment, carrier=chosen, tracking=tracking)

    def check(world: World) -> bool:
        return changed_rows(world, SHIPMENTS) == [wanted]

    plan = (
        *find("Orders", f"{shipment.order:09d}"),
        ClickOn("link", "View"),
        TypeInto("combobox", "Carrier", chosen),
        TypeInto("textbox", "Number", tracking),
        ClickOn("button", "Save Tracking Number"),
    )
    number = f"{shipment.order:09d}"
    return changed(
        f"Enter the {chosen} tracking number {tracking} for order {number}.", plan, check
    )


@template("admin.notify", _complete(4))
def notify(_: World, order: Order) -> SiteTask:
    """A message to the customer of an order."""
    text = worded(order.id // 5, *_TOLD)

    def check(world: World) -> bool:
        notes = [
            (note.order, note.text, note.notified) for note in changed_rows(world, NOTES) or ()
        ]
        return notes == [(order.id, text, True)]

    plan = (
        *to_order(order),
        TypeInto("textbox", "Comment", text),
        ClickOn("checkbox", "Notify Customer by Email"),
        ClickOn("button", "Submit Comment"),
    )
    intent = f'Let the customer of order {order.number} know by e-mail and comment: "{text}"'
    return changed(intent, plan, check)


@template("admin.comment", _of_state("canceled"))
def comment(_: World, order: Order) -> SiteTask:
    """A remark for the shop's own people."""
    text = f"Checked by {FAMILY_NAMES[order.id % len(FAMILY_NAMES)]}"

    def check(world: World) -> bool:
        notes = [
            (note.order, note.text, note.notified, note.visible)
            for note in changed_rows(world, NOTES) or ()
        ]
        return notes == [(order.id, text, False, False)]

    plan = (
        *to_order(order),
        TypeInto("textbox", "Comment", text),
        ClickOn("button", "Submit Comment"),
    )
    intent = f'Add "{text}" to the notes of order {order.number}. The customer must not see it.'
    return changed(intent, plan, check)


@template("admin.refund", _complete(1))
def refund(_: World, order: Order) -> SiteTask:
    """Money that goes back."""
    intent = worded(
        order.id // 5,
        f"Refund order {order.number} with a credit memo.",
        f"{order.name} gets the money for order {order.number} back. Create the credit memo.",
    )
    plan = (*to_order(order), ClickOn("button", "Credit Memo"))
    return changed(intent, plan, _becomes(order, status="closed"))


def _to_be_redirected(world: World) -> Sequence[tuple[Order, Address]]:
    """Return open orders with addresses of other people."""
    orders = _of_state("pending", "processing")(world)
    return [(order, [*world[ADDRESSES]][order.id % 600]) for order in orders]


@template("admin.redirect", _to_be_redirected)
def redirect(_: World, chosen: tuple[Order, Address]) -> SiteTask:
    """An order that goes to another address."""
    order, place = chosen
    town = f"{place.city}, {place.state}, {place.postcode}"
    lines = (order.delivery[0], place.street, town, "United States", f"T: {place.phone}")
    plan = (
        *to_order(order),
        ClickOn("link", "Edit", 1),
        TypeInto("textbox", "Street Address", place.street),
        TypeInto("textbox", "City", place.city),
        TypeInto("textbox", "State/Province", place.state),
        TypeInto("textbox", "Zip/Postal Code", place.postcode),
        TypeInto("textbox", "Phone Number", place.phone),
        ClickOn("button", "Save Order Address"),
    )
    intent = (
        f"Change the shipping address of order {order.number} to {place.street}, {town}, "
        f"phone {place.phone}. Name and country stay."
    )
    return changed(intent, plan, _becomes(order, delivery=lines))


TEMPLATES: Final = (
    order_buyer,
    order_subtotal,
    invoice_total,
    order_of_parcel,
    carrier,
    orders_in_state,
    filter_orders,
    open_order,
    name_of_order,
    cancel,
    hold,
    release,
    invoice,
    ship,
    track,
    notify,
    comment,
    refund,
    redirect,
)
