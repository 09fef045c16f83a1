"""Templates of the shop: finding one's way through categories, lists and prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.environments.webarena.sites.formats import money
from env_servers.environments.webarena.sites.shop.rows import (
    CATEGORIES,
    PRODUCTS,
    TERMS,
    Category,
    Product,
    SearchTerm,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.shop_moves import (
    SERVED,
    START,
    leaves,
    search,
    to_shelf,
)
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    at_page,
    worded,
)
from env_servers.environments.webarena.templates.template import template

__all__ = ["TEMPLATES"]

_BANDS: Final = ((25, 50), (50, 100))
_Banded = tuple[Category, int, int, int]
"""A category, a band of prices in dollars, and how many of its products are in it."""


def _shown(category: Category) -> str:
    return f"{category.name} ({category.path.split('/')[0].replace('-', ' ')})"


def _sorted_by(field: str, direction: str) -> tuple[Move, ...]:
    return (
        TypeInto("combobox", "Sort By", field),
        TypeInto("combobox", "Direction", direction),
        ClickOn("button", "Apply"),
    )


def _goods(world: World, category: Category) -> list[Product]:
    """Return the products of a category, the cheapest first."""
    return sorted(world[PRODUCTS].where(category=category.id), key=lambda p: (p.price, p.id))


def _banded(world: World) -> Sequence[_Banded]:
    found: list[_Banded] = []
    for category in leaves(world):
        for low, high in _BANDS:
            goods = _goods(world, category)
            count = sum(low * 100 <= product.price < high * 100 for product in goods)
            if count:
                found.append((category, low, high, count))
    return found


def _band_link(banded: _Banded) -> Move:
    _, low, high, count = banded
    items = "item" if count == 1 else "items"
    return ClickOn("link", f"${low}.00 - ${high - 1}.99 {count} {items}")


@template("shop.open_category", lambda world: [*world[CATEGORIES]][12:])
def open_category(world: World, category: Category) -> SiteTask:
    """A shelf to be looked at."""
    name = _shown(category)
    return SiteTask(
        intent=worded(
            category.id, f"Take me to the category {name}.", f"Show what there is in {name}."
        ),
        start=START,
        criteria=at_page(f"{SERVED}/{category.path}.html"),
        plan=(*to_shelf(world, category), Answer()),
    )


@template("shop.sorted_by_price", leaves)
def sorted_by_price(world: World, category: Category) -> SiteTask:
    """A shelf with the dearest goods first."""
    query = "product_list_order=price&product_list_dir=desc"
    return SiteTask(
        intent=f"List the {category.name} of the shop by price, the most expensive ones first.",
        start=START,
        criteria=at_page(f"{SERVED}/{category.path}.html?{query}"),
        plan=(*to_shelf(world, category), *_sorted_by("Price", "Descending"), Answer()),
    )


@template("shop.sorted_by_name", leaves)
def sorted_by_name(world: World, category: Category) -> SiteTask:
    """A shelf in the order of the alphabet, with many goods on a page."""
    query = "product_list_order=name&product_list_limit=36"
    plan = (
        *to_shelf(world, category),
        TypeInto("combobox", "Sort By", "Product Name"),
        TypeInto("combobox", "Show", "36"),
        ClickOn("button", "Apply"),
        Answer(),
    )
    return SiteTask(
        intent=f"Sort the {category.name} by product name and show 36 of them per page.",
        start=START,
        criteria=at_page(f"{SERVED}/{category.path}.html?{query}"),
        plan=plan,
    )


@template("shop.search", lambda world: [*world[TERMS]])
def search_for(_: World, term: SearchTerm) -> SiteTask:
    """A search to be made."""
    return SiteTask(
        intent=worded(
            term.id,
            f'Search the shop for "{term.text}".',
            f'Show me what the shop finds for "{term.text}".',
        ),
        start=START,
        criteria=at_page(f"{SERVED}/catalogsearch/result/?q={term.text.replace(' ', '+')}"),
        plan=(search(term.text), Answer()),
    )


@template("shop.price_band", _banded)
def price_band(world: World, banded: _Banded) -> SiteTask:
    """A shelf narrowed to a band of prices."""
    category, low, high, _ = banded
    text = f"Narrow the {category.name} down to those between ${low} and ${high - 1}.99."
    return SiteTask(
        intent=text,
        start=START,
        criteria=at_page(f"{SERVED}/{category.path}.html?price={low}-{high}"),
        plan=(*to_shelf(world, category), _band_link(banded), Answer()),
    )


@template("shop.price_band_count", _banded)
def price_band_count(world: World, banded: _Banded) -> SiteTask:
    """How many products of a shelf are in a band of prices."""
    category, low, high, count = banded
    return SiteTask(
        intent=f"How many of the shop's {category.name} cost from ${low}.00 to ${high - 1}.99? "
        "Answer with the number alone.",
        start=START,
        criteria=answered_exactly(str(count)),
        plan=(*to_shelf(world, category), Answer(str(count))),
    )


@template("shop.price_range", leaves)
def price_range(world: World, category: Category) -> SiteTask:
    """From what to what a shelf's goods cost."""
    goods = _goods(world, category)
    low, high = money(goods[0].price), money(goods[-1].price)
    plan = (
        *to_shelf(world, category),
        *_sorted_by("Price", "Ascending"),
        ClickOn("link", "Set Descending Direction"),
        Answer(f"{low} to {high}"),
    )
    return SiteTask(
        intent=worded(
            category.id,
            f"What is the price range of the {category.name}?",
            f"Between which prices are the {category.name} that the shop sells?",
        ),
        start=START,
        criteria=answered(low, high),
        plan=plan,
    )


def _with_dearest(world: World) -> Sequence[Category]:
    """Return the categories in which one product costs more than all others."""
    found = leaves(world)
    return [c for c in found if len({p.price for p in _goods(world, c)[-2:]}) == 2]


@template("shop.dearest", _with_dearest)
def dearest(world: World, category: Category) -> SiteTask:
    """The page of the most expensive product of a shelf."""
    product = _goods(world, category)[-1]
    plan = (
        *to_shelf(world, category),
        *_sorted_by("Price", "Descending"),
        ClickOn("link", product.name),
        Answer(),
    )
    return SiteTask(
        intent=f"Open the page of the most expensive product among the {category.name}.",
        start=START,
        criteria=at_page(f"{SERVED}/{product.slug}.html"),
        plan=plan,
    )


@template("shop.by_sku", lambda world: [p for p in world[PRODUCTS] if p.id % 9 == 0])
def by_sku(_: World, product: Product) -> SiteTask:
    """The page of a product of which the number is known."""
    plan = (
        ClickOn("link", "Advanced Search"),
        TypeInto("textbox", "SKU", product.sku, enter=True),
        ClickOn("link", product.name),
        Answer(),
    )
    return SiteTask(
        intent=f"Which product has the SKU {product.sku}? Open its page.",
        start=START,
        criteria=at_page(f"{SERVED}/{product.slug}.html"),
        plan=plan,
    )


TEMPLATES: Final = (
    open_category,
    sorted_by_price,
    sorted_by_name,
    search_for,
    price_band,
    price_band_count,
    price_range,
    dearest,
    by_sku,
)
