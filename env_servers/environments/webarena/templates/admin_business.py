"""Templates of the administration: customers, marketing, pages of text, reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from env_servers.environments.webarena.sites.formats import money
from env_servers.environments.webarena.sites.people import FAMILY_NAMES, GIVEN_NAMES
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    CUSTOMERS,
    ITEMS,
    ORDERS,
    PAGES,
    RULES,
    TERMS,
    Address,
    Customer,
    Order,
    Page,
    SearchTerm,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.admin_moves import (
    changed,
    counted,
    ends_at,
    find,
    report,
    to_customer,
    told,
)
from env_servers.environments.webarena.templates.changes import changed_rows
from env_servers.environments.webarena.templates.plan import (
    Answer,
    ClickOn,
    Keys,
    Move,
    TypeInto,
    refill,
)
from env_servers.environments.webarena.templates.shop_moves import product_of, short_name
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    WorldCheck,
    answered,
    unachievable,
    worded,
)
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_EVERYBODY: Final = ("Not Logged In", "General", "Wholesale", "Retailer")
_SEASONS: Final = ("Spring", "Summer", "Harvest", "Winter", "Holiday", "Founders' Day")
_TITLES: Final = ("Nothing here", "A wrong turn", "For our friends", "Read this first", "In short")
_Period = tuple[date, date]
"""First and last day; both are in one calendar year."""


def _customers(remainder: int) -> Callable[[World], Sequence[Customer]]:
    """Return a share of the customers, whose numbers have three digits."""
    return lambda world: [c for c in world[CUSTOMERS] if c.id >= 100 and c.id % 4 == remainder]


def _becomes(customer: Customer, **values: object) -> WorldCheck:
    """Return whether a customer has changed, as wanted, and no other one."""

    def check(world: World) -> bool:
        return changed_rows(world, CUSTOMERS) == [replace(customer, **values)]

    return check


def _phones(world: World) -> Sequence[Address]:
    """Return addresses that can be told by their telephone number."""
    phones = Counter(address.phone for address in world[ADDRESSES])
    return [a for a in world[ADDRESSES] if phones[a.phone] == 1 and a.is_billing]


def _owner(world: World, address: Address) -> Customer:
    customer = world[CUSTOMERS].get(address.customer)
    assert customer is not None, "every address has its customer"
    return customer


@template("admin.customer_by_phone", _phones)
def customer_by_phone(world: World, address: Address) -> SiteTask:
    """Whom a telephone number belongs to."""
    customer = _owner(world, address)
    intent = worded(
        address.id,
        f"Which customer has the phone number {address.phone}? Give the name and the e-mail.",
        f"{address.phone} has called us. Find that customer's name and e-mail address.",
    )
    return told(intent, find("All Customers", address.phone), customer.name, customer.email)


@template("admin.name_of_phone", _phones)
def name_of_phone(world: World, address: Address) -> SiteTask:
    """Whose telephone number it is; every second one is nobody's."""
    is_there = address.id % 2 == 1
    phone = address.phone if is_there else address.phone.replace("555", "777")
    answer = _owner(world, address).name if is_there else "N/A"
    return SiteTask(
        intent=f"What is the customer with the phone number {phone} called? Say N/A if nobody has "
        "this number.",
        start="http://luma.com/admin",
        criteria=answered(answer) if is_there else unachievable(),
        plan=(*find("All Customers", phone), Answer(answer)),
    )


def _ordered(world: World, customer: Customer) -> list[Order]:
    return world[ORDERS].where(customer=customer.id)


def _buyers(world: World) -> Sequence[Customer]:
    return [c for c in _customers(0)(world) if len(_ordered(world, c)) > 1]


@template("admin.order_count", _buyers)
def order_count(world: World, customer: Customer) -> SiteTask:
    """How often somebody has ordered."""
    intent = f"How many orders has the customer with the e-mail {customer.email} placed?"
    return counted(intent, to_customer(customer), len(_ordered(world, customer)))


@template("admin.last_order", _buyers)
def last_order(world: World, customer: Customer) -> SiteTask:
    """The newest order of somebody."""
    intent = worded(
        customer.id // 4,
        f"What is the number of the newest order of {customer.email}?",
        f"Find the order that {customer.name} ({customer.email}) placed last; tell its number.",
    )
    return told(intent, to_customer(customer), _ordered(world, customer)[-1].number)


@template("admin.customer_since", _customers(1))
def customer_since(_: World, customer: Customer) -> SiteTask:
    """Since when somebody has an account."""
    day = customer.created
    intent = f"On which day did {customer.email} become a customer? Write it like Jan 9, 2020."
    return told(intent, find("All Customers", customer.email), f"{day:%b} {day.day}, {day.year}")


