"""Templates of the administration: products and the reviews that customers write about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from env_servers.environments.webarena.sites.formats import money
from env_servers.environments.webarena.sites.shop.catalogue import read_kinds
from env_servers.environments.webarena.sites.shop.rows import PRODUCTS, REVIEWS, Product, Review
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.admin_moves import (
    changed,
    counted,
    ends_at,
    find,
    some_products,
    to_product,
    told,
)
from env_servers.environments.webarena.templates.changes import changed_rows, only_removal
from env_servers.environments.webarena.templates.plan import ClickOn, Move, TypeInto, refill
from env_servers.environments.webarena.templates.shop_moves import leaves, product_of, short_name
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck, worded
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_SAVE: Final = ClickOn("button", "Save")
_SENTENCES: Final = (
    "Now with a warranty of five years.",
    "The last pieces of this series.",
    "Made in small numbers, and checked by hand.",
)


def _in_stock(world: World) -> Sequence[Product]:
    return [p for p in some_products(world) if p.stock and not p.list_price]


def _becomes(product: Product, **values: object) -> WorldCheck:
    """Return whether a product has changed, as wanted, and no other one."""

    def check(world: World) -> bool:
        return changed_rows(world, PRODUCTS) == [replace(product, **values)]

    return check


@template("admin.stock", some_products)
def stock(_: World, product: Product) -> SiteTask:
    """How many pieces are left."""
    intent = f"How many pieces of the {short_name(product)} are in stock?"
    return counted(intent, find("Products", short_name(product)), product.stock)


@template("admin.name_of_sku", some_products)
def name_of_sku(_: World, product: Product) -> SiteTask:
    """Which product a number stands for."""
    intent = worded(
        product.id, f"Which product has the SKU {product.sku}?", f"What is {product.sku} called?"
    )
    return told(intent, find("Products", product.sku), short_name(product))


@template("admin.open_product", some_products)
def open_product(_: World, product: Product) -> SiteTask:
    """The form of a product."""
    intent = f"Open the {short_name(product)} for editing."
    return ends_at(intent, to_product(product), f"catalog/product/edit/id/{product.id}")


@template("admin.set_price", _in_stock)
def set_price(_: World, product: Product) -> SiteTask:
    """Another price."""
    price = product.price // 100 * 110 + 75
    intent = worded(
        product.id,
        f"Set the price of the {short_name(product)} to {money(price)}.",
        f"From today the {short_name(product)} costs {money(price)}. Update it.",
    )
    plan = (*to_product(product), *refill("textbox", "Price", f"{price / 100:.2f}"), _SAVE)
    return changed(intent, plan, _becomes(product, price=price))


@template("admin.reduce_price", _in_stock)
def reduce_price(_: World, product: Product) -> SiteTask:
    """A price that is reduced by an amount."""
    dollars = 1 + product.id % 4
    price = product.price - dollars * 100
    intent = f"Reduce the price of the {short_name(product)} by ${dollars}."
    plan = (*to_product(product), *refill("textbox", "Price", f"{price / 100:.2f}"), _SAVE)
    return changed(intent, plan, _becomes(product, price=price))


@template("admin.put_on_sale", _in_stock)
def put_on_sale(_: World, product: Product) -> SiteTask:
    """A special price beside the regular one."""
    price = product.price * 3 // 4
    intent = f"Offer the {short_name(product)} at a special price of {money(price)}."
    plan = (
        *to_product(product),
        TypeInto("textbox", "Special Price", f"{price / 100:.2f}"),
        _SAVE,
    )
    return changed(intent, plan, _becomes(product, price=price, list_price=product.price))


@template("admin.restock", _in_stock)
def restock(_: World, product: Product) -> SiteTask:
    """Pieces that have arrived."""
    arrived = 5 + product.id % 40
    intent = worded(
        product.id,
        f"{arrived} more pieces of the {short_name(product)} have arrived. Update the stock.",
        f"Add {arrived} pieces to the quantity of the {short_name(product)}.",
    )
    total = product.stock + arrived
    plan = (*to_product(product), *refill("textbox", "Quantity", str(total)), _SAVE)
    return changed(intent, plan, _becomes(product, stock=total))


@template("admin.out_of_stock", _in_stock)
def out_of_stock(_: World, product: Product) -> SiteTask:
    """A product that is sold out."""
    intent = f"Mark the {short_name(product)} as out of stock."
    plan = (*to_product(product), TypeInto("combobox", "Stock Status", "Out of Stock"), _SAVE)
    return changed(intent, plan, _becomes(product, stock=0))


@template("admin.disable", _in_stock)
def disable(_: World, product: Product) -> SiteTask:
    """A product that is not sold any more."""
    intent = worded(
        product.id,
        f"Disable the {short_name(product)}, there are complaints about it.",
        f"Customers must not see the {short_name(product)} for now. Disable it.",
    )
    plan = (*to_product(product), TypeInto("combobox", "Enable Product", "No"), _SAVE)
    return changed(intent, plan, _becomes(product, enabled=False))


@template("admin.delete_product", _in_stock)
def delete_product(_: World, product: Product) -> SiteTask:
    """A product that goes for good."""

    def check(world: World) -> bool:
        return only_removal(world, PRODUCTS) == product

    plan = (
        *find("Products", short_name(product)),
        TypeInto("combobox", "Actions", "Delete"),
        ClickOn("checkbox", f"Select {product.id}"),
        ClickOn("button", "Submit"),
    )
    return changed(f"Delete the {short_name(product)} from the catalog.", plan, check)


@template("admin.describe", _in_stock)
def describe(_: World, product: Product) -> SiteTask:
    """Another description."""
    text = worded(product.id, *_SENTENCES)
    intent = f'Replace the whole description of the {short_name(product)} by "{text}"'
    plan = (*to_product(product), *refill("textbox", "Description", text), _SAVE)
    return changed(intent, plan, _becomes(product, description=text))


@template("admin.add_product", some_products)
def add_product(world: World, model: Product) -> SiteTask:
    """A new product, of a brand that the shop knows."""
    shelf = next(it for it in leaves(world) if it.id == model.category)
    name, number = f"{model.brand} Prototype {model.id}", f"P{model.sku[1:]}"
    price, pieces = model.price // 100 * 100 + 25, 10 + model.id % 50

    def check(now: World) -> bool:
        return [
            (p.name, p.sku, p.price, p.stock, p.category, p.enabled)
            for p in changed_rows(now, PRODUCTS) or ()
        ] == [(name, number, price, pieces, shelf.id, True)]

    plan = (
        ClickOn("link", "Products"),
        ClickOn("button", "Add Product"),
        TypeInto("textbox", "Product Name", name),
        TypeInto("textbox", "SKU", number),
        TypeInto("textbox", "Price", f"{price / 100:.2f}"),
        *refill("textbox", "Quantity", str(pieces)),
        TypeInto("combobox", "Category", shelf.path),
        _SAVE,
    )
    intent = (
        f"Add a product {name} with the SKU {number} to the category {shelf.path}, for "
        f"{money(price)}, with {pieces} pieces in stock."
    )
    return changed(intent, plan, check)


def _pending(remainder: int) -> Callable[[World], Sequence[Review]]:
    """Return waiting reviews of people who have just one, a share of them for each template."""

    def candidates(world: World) -> Sequence[Review]:
        reviews = world[REVIEWS].where(status="pending")
        names = Counter(review.nickname for review in reviews)
        return [r for r in reviews if names[r.nickname] == 1 and r.id % 2 == remainder]

    return candidates


def _reviewed(world: World, review: Review) -> str:
    return short_name(product_of(world, review.product))


def _to_pending(review: Review) -> tuple[Move, ...]:
    return *find("Pending Reviews", review.nickname), ClickOn("link", "Edit")


def _moderated(review: Review, **values: object) -> WorldCheck:
    """Return whether a review has changed, as wanted, and no other one."""

    def check(world: World) -> bool:
        return changed_rows(world, REVIEWS) == [replace(review, **values)]

    return check


@template("admin.approve", _pending(0))
def approve(world: World, review: Review) -> SiteTask:
    """A review to be shown."""
    intent = (
        f"Approve the review that {review.nickname} wrote about the {_reviewed(world, review)}."
    )
    plan = (
        *_to_pending(review),
        TypeInto("combobox", "Status", "Approved"),
        ClickOn("button", "Save Review"),
    )
    return changed(intent, plan, _moderated(review, status="approved"))


@template("admin.reject", _pending(1))
def reject(world: World, review: Review) -> SiteTask:
    """A review not to be shown."""
    intent = (
        f"Do not approve what {review.nickname} wrote about the {_reviewed(world, review)}: "
        "reject it, but keep it."
    )
    plan = (
        *_to_pending(review),
        TypeInto("combobox", "Status", "Not Approved"),
        ClickOn("button", "Save Review"),
    )
    return changed(intent, plan, _moderated(review, status="rejected"))


@template("admin.delete_review", _pending(0))
def delete_review(world: World, review: Review) -> SiteTask:
    """A review that goes for good."""

    def check(now: World) -> bool:
        return only_removal(now, REVIEWS) == review

    intent = f"Delete the pending review of {review.nickname} about the {_reviewed(world, review)}."
    return changed(intent, (*_to_pending(review), ClickOn("button", "Delete Review")), check)


@template("admin.anonymize", _pending(1))
def anonymize(world: World, review: Review) -> SiteTask:
    """A review without its writer's name."""
    nickname = f"guest{review.id}"
    intent = (
        f"{review.nickname} wants no name at the pending review of the {_reviewed(world, review)}. "
        f"Change the nickname to {nickname} and leave the rest."
    )
    plan = (
        *_to_pending(review),
        *refill("textbox", "Nickname", nickname),
        ClickOn("button", "Save Review"),
    )
    return changed(intent, plan, _moderated(review, nickname=nickname))


