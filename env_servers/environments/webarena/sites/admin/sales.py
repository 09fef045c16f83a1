"""Dashboard, orders, invoices and shipments."""

from __future__ import annotations

from collections import Counter
from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.admin.frame import ADMIN
from env_servers.environments.webarena.sites.admin.grids import Column, Grid
from env_servers.environments.webarena.sites.shop.rows import (
    CUSTOMERS,
    INVOICES,
    ITEMS,
    NOTES,
    ORDERS,
    PRODUCTS,
    SHIPMENTS,
    STATUSES,
    TERMS,
    Invoice,
    Note,
    Order,
    Shipment,
)
from env_servers.environments.webarena.sites.shop.trade import CARRIERS
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__: list[str] = []

_OPEN: Final = ("pending", "processing")
_ORDER_PAGE: Final = "/admin/sales/order/view/order_id/"


@ADMIN.page("/admin/admin/dashboard", "/admin/dashboard", signed_in=True)
def dashboard(visit: Visit) -> Response:
    """Show what was sold, searched for and bought last."""
    world = visit.world
    sold: Counter[int] = Counter()
    for item in world[ITEMS]:
        sold[item.product] += item.quantity
    best = [(world[PRODUCTS].get(number), pieces) for number, pieces in sold.most_common(5)]
    paid = [o for o in world[ORDERS] if o.status in ("complete", "processing")]
    revenue = sum(order.total for order in paid)
    last = sorted(world[ORDERS], key=lambda order: order.id, reverse=True)[:5]
    terms = sorted(world[TERMS], key=lambda term: (-term.uses, term.id))
    return visit.render(
        "dashboard.html",
        best=best,
        revenue=revenue,
        average=revenue // max(1, len(paid)),
        last=[(o, sum(i.quantity for i in world[ITEMS].where(order=o.id))) for o in last],
        terms=terms[:5],
        newest=sorted(world[CUSTOMERS], key=lambda c: (c.created, c.id), reverse=True)[:5],
    )


_ORDERS: Final[Grid[Order]] = Grid(
    "Orders",
    "Sales",
    (
        Column("id", "ID", lambda order: order.id, "number"),
        Column("created_at", "Purchase Date", lambda order: order.created, "day"),
        Column("billing_name", "Bill-to Name", lambda order: order.name),
        Column("customer_email", "Customer Email", lambda order: order.email),
        Column("grand_total", "Grand Total (Purchased)", lambda order: order.total, "money"),
        Column("status", "Status", lambda order: order.status, "choice", STATUSES),
    ),
    lambda order: f"{_ORDER_PAGE}{order.id}/",
    mass="/admin/sales/order/mass/",
    actions=(("cancel", "Cancel"), ("hold", "Hold"), ("unhold", "Unhold")),
)


@ADMIN.page("/admin/sales/order", "/admin/sales/order/index", signed_in=True)
def orders(visit: Visit) -> Response:
    """Show the orders."""
    return _ORDERS.show(visit, visit.world[ORDERS])


@ADMIN.form("/admin/sales/order/mass")
def change_orders(visit: Visit) -> Response:
    """Cancel, hold or release the chosen orders, as far as they can be."""
    action = visit.form.choice("action", ("cancel", "hold", "unhold"), "")
    found = [visit.world[ORDERS].get(number) for number in visit.form.numbers("selected")]
    chosen = [order for order in found if order is not None]
    if not action or not chosen:
        return visit.back("/admin/sales/order/", "Please choose items and an action.", failed=True)
    done = sum(_CHANGES[action](visit.world, order) for order in chosen)
    return visit.back("/admin/sales/order/", f"{done} order(s) changed, {len(chosen) - done} not.")


def _cancel(world: World, order: Order) -> bool:
    if order.status not in (*_OPEN, "holded"):
        return False
    world[ORDERS].change(order.id, status="canceled")
    for item in world[ITEMS].where(order=order.id):
        product = world[PRODUCTS].get(item.product)
        if product is not None:
            world[PRODUCTS].change(product.id, stock=product.stock + item.quantity)
    return True


def _hold(world: World, order: Order) -> bool:
    if order.status not in _OPEN:
        return False
    world[ORDERS].change(order.id, status="holded")
    return True


