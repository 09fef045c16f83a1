"""Templates of the shop: cart, wish list, checkout, reviews."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from env_servers.environments.webarena.sites.shop.buying import METHODS
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    CART,
    COUPONS,
    ITEMS,
    ORDERS,
    PRODUCTS,
    REVIEWS,
    WISHES,
    CartCoupon,
    Category,
    Options,
    Product,
    Wish,
)
from env_servers.environments.webarena.sites.shop.trade import PAYMENTS, SHOPPER
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.changes import changed_rows, only_change
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto, refill
from env_servers.environments.webarena.templates.shop_moves import (
    CART_OWNER,
    START,
    deliverable,
    leaves,
    product_of,
    short_name,
    to_product,
    to_shelf,
)
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck, worded
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_TO_CART: Final = ClickOn("button", "Add to Cart")
_TO_WISHES: Final = ClickOn("button", "Add to Wish List")
_VERDICTS: Final = (
    (5, "Would buy it again", "It does all that I hoped for."),
    (4, "Nearly perfect", "I like it, though the parcel came late."),
    (3, "It will do", "Neither good nor bad, it does its job."),
    (2, "Expected more", "It feels cheaper than it looks."),
    (1, "Broke at once", "It was broken after three days."),
)
_COMMENTS: Final = (
    "for the birthday of my sister",
    "wait for the sale",
    "the one Jonas showed me",
    "only if it is in stock by August",
)


def _changed(intent: str, check: WorldCheck, *plan: Move) -> SiteTask:
    return SiteTask(intent=intent, start=START, check=check, plan=(*plan, Answer()))


def _in_cart(product: Product, options: Options, quantity: int) -> WorldCheck:
    """Return whether a product is in the cart, and nothing else."""

    def check(world: World) -> bool:
        found = [
            (x.owner, x.product, x.options, x.quantity) for x in changed_rows(world, CART) or ()
        ]
        return found == [(CART_OWNER, product.id, options, quantity)]

    return check


def _buyable(remainder: int) -> Callable[[World], Sequence[Product]]:
    """Return a share of the deliverable products, so that templates differ in theirs."""
    return lambda world: [p for p in deliverable(world) if p.id % 5 == remainder]


@template("shop.fill_cart", _buyable(0))
def fill_cart(_: World, product: Product) -> SiteTask:
    """Several pieces of a product for the cart."""
    pieces, name = product.id % 6 + 2, short_name(product)
    intent = worded(
        product.id // 5,
        f"Put {pieces} pieces of the {name} into my cart.",
        f"I need {pieces} of the {name}, add them to the shopping cart.",
    )
    way = to_product(product)
    quantity = refill("spinbutton", "Qty", str(pieces))
    return _changed(intent, _in_cart(product, (), pieces), *way, *quantity, _TO_CART)


def _with_options(world: World) -> Sequence[Product]:
    return [p for p in world[PRODUCTS] if p.options and p.stock and p.id % 11 == 0]


@template("shop.choose_options", _with_options)
def choose_options(_: World, product: Product) -> SiteTask:
    """A product with options for the cart."""
    draw = random.Random(product.id)
    options = tuple((name, draw.choice(values)) for name, values in product.options)
    said = " and ".join(f"{name.lower()} {value}" for name, value in options)
    intent = worded(
        product.id,
        f"Add the {short_name(product)} to my cart, with {said}.",
        f"I would like the {short_name(product)} with {said}; put it into the cart.",
    )
    choices = [ClickOn("radio", value) for _, value in options]
    return _changed(intent, _in_cart(product, options, 1), *to_product(product), *choices, _TO_CART)


def _wishes_one(product: Product) -> WorldCheck:
    def check(world: World) -> bool:
        found = [(x.customer, x.product, x.quantity) for x in changed_rows(world, WISHES) or ()]
        return found == [(SHOPPER, product.id, 1)]

    return check


@template("shop.wish", lambda world: [p for p in world[PRODUCTS] if p.id % 13 == 2])
def wish(_: World, product: Product) -> SiteTask:
    """A product for the wish list."""
    name = short_name(product)
    intent = worded(
        product.id,
        f"Add the {name} to my wish list.",
        f"I may buy the {name} later, so keep it on my wish list.",
    )
    return _changed(intent, _wishes_one(product), *to_product(product), _TO_WISHES)


def _cheapest_two(world: World, category: Category) -> list[Product]:
    goods = world[PRODUCTS].where(category=category.id)
    return sorted(goods, key=lambda product: product.price)[:2]


def _with_cheapest(world: World) -> Sequence[Category]:
    """Return the categories in which one product costs less than all others."""
    return [c for c in leaves(world) if len({p.price for p in _cheapest_two(world, c)}) == 2]


@template("shop.wish_cheapest", _with_cheapest)
def wish_cheapest(world: World, category: Category) -> SiteTask:
    """The cheapest product of a shelf for the wish list."""
    way = (
        *to_shelf(world, category),
        TypeInto("combobox", "Sort By", "Price"),
        ClickOn("button", "Apply"),
        _TO_WISHES,
    )
    check = _wishes_one(_cheapest_two(world, category)[0])
    intent = f"Find the least expensive product among the {category.name}, and wish for it."
    return _changed(f"{intent} It has to stand on my wish list.", check, *way)


def _noted(world: World) -> Sequence[tuple[Wish, str]]:
    wishes = world[WISHES].where(customer=SHOPPER)
    return [(wish, comment) for wish in wishes for comment in _COMMENTS]


@template("shop.note_wish", _noted)
def note_wish(world: World, noted: tuple[Wish, str]) -> SiteTask:
    """A comment on a product of the wish list."""
    wished, comment = noted
    place = world[WISHES].where(customer=SHOPPER).index(wished)
    name = short_name(product_of(world, wished.product))

    def check(now: World) -> bool:
        return changed_rows(now, WISHES) == [replace(wished, comment=comment)]

    return _changed(
        f'On my wish list, note "{comment}" as the comment of the {name}.',
        check,
        ClickOn("link", "My Wish List"),
        TypeInto("textbox", "Comment", comment, nth=place),
        ClickOn("button", "Update Wish List"),
    )


def _counted(world: World) -> Sequence[tuple[Wish, int]]:
    wishes = world[WISHES].where(customer=SHOPPER)
    return [(wish, pieces) for wish in wishes for pieces in range(2, 8)]


@template("shop.count_wish", _counted)
def count_wish(world: World, counted: tuple[Wish, int]) -> SiteTask:
    """More pieces of a product of the wish list."""
    wished, pieces = counted
    place = world[WISHES].where(customer=SHOPPER).index(wished)
    name = short_name(product_of(world, wished.product))

    def check(now: World) -> bool:
        return changed_rows(now, WISHES) == [replace(wished, quantity=pieces)]

    return _changed(
        f"Change my wish list so that it asks for {pieces} pieces of the {name}.",
        check,
        ClickOn("link", "My Wish List"),
        *refill("spinbutton", "Qty", str(pieces), place),
        ClickOn("button", "Update Wish List"),
    )


@template("shop.coupon", _buyable(1))
def coupon(_: World, product: Product) -> SiteTask:
    """A cart with a coupon."""
    code = worded(product.id // 5, "H20", "THANKS5")

    def check(world: World) -> bool:
        used = changed_rows(world, COUPONS) == [CartCoupon(CART_OWNER, code)]
        return used and _in_cart(product, (), 1)(world)

    return _changed(
        f"Add the {short_name(product)} to my cart and use the coupon {code} on it. Do not order.",
        check,
        *to_product(product),
        _TO_CART,
        ClickOn("link", "My Cart 1 item"),
        TypeInto("textbox", "Enter discount code", code, enter=True),
    )


def _ordered(world: World, product: Product, town: str, **wanted: str) -> bool:
    """Return whether there is one new order: a piece of a product, sent and paid as wanted."""
    order = only_change(world, ORDERS)
    items = [(item.product, item.quantity) for item in changed_rows(world, ITEMS) or ()]
    return (
        order is not None
        and order.customer == SHOPPER
        and town in order.delivery[2]
        and items == [(product.id, 1)]
        and all(getattr(order, field) == value for field, value in wanted.items())
    )


@template("shop.buy", _buyable(2))
def buy(_: World, product: Product) -> SiteTask:
    """An order with a way of payment and of shipping."""
    method, _price = METHODS["tablerate"]
    payment = PAYMENTS[1 + product.id // 5 % 2]
    return _changed(
        f"Buy one {short_name(product)}, shipped by {method} to my usual address. "
        f"Pay by {payment}.",
        lambda world: _ordered(
            world, product, "Nashville", shipping_method=method, payment_method=payment
        ),
        *to_product(product),
        _TO_CART,
        ClickOn("link", "My Cart 1 item"),
        ClickOn("button", "Proceed to Checkout"),
        ClickOn("radio", method),
        ClickOn("radio", payment),
        ClickOn("button", "Place Order"),
    )


@template("shop.buy_elsewhere", _buyable(3))
def buy_elsewhere(world: World, product: Product) -> SiteTask:
    """An order that goes to the other address of the address book."""
    other = world[ADDRESSES].where(customer=SHOPPER)[1]
    return _changed(
        f"Order one {short_name(product)} for delivery to my address in {other.city}.",
        lambda now: _ordered(now, product, other.city),
        *to_product(product),
        _TO_CART,
        ClickOn("link", "My Cart 1 item"),
        ClickOn("button", "Proceed to Checkout"),
        ClickOn("radio", ", ".join(other.lines)),
        ClickOn("button", "Place Order"),
    )


@template("shop.review", lambda world: [p for p in world[PRODUCTS] if p.id % 17 == 5])
def review(_: World, product: Product) -> SiteTask:
    """A review to be written."""
    stars, title, text = _VERDICTS[product.id // 17 % len(_VERDICTS)]
    nickname = f"hana{product.id % 90 + 10}"

    def check(world: World) -> bool:
        return [
            (x.product, x.customer, x.nickname, x.title, x.text, x.stars)
            for x in changed_rows(world, REVIEWS) or ()
        ] == [(product.id, SHOPPER, nickname, title, text, stars)]

    return _changed(
        f'Review the {short_name(product)} as {nickname}: {stars} of 5 stars, summary "{title}", '
        f'review "{text}"',
        check,
        *to_product(product),
        ClickOn("radio", "1 star" if stars == 1 else f"{stars} stars"),
        *refill("textbox", "Nickname", nickname),
        TypeInto("textbox", "Summary", title),
        TypeInto("textbox", "Review", text),
        ClickOn("button", "Submit Review"),
    )


TEMPLATES: Final = (
    fill_cart,
    choose_options,
    wish,
    wish_cheapest,
    note_wish,
    count_wish,
    coupon,
    buy,
    buy_elsewhere,
    review,
)
