"""Generates who buys in the shop and what: customers, orders and everything that hangs on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from env_servers.environments.webarena.sites.formats import slug
from env_servers.environments.webarena.sites.people import (
    FAMILY_NAMES,
    GIVEN_NAMES,
    TOWNS,
    phone,
    street,
)
from env_servers.environments.webarena.sites.shop.rows import (
    Address,
    CartRule,
    Customer,
    Invoice,
    Item,
    Note,
    Options,
    Order,
    Page,
    Product,
    SearchTerm,
    Shipment,
    Wish,
)
from env_servers.environments.webarena.sites.wordlists import entries
from env_servers.environments.webarena.sites.world import START

__all__ = ["CARRIERS", "PASSWORD", "SHOPPER", "Trade", "make_terms", "make_trade"]

SHOPPER: Final = 17
"""The customer whom agents act for, with more orders than others."""
PASSWORD: Final = "Password.123"
"""Of every generated account."""
CUSTOMERS: Final = 700
ORDERS: Final = 3000
SHOPPERS_ORDERS: Final = 46
SHIPPING: Final = (("Flat Rate - Fixed", 500), ("Best Way - Table Rate", 1500), ("Free", 0))
PAYMENTS: Final = ("Check / Money order", "Cash On Delivery", "Bank Transfer Payment")
CARRIERS: Final = (
    "DHL",
    "Federal Express",
    "United Parcel Service",
    "United States Postal Service",
)
_NOTES: Final = entries(
    "Customer asked for a delivery in the afternoon.; Please leave the parcel with the neighbor.; "
    "The customer called about the state of this order.; Gift wrap was added without charge.; "
    "Address was confirmed by phone."
)
_TERMS: Final = entries(
    "lamp; wireless; yoga mat; tea; phone case; kettle; shoes; tent; headphones; chair; dress; "
    "coffee; umbrella; drill; notebook; pillow; speaker; gift; charger; garden; backpack; muffin; "
    "sprinkles; controller; shampoo; bicycle; olive oil; printer; socks; hose"
)


@dataclass(slots=True)
class Trade:
    """The rows of all tables that have to do with buying."""

    customers: list[Customer] = field(default_factory=list[Customer])
    addresses: list[Address] = field(default_factory=list[Address])
    orders: list[Order] = field(default_factory=list[Order])
    items: list[Item] = field(default_factory=list[Item])
    notes: list[Note] = field(default_factory=list[Note])
    invoices: list[Invoice] = field(default_factory=list[Invoice])
    shipments: list[Shipment] = field(default_factory=list[Shipment])
    wishes: list[Wish] = field(default_factory=list[Wish])
    rules: list[CartRule] = field(default_factory=list[CartRule])
    pages: list[Page] = field(default_factory=list[Page])


def make_trade(products: Sequence[Product]) -> Trade:
    """Return customers with their addresses, wishes and orders, and what the shop itself has."""
    trade = Trade()
    draw = random.Random("customers")
    for number in range(1, CUSTOMERS + 1):
        _add_customer(trade, draw, number)
    draw = random.Random("orders")
    buyers = [draw.randrange(1, CUSTOMERS + 1) for _ in range(ORDERS)]
    for place in draw.sample(range(ORDERS - 40), SHOPPERS_ORDERS):
        buyers[place] = SHOPPER
    ages = sorted((draw.randrange(1800, 730 * 86400) for _ in range(ORDERS)), reverse=True)
    for number, (buyer, age) in enumerate(zip(buyers, ages, strict=True), 1):
        _add_order(
            trade, draw, number, trade.customers[buyer - 1], START - timedelta(0, age), products
        )
    for place, product in enumerate(draw.sample(list(products), 6), 1):
        time = START - timedelta(days=place * 9)
        trade.wishes.append(Wish(place, SHOPPER, product.id, 1, "", time))
    trade.rules.extend(_rules())
    trade.pages.extend(_pages())
    return trade


def _add_customer(trade: Trade, draw: random.Random, number: int) -> None:
    first, last = draw.choice(GIVEN_NAMES), draw.choice(FAMILY_NAMES)
    if number == SHOPPER:
        first, last = "Hana", "Marsh"
    elif (first, last) == ("Hana", "Marsh"):
        last = "Adler"
    email = f"{slug(first)}.{slug(last)}{'' if number == SHOPPER else number}@mail.test"
    created = START - timedelta(days=draw.randrange(731, 1100), minutes=draw.randrange(1440))
    group = draw.choices(("General", "Wholesale", "Retailer"), (90, 6, 4))[0]
    if number == SHOPPER:
        group = "General"
    customer = Customer(
        number,
        email,
        PASSWORD,
        first,
        last,
        group,
        created,
        draw.random() < 0.3 and number != SHOPPER,
    )
    trade.customers.append(customer)
    for place in range(2 if number == SHOPPER else 1):
        town, state, _, area = draw.choice(TOWNS)
        trade.addresses.append(
            Address(
                len(trade.addresses) + 1,
                number,
                customer.name,
                "",
                street(draw),
                town,
                state,
                f"{area}{draw.randrange(1, 99):02d}",
                "United States",
                phone(draw),
                place == 0,
                place == 0,
            )
        )


def _status(draw: random.Random, age: timedelta) -> str:
    if age.days < 3:
        return draw.choices(("pending", "processing", "canceled"), (8, 3, 1))[0]
    if age.days < 12:
        return draw.choices(("pending", "processing", "complete", "canceled"), (3, 5, 5, 1))[0]
    choices = ("complete", "canceled", "closed", "holded", "fraud", "pending")
    return draw.choices(choices, (78, 12, 5, 1, 1, 1))[0]


def _add_order(
    trade: Trade,
    draw: random.Random,
    number: int,
    customer: Customer,
    created: datetime,
    products: Sequence[Product],
) -> None:
    items = _items(trade, draw, number, products, created.year * 12 + created.month)
    subtotal = sum(item.price * item.quantity for item in items)
    method, shipping = draw.choices(SHIPPING, (8, 2, 1))[0]
    coupon, discount = ("H20", subtotal // 5) if draw.random() < 0.05 else ("", 0)
    home = next(a for a in _homes(trade, customer.id))
    status = _status(draw, START - created)
    order = Order(
        number,
        customer.id,
        customer.email,
        customer.name,
        created,
        status,
        subtotal,
        shipping * sum(item.quantity for item in items) if shipping == 500 else shipping,
        discount,
        coupon,
        method,
        draw.choice(PAYMENTS),
        home.lines,
        home.lines,
    )
    trade.orders.append(order)
    _add_papers(trade, draw, order)


def _homes(trade: Trade, customer: int) -> list[Address]:
    # Customers before the shopper have one address each, he has two.
    place = customer - 1 if customer <= SHOPPER else customer
    return [trade.addresses[place]]


def _items(
    trade: Trade, draw: random.Random, order: int, products: Sequence[Product], month: int
) -> list[Item]:
    items: list[Item] = []
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 4))):
        # Some products sell much better than others, and others every month.
        place = int(len(products) * draw.random() ** 3) + month * 997
        product = products[place * 1009 % len(products)]
        options: Options = tuple((name, draw.choice(values)) for name, values in product.options)
        number = len(trade.items) + 1
        quantity = draw.choice((1, 1, 1, 1, 2, 2, 3, 5))
        item = Item(
            number, order, product.id, product.name, product.sku, options, product.price, quantity
        )
        trade.items.append(item)
        items.append(item)
    return items


def _add_papers(trade: Trade, draw: random.Random, order: Order) -> None:
    if order.status in ("complete", "processing", "closed"):
        number, time = (
            len(trade.invoices) + 1,
            order.created + timedelta(hours=draw.randrange(1, 20)),
        )
        refunded = order.status == "closed"
        trade.invoices.append(Invoice(number, order.id, min(time, START), order.total, refunded))
    if order.status == "complete":
        number, time = (
            len(trade.shipments) + 1,
            order.created + timedelta(hours=draw.randrange(20, 60)),
        )
        carrier, tracking = draw.choice(CARRIERS), f"{draw.randrange(10**9, 10**10)}"
        if draw.random() < 0.3:
            carrier = tracking = ""
        trade.shipments.append(Shipment(number, order.id, min(time, START), carrier, tracking))
    if draw.random() < 0.1:
        number, text = len(trade.notes) + 1, draw.choice(_NOTES)
        trade.notes.append(Note(number, order.id, order.created, order.status, text, False, False))


def _rules() -> list[CartRule]:
    everybody = ("General", "Not Logged In", "Retailer", "Wholesale")
    return [
        CartRule(1, "20 percent for new customers", "Coupon of the welcome mail", True, everybody,
            "H20", date(2023, 1, 1), None, "by_percent", 20, 150),
        CartRule(2, "Five dollars off", "Thanks for a review", True, everybody, "THANKS5",
            None, None, "cart_fixed", 500, 0),
        CartRule(3, "Winter sale 2024", "All carts in January", False, everybody, "",
            date(2024, 1, 2), date(2024, 1, 31), "by_percent", 10, 0),
        CartRule(4, "Wholesale discount", "For resellers", True, ("Wholesale",), "", None, None,
            "by_percent", 8, 0),
    ]  # fmt: skip


def _pages() -> list[Page]:
    return [
        Page(1, "no-route", "404 Not Found", "The page you asked for was not found.", True),
        Page(2, "home", "Home page", "Welcome to OneStopShop.", True),
        Page(3, "about-us", "About us", "OneStopShop sells goods of every kind since 2011. Our "
            "warehouse is in Columbus, Ohio.", True),
        Page(4, "customer-service", "Customer Service", "Call us at (614) 555-0142, Monday to "
            "Friday, 8 a.m. to 6 p.m. Returns are free within 30 days.", True),
        Page(5, "privacy-policy", "Privacy Policy", "We keep what an order needs, and give it to "
            "nobody.", True),
    ]  # fmt: skip


def make_terms(products: Sequence[Product]) -> list[SearchTerm]:
    """Return what customers searched for, and how often."""
    draw = random.Random("terms")
    texts = [*_TERMS, *sorted({product.brand.lower() for product in products})[:60]]
    names = [product.name.lower() for product in products]
    return [
        SearchTerm(number, text, sum(text in name for name in names), draw.randrange(1, 400))
        for number, text in enumerate(texts, 1)
    ]