def _unhold(world: World, order: Order) -> bool:
    if order.status != "holded":
        return False
    invoiced = bool(world[INVOICES].where(order=order.id))
    world[ORDERS].change(order.id, status="processing" if invoiced else "pending")
    return True


_CHANGES: Final = {"cancel": _cancel, "hold": _hold, "unhold": _unhold}
_CHANGED: Final = {
    "cancel": "You canceled the order.",
    "hold": "You put the order on hold.",
    "unhold": "You released the order from holding status.",
}


def _order(visit: Visit) -> Order:
    order = visit.world[ORDERS].get(visit.parameters["id"])
    if order is None:
        raise Missing
    return order


@ADMIN.page("/admin/sales/order/view/order_id/{id:int}", signed_in=True)
def view_order(visit: Visit) -> Response:
    """Show an order with what can be done with it."""
    order, world = _order(visit), visit.world
    invoices, shipments = (
        table.where(order=order.id) for table in (world[INVOICES], world[SHIPMENTS])
    )
    is_open = order.status in _OPEN
    return visit.render(
        "order.html",
        order=order,
        items=world[ITEMS].where(order=order.id),
        notes=world[NOTES].where(order=order.id)[::-1],
        invoices=invoices,
        shipments=shipments,
        can={
            "cancel": is_open or order.status == "holded",
            "hold": is_open,
            "unhold": order.status == "holded",
            "invoice": is_open and not invoices,
            "ship": is_open and not shipments,
            "refund": order.status in ("processing", "complete") and bool(invoices),
        },
        carriers=CARRIERS,
    )


@ADMIN.form("/admin/sales/order/{action}/order_id/{id:int}")
def change_order(visit: Visit) -> Response:
    """Cancel, hold or release an order."""
    order, action = _order(visit), visit.parameters["action"]
    if action not in _CHANGES:
        raise Missing
    if not _CHANGES[action](visit.world, order):
        return _again(visit, order, "This cannot be done with the order.", failed=True)
    return _again(visit, order, _CHANGED[action])


def _again(visit: Visit, order: Order, text: str, *, failed: bool = False) -> Response:
    return visit.redirect(f"{_ORDER_PAGE}{order.id}/", text, failed=failed)


@ADMIN.form("/admin/sales/order_invoice/start/order_id/{id:int}")
def invoice(visit: Visit) -> Response:
    """Bill an order."""
    order, world = _order(visit), visit.world
    if order.status not in _OPEN or world[INVOICES].where(order=order.id):
        return _again(visit, order, "The order does not allow an invoice.", failed=True)
    world[INVOICES].put(Invoice(world[INVOICES].next_id, order.id, world.now, order.total, False))
    shipped = bool(world[SHIPMENTS].where(order=order.id))
    world[ORDERS].change(order.id, status="complete" if shipped else "processing")
    return _again(visit, order, "The invoice has been created.")


@ADMIN.form("/admin/order_shipment/start/order_id/{id:int}")
def ship(visit: Visit) -> Response:
    """Send an order."""
    order, world, form = _order(visit), visit.world, visit.form
    shipments = world[SHIPMENTS]
    if order.status not in _OPEN or shipments.where(order=order.id):
        return _again(visit, order, "The order does not allow a shipment.", failed=True)
    carrier = form.choice("carrier", CARRIERS, "")
    tracking = form.text("tracking")
    shipments.put(Shipment(shipments.next_id, order.id, world.now, carrier, tracking))
    invoiced = bool(world[INVOICES].where(order=order.id))
    world[ORDERS].change(order.id, status="complete" if invoiced else "processing")
    return _again(visit, order, "The shipment has been created.")


@ADMIN.form("/admin/order_shipment/track/shipment_id/{id:int}")
def track(visit: Visit) -> Response:
    """Enter or change the tracking number of a shipment."""
    shipments, form = visit.world[SHIPMENTS], visit.form
    shipment = shipments.get(visit.parameters["id"])
    if shipment is None:
        raise Missing
    carrier, tracking = form.choice("carrier", CARRIERS, ""), form.text("tracking")
    page = f"{_ORDER_PAGE}{shipment.order}/"
    if not carrier or not tracking:
        return visit.redirect(page, "Please enter a carrier and a number.", failed=True)
    shipments.change(shipment.id, carrier=carrier, tracking=tracking)
    return visit.redirect(page, "The tracking number has been saved.")