@template("admin.open_customer", _customers(2))
def open_customer(_: World, customer: Customer) -> SiteTask:
    """The page of a customer."""
    intent = f"Show me everything about the customer {customer.name}, {customer.email}."
    return ends_at(intent, to_customer(customer), f"customer/index/edit/id/{customer.id}")


@template(
    "admin.customer_group", lambda world: [c for c in _customers(3)(world) if c.group == "General"]
)
def customer_group(_: World, customer: Customer) -> SiteTask:
    """A customer who belongs to another group from now on."""
    group = worded(customer.id // 4, "Wholesale", "Retailer")
    plan = (
        *to_customer(customer),
        TypeInto("combobox", "Group", group),
        ClickOn("button", "Save Customer"),
    )
    intent = f"Move {customer.name} ({customer.email}) to the customer group {group}."
    return changed(intent, plan, _becomes(customer, group=group))


@template("admin.customer_email", _customers(0))
def customer_email(_: World, customer: Customer) -> SiteTask:
    """A customer with another e-mail address."""
    email = f"{customer.first_name.lower()}{customer.id}@office.test"
    plan = (
        *to_customer(customer),
        *refill("textbox", "Email", email),
        ClickOn("button", "Save Customer"),
    )
    intent = f"{customer.name} no longer uses {customer.email}. Change the address to {email}."
    return changed(intent, plan, _becomes(customer, email=email))


@template("admin.customer_name", _customers(1))
def customer_name(_: World, customer: Customer) -> SiteTask:
    """A customer whose name was wrong."""
    name = f"{FAMILY_NAMES[customer.id % len(FAMILY_NAMES)]}-{customer.last_name}"
    plan = (
        *to_customer(customer),
        *refill("textbox", "Last Name", name),
        ClickOn("button", "Save Customer"),
    )
    intent = f"Correct the last name of the customer {customer.email} to {name}."
    return changed(intent, plan, _becomes(customer, last_name=name))


@template("admin.search_uses", lambda world: [*world[TERMS]])
def search_uses(_: World, term: SearchTerm) -> SiteTask:
    """How often something was searched for."""
    intent = worded(
        term.id,
        f'How often did customers search for "{term.text}"?',
        f'Look up the number of uses of the search term "{term.text}".',
    )
    return counted(intent, find("Search Terms", term.text), term.uses)


def _rule(fields: tuple[Move, ...]) -> tuple[Move, ...]:
    """Return how a rule for carts of all groups is made."""
    return (
        ClickOn("link", "Cart Price Rules"),
        ClickOn("button", "Add New Rule"),
        ClickOn("option", "Not Logged In"),
        Keys("Shift+End"),
        *fields,
        ClickOn("button", "Save"),
    )


def _has_rule(name: str, coupon: str, kind: str, amount: int) -> WorldCheck:
    def check(world: World) -> bool:
        return [
            (it.name, it.coupon, it.kind, it.amount, it.groups, it.active)
            for it in changed_rows(world, RULES) or ()
        ] == [(name, coupon, kind, amount, _EVERYBODY, True)]

    return check


@template(
    "admin.percent_rule",
    lambda _: [(season, percent) for season in _SEASONS for percent in (5, 10, 15, 25)],
)
def percent_rule(_: World, chosen: tuple[str, int]) -> SiteTask:
    """A discount for everybody."""
    season, percent = chosen
    name = f"{season} sale"
    plan = _rule(
        (
            TypeInto("textbox", "Rule Name", name),
            TypeInto("textbox", "Discount Amount", str(percent)),
        )
    )
    intent = worded(
        percent // 5,
        f'Make a cart price rule "{name}": {percent} percent off for all customer groups.',
        f'All customer groups get {percent} percent off. Set up the cart price rule "{name}".',
    )
    return changed(intent, plan, _has_rule(name, "", "by_percent", percent))


@template("admin.coupon_rule", lambda _: GIVEN_NAMES)
def coupon_rule(_: World, friend: str) -> SiteTask:
    """A coupon over an amount."""
    dollars = 3 + sum(map(ord, friend)) % 20
    name, code = f"Thanks to {friend}", f"{friend.upper()}{dollars}"
    plan = _rule(
        (
            TypeInto("textbox", "Rule Name", name),
            TypeInto("textbox", "Coupon Code", code),
            TypeInto("combobox", "Apply", "Fixed amount discount for whole cart"),
            TypeInto("textbox", "Discount Amount", str(dollars)),
        )
    )
    intent = (
        f'Create a cart price rule "{name}" for all customer groups: with the coupon {code}, '
        f"${dollars} off the whole cart."
    )
    return changed(intent, plan, _has_rule(name, code, "cart_fixed", dollars * 100))


@template(
    "admin.page_title", lambda world: [(page, title) for page in world[PAGES] for title in _TITLES]
)
def page_title(_: World, chosen: tuple[Page, str]) -> SiteTask:
    """Another title of a page of text."""
    page, title = chosen

    def check(world: World) -> bool:
        return changed_rows(world, PAGES) == [replace(page, title=title)]

    plan = (
        ClickOn("link", "Pages"),
        ClickOn("link", "Edit", page.id - 1),
        *refill("textbox", "Page Title", title),
        ClickOn("button", "Save"),
    )
    return changed(f'Change the title of the page "{page.title}" to "{title}".', plan, check)


def _periods(_: World) -> Sequence[_Period]:
    """Return times of one to four whole months, each in one calendar year."""
    months = [date(2023 + n // 12, n % 12 + 1, 1) for n in range(7, 29)]
    return [
        (start, end - timedelta(days=1))
        for place, start in enumerate(months)
        for end in months[place + 1 : place + 5]
        if (end - timedelta(days=1)).year == start.year
    ]


def _written(day: date) -> str:
    return f"{day:%m/%d/%Y}"


def _span(period: _Period) -> str:
    return f"from {_written(period[0])} to {_written(period[1])}"


def _placed(world: World, period: _Period) -> list[Order]:
    return [o for o in world[ORDERS] if period[0] <= o.created.date() <= period[1]]


def _through(name: str, period: _Period) -> tuple[Move, ...]:
    return report(name, _written(period[0]), _written(period[1]), "Year")


@template("admin.sales_total", _periods)
def sales_total(world: World, period: _Period) -> SiteTask:
    """What was sold in a time."""
    total = sum(order.total for order in _placed(world, period) if order.status != "canceled")
    intent = f"What is the sales total of the orders report {_span(period)}?"
    return told(intent, _through("Orders", period), money(total))


@template("admin.canceled_value", _periods)
def canceled_value(world: World, period: _Period) -> SiteTask:
    """What customers changed their minds about in a time."""
    total = sum(order.total for order in _placed(world, period) if order.status == "canceled")
    intent = f"What was the total of the canceled orders that were placed {_span(period)}?"
    return told(intent, _through("Orders", period), money(total))


def _sold(world: World, period: _Period) -> list[tuple[int, int]]:
    """Return what sold best in a time: products with their pieces."""
    pieces: Counter[int] = Counter()
    for order in _placed(world, period):
        for item in world[ITEMS].where(order=order.id):
            pieces[item.product] += item.quantity
    return pieces.most_common(2)


def _with_bestseller(world: World) -> Sequence[_Period]:
    """Return times in which one product sold better than all others."""
    bests = [(period, _sold(world, period)) for period in _periods(world)]
    return [period for period, best in bests if best[0][1] > best[1][1]]


@template("admin.bestseller", _with_bestseller)
def bestseller(world: World, period: _Period) -> SiteTask:
    """What sold best in a time."""
    best = short_name(product_of(world, _sold(world, period)[0][0]))
    intent = worded(
        period[0].month,
        f"Which product sold most pieces {_span(period)}?",
        f"Name the best-selling product {_span(period)}.",
    )
    return told(intent, _through("Bestsellers", period), best)


def _report_page(name: str, title: str, path: str) -> Callable[[World, _Period], SiteTask]:
    """Return what makes the task of a report to be shown."""

    def make(_: World, period: _Period) -> SiteTask:
        first, last = (_written(day).replace("/", "%2F") for day in period)
        intent = f"Create the {title} report by month {_span(period)}, dates written like this."
        plan = report(name, _written(period[0]), _written(period[1]), "Month")
        query = f"period_type=month&from={first}&to={last}"
        return ends_at(intent, plan, f"reports/report_sales/{path}?{query}")

    return make


orders_report: Final = template("admin.orders_report", _periods)(
    _report_page("Orders", "orders", "sales")
)
bestsellers_report: Final = template("admin.bestsellers_report", _periods)(
    _report_page("Bestsellers", "bestsellers", "bestsellers")
)

TEMPLATES: Final = (
    customer_by_phone,
    name_of_phone,
    order_count,
    last_order,
    customer_since,
    open_customer,
    customer_group,
    customer_email,
    customer_name,
    search_uses,
    percent_rule,
    coupon_rule,
    page_title,
    sales_total,
    canceled_value,
    bestseller,
    orders_report,
    bestsellers_report,
)
