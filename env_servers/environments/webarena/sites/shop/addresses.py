"""The address books of the shop's customers, and how a form's address is read."""

from __future__ import annotations

from starlette.responses import Response

from env_servers.environments.webarena.sites.shop.frame import SHOP, me
from env_servers.environments.webarena.sites.shop.rows import ADDRESSES, Address
from env_servers.environments.webarena.sites.visit import Missing, Visit

__all__ = ["read_address"]


@SHOP.page("/customer/address", "/customer/address/index", signed_in=True)
def address_book(visit: Visit) -> Response:
    """Show the address book."""
    addresses = visit.world[ADDRESSES].where(customer=me(visit).id)
    return visit.render("addresses.html", addresses=addresses)


def _own_address(visit: Visit) -> Address:
    address = visit.world[ADDRESSES].get(visit.parameters["id"])
    if address is None or address.customer != me(visit).id:
        raise Missing
    return address


@SHOP.page("/customer/address/new", signed_in=True)
def new_address(visit: Visit) -> Response:
    """Show the form for another address."""
    blank = Address(0, 0, me(visit).name, "", "", "", "", "", "United States", "", False, False)
    return visit.render("address.html", address=blank)


@SHOP.page("/customer/address/edit/id/{id:int}", signed_in=True)
def edit_address(visit: Visit) -> Response:
    """Show the form of an address."""
    return visit.render("address.html", address=_own_address(visit))


def read_address(visit: Visit, number: int, customer: int, name: str) -> Address | None:
    """Return the address that a form has; None if something is missing."""
    form = visit.form
    full = " ".join(part for part in (form.text("firstname"), form.text("lastname")) if part)
    street = ", ".join(line for line in (form.text("street[0]"), form.text("street[1]")) if line)
    address = Address(
        number,
        customer,
        full or form.text("name") or name,
        form.text("company"),
        street,
        form.text("city"),
        form.text("region"),
        form.text("postcode"),
        form.text("country", "United States"),
        form.text("telephone"),
        "default_billing" in form,
        "default_shipping" in form,
    )
    needed = (address.name, address.street, address.city, address.postcode, address.phone)
    return address if all(needed) else None


@SHOP.form("/customer/address/formPost", "/customer/address/formPost/id/{id:int}")
def save_address(visit: Visit) -> Response:
    """Save a new or changed address."""
    own, addresses = me(visit), visit.world[ADDRESSES]
    number = _own_address(visit).id if "id" in visit.parameters else addresses.next_id
    address = read_address(visit, number, own.id, own.name)
    if address is None:
        page = f"edit/id/{number}/" if "id" in visit.parameters else "new/"
        text = "Please fill in name, phone, street, city and postcode."
        return visit.redirect(f"/customer/address/{page}", text, failed=True)
    for other in addresses.where(customer=own.id):
        if other.id != number and address.is_billing and other.is_billing:
            addresses.change(other.id, is_billing=False)
        if other.id != number and address.is_shipping and other.is_shipping:
            addresses.change(other.id, is_shipping=False)
    addresses.put(address)
    return visit.redirect("/customer/address/", "You saved the address.")


@SHOP.form("/customer/address/delete/id/{id:int}")
def delete_address(visit: Visit) -> Response:
    """Remove an address that no bill and no parcel goes to by default."""
    address = _own_address(visit)
    if address.is_billing or address.is_shipping:
        text = "A default address cannot be deleted."
        return visit.redirect("/customer/address/", text, failed=True)
    visit.world[ADDRESSES].remove(address.id)
    return visit.redirect("/customer/address/", "You deleted the address.")