@ADMIN.form("/admin/sales/order_creditmemo/start/order_id/{id:int}")
def refund(visit: Visit) -> Response:
    """Give the money back."""
    order, world = _order(visit), visit.world
    invoices = world[INVOICES].where(order=order.id)
    if order.status not in ("processing", "complete") or not invoices:
        return _again(visit, order, "The order does not allow a refund.", failed=True)
    world[INVOICES].change(invoices[0].id, refunded=True)
    world[ORDERS].change(order.id, status="closed")
    return _again(visit, order, "You created the credit memo.")


@ADMIN.form("/admin/sales/order/addComment/{id:int}")
def comment(visit: Visit) -> Response:
    """Add a comment to the history of an order, and tell the customer if that is wanted."""
    order, form, notes = _order(visit), visit.form, visit.world[NOTES]
    text = form.text("history[comment]")
    if not text:
        return _again(visit, order, "The comment is missing. Enter and try again.", failed=True)
    told, seen = "history[is_customer_notified]" in form, "history[is_visible_on_front]" in form
    status = order.status
    notes.put(Note(notes.next_id, order.id, visit.world.now, status, text, told, seen))
    return _again(visit, order, "You added the comment.")


@ADMIN.page("/admin/sales/order/address/order_id/{id:int}/{kind}", signed_in=True)
def edit_address(visit: Visit) -> Response:
    """Show the form of an order's address."""
    order, kind = _order(visit), visit.parameters["kind"]
    if kind not in ("billing", "shipping"):
        raise Missing
    lines = order.billing if kind == "billing" else order.delivery
    return visit.render("order_address.html", order=order, address=kind, lines=lines)


@ADMIN.form("/admin/sales/order/addressSave/order_id/{id:int}/{kind}")
def save_address(visit: Visit) -> Response:
    """Change an order's address."""
    order, form, kind = _order(visit), visit.form, visit.parameters["kind"]
    needed = [form.text(name) for name in ("name", "street", "city", "postcode", "country")]
    if kind not in ("billing", "shipping") or not all(needed):
        return _again(visit, order, "Please fill in all fields of the address.", failed=True)
    name, street, city, postcode, country = needed
    town = f"{city}, {form.text('region')}, {postcode}"
    lines = (name, street, town, country, f"T: {form.text('telephone')}")
    field = "billing" if kind == "billing" else "delivery"
    visit.world[ORDERS].change(order.id, **{field: lines})
    return _again(visit, order, "You updated the order address.")


_INVOICES: Final[Grid[Invoice]] = Grid(
    "Invoices",
    "Sales",
    (
        Column("id", "Invoice", lambda row: row.id, "number"),
        Column("created_at", "Invoice Date", lambda row: row.created, "day"),
        Column("order", "Order #", lambda row: row.order, "number"),
        Column("grand_total", "Amount", lambda row: row.total, "money"),
        Column("state", "Status", lambda row: "Refunded" if row.refunded else "Paid"),
    ),
    lambda row: f"{_ORDER_PAGE}{row.order}/",
)
_SHIPMENTS: Final[Grid[Shipment]] = Grid(
    "Shipments",
    "Sales",
    (
        Column("id", "Shipment", lambda row: row.id, "number"),
        Column("created_at", "Ship Date", lambda row: row.created, "day"),
        Column("order", "Order #", lambda row: row.order, "number"),
        Column("carrier", "Carrier", lambda row: row.carrier),
        Column("tracking", "Tracking Number", lambda row: row.tracking),
    ),
    lambda row: f"{_ORDER_PAGE}{row.order}/",
)


@ADMIN.page("/admin/sales/invoice", signed_in=True)
def invoices(visit: Visit) -> Response:
    """Show the invoices."""
    return _INVOICES.show(visit, visit.world[INVOICES])


@ADMIN.page("/admin/sales/shipment", signed_in=True)
def shipments(visit: Visit) -> Response:
    """Show the shipments."""
    return _SHIPMENTS.show(visit, visit.world[SHIPMENTS])
