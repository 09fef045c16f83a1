"""Customers as the administration sees them."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.admin.frame import ADMIN, only_managers
from env_servers.environments.webarena.sites.admin.grids import Column, Grid
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    CUSTOMERS,
    ORDERS,
    Customer,
)
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__: list[str] = []

GROUPS: Final = {"General": "General", "Wholesale": "Wholesale", "Retailer": "Retailer"}


def _phone(world: World, customer: Customer) -> str:
    addresses = world[ADDRESSES].where(customer=customer.id)
    return addresses[0].phone if addresses else ""


@ADMIN.page("/admin/customer/index", "/admin/customer", signed_in=True)
def customers(visit: Visit) -> Response:
    """Show the customers."""
    world = visit.world
    grid: Grid[Customer] = Grid(
        "Customers",
        "Customers",
        (
            Column("id", "ID", lambda row: row.id, "number"),
            Column("name", "Name", lambda row: row.name),
            Column("email", "Email", lambda row: row.email),
            Column("group", "Group", lambda row: row.group, "choice", GROUPS),
            Column("phone", "Phone", lambda row: _phone(world, row)),
            Column("created_at", "Customer Since", lambda row: row.created, "day"),
        ),
        lambda row: f"/admin/customer/index/edit/id/{row.id}/",
        "Edit",
        falls=False,
    )
    return grid.show(visit, world[CUSTOMERS])


def _customer(visit: Visit) -> Customer:
    customer = visit.world[CUSTOMERS].get(visit.parameters["id"])
    if customer is None:
        raise Missing
    return customer


@ADMIN.page("/admin/customer/index/edit/id/{id:int}", signed_in=True)
def edit_customer(visit: Visit) -> Response:
    """Show a customer with addresses and orders."""
    customer, world = _customer(visit), visit.world
    return visit.render(
        "customer.html",
        customer=customer,
        groups=[*GROUPS.items()],
        addresses=world[ADDRESSES].where(customer=customer.id),
        orders=world[ORDERS].where(customer=customer.id)[::-1],
    )


@ADMIN.form("/admin/customer/index/save/id/{id:int}")
def save_customer(visit: Visit) -> Response:
    """Change a customer."""
    only_managers(visit)
    customer, form, table = _customer(visit), visit.form, visit.world[CUSTOMERS]
    first, last = form.text("customer[firstname]"), form.text("customer[lastname]")
    email = form.text("customer[email]").lower()
    page = f"/admin/customer/index/edit/id/{customer.id}/"
    if not first or not last or "@" not in email:
        return visit.redirect(page, "Name and e-mail are required.", failed=True)
    if any(other.id != customer.id for other in table.where(email=email)):
        text = "A customer with the same email address already exists."
        return visit.redirect(page, text, failed=True)
    group = form.choice("customer[group_id]", GROUPS, customer.group)
    table.change(customer.id, first_name=first, last_name=last, email=email, group=group)
    return visit.redirect("/admin/customer/index/", "You saved the customer.")