def _written_once(world: World) -> Sequence[Review]:
    """Return reviews of people who have written just one."""
    names = Counter(review.nickname for review in world[REVIEWS])
    return [r for r in world[REVIEWS] if names[r.nickname] == 1]


@template("admin.stars", _written_once)
def stars(world: World, review: Review) -> SiteTask:
    """What somebody thinks of a product."""
    name = _reviewed(world, review)
    intent = f"How many stars, of five, did {review.nickname} give the {name}?"
    return counted(intent, find("All Reviews", review.nickname), review.stars)


def _aspects(world: World) -> Sequence[str]:
    return sorted({aspect for kind in read_kinds() for aspect in kind.aspects if " " in aspect})


@template("admin.mentions", _aspects)
def mentions(world: World, aspect: str) -> SiteTask:
    """How many reviews speak of something."""
    count = sum(aspect in review.text.lower() for review in world[REVIEWS])
    plan = (
        ClickOn("link", "All Reviews"),
        ClickOn("DisclosureTriangle", "Filters"),
        TypeInto("textbox", "Review", aspect, enter=True),
    )
    return counted(f'How many of all reviews have "{aspect}" in their text?', plan, count)


TEMPLATES: Final = (
    stock,
    name_of_sku,
    open_product,
    set_price,
    reduce_price,
    put_on_sale,
    restock,
    out_of_stock,
    disable,
    delete_product,
    describe,
    add_product,
    approve,
    reject,
    delete_review,
    anonymize,
    stars,
    mentions,
)
