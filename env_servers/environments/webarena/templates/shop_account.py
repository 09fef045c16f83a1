"""Templates of the shop: the customer's account, address book, newsletter, and letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from env_servers.environments.webarena.sites.people import FAMILY_NAMES
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    CUSTOMERS,
    MESSAGES,
    SUBSCRIBERS,
    Address,
    Customer,
    Order,
)
from env_servers.environments.webarena.sites.shop.trade import PASSWORD, SHOPPER
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.changes import changed_rows
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto, refill
from env_servers.environments.webarena.templates.shop_moves import START, own_orders
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck, worded
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_MY_ACCOUNT: Final = ClickOn("link", "My Account")
_ADDRESS_BOOK: Final = ClickOn("link", "Address Book")
_SAVE_ADDRESS: Final = ClickOn("button", "Save Address")


def _changed(intent: str, check: WorldCheck, *plan: Move) -> SiteTask:
    return SiteTask(intent=intent, start=START, check=check, plan=(*plan, Answer()))


def _me(world: World) -> Customer:
    own = world[CUSTOMERS].get(SHOPPER)
    assert own is not None, "the shop has the customer whom agents act for"
    return own


def _home(world: World) -> Address:
    return world[ADDRESSES].where(customer=SHOPPER)[0]


def _elsewhere(world: World) -> Sequence[Address]:
    """Return where other people live: addresses to move to."""
    return [a for a in world[ADDRESSES] if a.customer != SHOPPER and a.id % 9 == 0]


def _where(place: Address) -> str:
    return f"{place.street}, {place.city}, {place.state}, {place.postcode}"


@template("shop.add_address", _elsewhere)
def add_address(world: World, place: Address) -> SiteTask:
    """Another address for the address book."""
    own = _home(world)

    def check(now: World) -> bool:
        wanted = replace(
            place, id=0, customer=SHOPPER, name=own.name, is_billing=False, is_shipping=False
        )
        return [replace(row, id=0) for row in changed_rows(now, ADDRESSES) or ()] == [wanted]

    return _changed(
        f"Add a second home to my address book: {_where(place)}, phone {place.phone}. "
        "My default addresses stay as they are.",
        check,
        _MY_ACCOUNT,
        _ADDRESS_BOOK,
        ClickOn("button", "Add New Address"),
        TypeInto("textbox", "Phone Number", place.phone),
        TypeInto("textbox", "Street Address: Line 1", place.street),
        TypeInto("textbox", "City", place.city),
        TypeInto("textbox", "State/Province", place.state),
        TypeInto("textbox", "Zip/Postal Code", place.postcode),
        _SAVE_ADDRESS,
    )


@template("shop.move_house", _elsewhere)
def move_house(world: World, place: Address) -> SiteTask:
    """The default address of somebody who has moved."""
    own = _home(world)
    wanted = replace(
        own, street=place.street, city=place.city, state=place.state, postcode=place.postcode
    )

    def check(now: World) -> bool:
        return changed_rows(now, ADDRESSES) == [wanted]

    return _changed(
        worded(
            place.id // 9,
            f"I have moved to {_where(place)}. Correct my default address; the phone is the same.",
            f"Change my default shipping and billing address to {_where(place)}.",
        ),
        check,
        _MY_ACCOUNT,
        _ADDRESS_BOOK,
        ClickOn("link", "Change Shipping Address"),
        *refill("textbox", "Street Address: Line 1", place.street),
        *refill("textbox", "City", place.city),
        *refill("textbox", "State/Province", place.state),
        *refill("textbox", "Zip/Postal Code", place.postcode),
        _SAVE_ADDRESS,
    )


@template("shop.new_phone", _elsewhere)
def new_phone(world: World, place: Address) -> SiteTask:
    """Another telephone number."""
    wanted = replace(_home(world), phone=place.phone)

    def check(now: World) -> bool:
        return changed_rows(now, ADDRESSES) == [wanted]

    return _changed(
        f"My phone number is {place.phone} now. Enter it at my default address.",
        check,
        _MY_ACCOUNT,
        _ADDRESS_BOOK,
        ClickOn("link", "Change Billing Address"),
        *refill("textbox", "Phone Number", place.phone),
        _SAVE_ADDRESS,
    )


@template("shop.new_name", lambda _: FAMILY_NAMES)
def new_name(world: World, name: str) -> SiteTask:
    """Another family name."""
    wanted = replace(_me(world), last_name=name)

    def check(now: World) -> bool:
        return changed_rows(now, CUSTOMERS) == [wanted]

    return _changed(
        worded(
            len(name),
            f"I have married: my last name is {name} from now on. Update my account.",
            f"Set the last name of my account to {name}.",
        ),
        check,
        _MY_ACCOUNT,
        ClickOn("link", "Account Information"),
        *refill("textbox", "Last Name", name),
        ClickOn("button", "Save"),
    )


@template("shop.new_email", lambda _: FAMILY_NAMES)
def new_email(world: World, name: str) -> SiteTask:
    """Another e-mail address, which takes the password."""
    email = f"hana@{name.lower()}.test"
    wanted = replace(_me(world), email=email)

    def check(now: World) -> bool:
        return changed_rows(now, CUSTOMERS) == [wanted]

    return _changed(
        f"Change the e-mail address of my account to {email}. My password is {PASSWORD}",
        check,
        _MY_ACCOUNT,
        ClickOn("link", "Account Information"),
        *refill("textbox", "Email", email),
        TypeInto("textbox", "Current Password", PASSWORD),
        ClickOn("button", "Save"),
    )


@template("shop.newsletter_for", lambda _: FAMILY_NAMES)
def newsletter_for(_: World, name: str) -> SiteTask:
    """The newsletter for somebody without an account."""
    email = f"{name.lower()}.family@post.test"

    def check(world: World) -> bool:
        return [row.email for row in changed_rows(world, SUBSCRIBERS) or ()] == [email]

    return _changed(
        worded(
            len(name),
            f"Subscribe {email} to the newsletter of the shop.",
            f"The shop's newsletter should go to {email}, too. Sign that address up.",
        ),
        check,
        TypeInto("textbox", "Sign Up for Our Newsletter:", email, enter=True),
    )


@template("shop.contact", own_orders)
def contact(world: World, order: Order) -> SiteTask:
    """A letter to the shop."""
    own = _me(world)
    text = worded(
        order.id,
        f"Please refund order {order.number}, it arrived broken.",
        f"Where is the parcel of order {order.number}?",
        f"May I send back what I bought by order {order.number}?",
    )

    def check(now: World) -> bool:
        found = [(row.name, row.email, row.text) for row in changed_rows(now, MESSAGES) or ()]
        return found == [(own.name, own.email, text)]

    return _changed(
        f'Send the shop this message by its contact form, in my name: "{text}"',
        check,
        ClickOn("link", "Contact Us"),
        TypeInto("textbox", "What's on your mind?", text),
        ClickOn("button", "Submit"),
    )


TEMPLATES: Final = (
    add_address,
    move_house,
    new_phone,
    new_name,
    new_email,
    newsletter_for,
    contact,
)
