"""Templates of the shop: what its pages say about products, and what customers wrote about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.webarena.sites.formats import money, short_day
from env_servers.environments.webarena.sites.shop.catalogue import PRODUCTS_PER_KIND
from env_servers.environments.webarena.sites.shop.frame import stars_of
from env_servers.environments.webarena.sites.shop.rows import PRODUCTS, Product, Review
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer
from env_servers.environments.webarena.templates.shop_moves import (
    START,
    approved_reviews,
    search,
    short_name,
    to_product,
)
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    unachievable,
    worded,
)
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_MOST_SHOWN: Final = 10
"""Reviews on one page."""
_STRIDE: Final = 7
"""Candidates are every seventh product: enough, and drawn quickly."""
_PIECE_COUNTS: Final = 3


def _some(world: World) -> Sequence[Product]:
    return [product for product in world[PRODUCTS] if product.id % _STRIDE == 0]


def _asked(product: Product, intent: str, answer: str) -> SiteTask:
    """Return the task of an answer that stands on a product's page."""
    plan = (*to_product(product), Answer(answer))
    return SiteTask(intent=intent, start=START, criteria=answered(answer), plan=plan)


def _with_reviews(
    chosen: Callable[[list[Review]], Sequence[Review]],
) -> Callable[[World], Sequence[tuple[Product, Review]]]:
    """Return the products of whose shown reviews exactly one is chosen, and that one."""

    def candidates(world: World) -> Sequence[tuple[Product, Review]]:
        pairs: list[tuple[Product, Review]] = []
        for product in _some(world):
            reviews = approved_reviews(world, product)
            found = chosen(reviews)
            if 1 < len(reviews) <= _MOST_SHOWN and len(found) == 1:
                pairs.append((product, found[0]))
        return pairs

    return candidates


@template("shop.price", lambda world: [p for p in _some(world) if not p.list_price])
def price(_: World, product: Product) -> SiteTask:
    """What a product costs."""
    name = short_name(product)
    intent = worded(product.id, f"What does the {name} cost?", f"Tell me the price of the {name}.")
    return _asked(product, intent, money(product.price))


@template("shop.saving", lambda world: [p for p in world[PRODUCTS] if p.list_price])
def saving(_: World, product: Product) -> SiteTask:
    """How much cheaper a product on sale has become."""
    name = short_name(product)
    intent = worded(
        product.id,
        f"The {name} is on sale. How much do I save against its regular price?",
        f"By how many dollars and cents has the {name} become cheaper?",
    )
    return _asked(product, intent, money(product.list_price - product.price))


def _with_unit(world: World) -> Sequence[tuple[Product, str, str]]:
    return [
        (product, label.lower(), value)
        for product in _some(world)
        for label, value in product.facts[2:3]
        if " " in value
    ]


@template("shop.fact", _with_unit)
def fact(_: World, asked: tuple[Product, str, str]) -> SiteTask:
    """What is listed under More Information."""
    product, label, value = asked
    name = short_name(product)
    intent = worded(
        product.id,
        f"What is given as the {label} of the {name}?",
        f"Look up the {label} of the {name}.",
    )
    return SiteTask(
        intent=f"{intent} Answer with the value and its unit alone, as the shop has them.",
        start=START,
        criteria=answered_exactly(value),
        plan=(*to_product(product), Answer(value)),
    )


@template("shop.sku", _some)
def sku(_: World, product: Product) -> SiteTask:
    """The number by which the shop knows a product."""
    return _asked(product, f"I need the SKU of the {short_name(product)}.", product.sku)


def _reviewed(world: World) -> Sequence[Product]:
    return [p for p in _some(world) if len(approved_reviews(world, p)) > _PIECE_COUNTS]


@template("shop.review_count", _reviewed)
def review_count(world: World, product: Product) -> SiteTask:
    """How much was written about a product."""
    count = str(len(approved_reviews(world, product)))
    name = short_name(product)
    return SiteTask(
        intent=f"How many reviews does the {name} have? Answer with the number alone.",
        start=START,
        criteria=answered_exactly(count),
        plan=(*to_product(product), Answer(count)),
    )


@template("shop.rating", _reviewed)
def rating(world: World, product: Product) -> SiteTask:
    """How a product is rated."""
    name = short_name(product)
    text = f"What is the overall rating of the {name}? Answer in percent, like 55%."
    return _asked(product, text, f"{stars_of(world, product)[0]}%")


def _starred(stars: int) -> Callable[[list[Review]], Sequence[Review]]:
    return lambda reviews: [review for review in reviews if review.stars == stars]


@template("shop.unhappy_reviewer", _with_reviews(_starred(1)))
def unhappy_reviewer(_: World, asked: tuple[Product, Review]) -> SiteTask:
    """Who gave the fewest stars."""
    product, review = asked
    intent = worded(
        product.id,
        f"Who gave the {short_name(product)} the lowest rating, 20%?",
        f"Name the reviewer who rated the {short_name(product)} with one star (20%) only.",
    )
    return _asked(product, intent, review.nickname)


@template("shop.praise", _with_reviews(_starred(5)))
def praise(_: World, asked: tuple[Product, Review]) -> SiteTask:
    """Under which title somebody gave all stars."""
    product, review = asked
    name = short_name(product)
    intent = f"What is the title of the review that gives the {name} 100%?"
    return _asked(product, intent, review.title)


def _latest(reviews: list[Review]) -> Sequence[Review]:
    return reviews[-1:]


@template("shop.latest_review", _with_reviews(_latest))
def latest_review(_: World, asked: tuple[Product, Review]) -> SiteTask:
    """When somebody wrote about a product last."""
    product, review = asked
    name = short_name(product)
    day = short_day(review.created)
    return SiteTask(
        intent=f"When was the newest review of the {name} posted? Write the date alone, as the "
        "shop does.",
        start=START,
        criteria=answered_exactly(day),
        plan=(*to_product(product), Answer(day)),
    )


def _mentioned(world: World) -> Sequence[tuple[Product, str, Review]]:
    """Return what just one shown review is disappointed with."""
    opening = "I am disappointed with the "
    found: list[tuple[Product, str, Review]] = []
    for product in world[PRODUCTS]:
        reviews = approved_reviews(world, product)
        for review in reviews:
            _, is_said, rest = review.text.partition(opening)
            aspect = rest.partition(".")[0]
            said = sum(f"the {aspect}" in other.text.lower() for other in reviews)
            if is_said and said == 1 and len(reviews) <= _MOST_SHOWN:
                found.append((product, aspect, review))
    return found


@template("shop.complaint", _mentioned)
def complaint(_: World, asked: tuple[Product, str, Review]) -> SiteTask:
    """Who complains about a part of a product."""
    product, aspect, review = asked
    name = short_name(product)
    intent = worded(
        product.id,
        f"Which reviewer of the {name} is disappointed with the {aspect}?",
        f"Find the person who complains about the {aspect} of the {name}.",
    )
    return _asked(product, intent, review.nickname)


@template("shop.price_of_model", _some)
def price_of_model(_: World, product: Product) -> SiteTask:
    """What a product costs; every second one was never made."""
    name, is_there = short_name(product), product.id // _STRIDE % 4 >= 2
    if not is_there:
        number = PRODUCTS_PER_KIND + 1 + product.id % (99 - PRODUCTS_PER_KIND)
        name = f"{name[:-2]}{number}"
    answer = money(product.price) if is_there else "N/A"
    return SiteTask(
        intent=f"How much is the {name}? Say N/A if the shop does not have just this model.",
        start=START,
        criteria=answered(answer) if is_there else unachievable(),
        plan=(search(name), Answer(answer)),
    )


TEMPLATES: Final = (
    price,
    saving,
    fact,
    sku,
    review_count,
    rating,
    unhappy_reviewer,
    praise,
    latest_review,
    complaint,
    price_of_model,
)
