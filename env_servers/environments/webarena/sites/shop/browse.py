"""The shop's shelves: front page, categories, search, products with their reviews."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.shop.frame import SHOP, customer_of, stars_of
from env_servers.environments.webarena.sites.shop.rows import (
    CATEGORIES,
    PAGES,
    PRODUCTS,
    REVIEWS,
    Category,
    Product,
    Review,
)
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__: list[str] = []

PER_PAGE: Final = ("12", "24", "36")
ORDERS: Final = (("position", "Position"), ("name", "Product Name"), ("price", "Price"))
_BAND: Final = re.compile("([0-9]{0,7})-([0-9]{0,7})")
BANDS: Final = (0, 25, 50, 100, 200, 10_000)
"""Limits of the prices that a list can be narrowed to, in dollars."""
REVIEWS_PER_PAGE: Final = 10


@SHOP.page("/")
def front(visit: Visit) -> Response:
    """Show some products of the newest ones."""
    products = sorted(_enabled(visit.world[PRODUCTS]), key=lambda p: (p.created, p.id))[-12:]
    return visit.render("front.html", products=_cards(visit.world, products[::-1]))


@SHOP.page("/catalogsearch/result", "/catalogsearch/result/index")
def results(visit: Visit) -> Response:
    """Show what a search finds."""
    text = visit.query.text("q")
    found = _enabled(visit.world[PRODUCTS].search(text)) if text else []
    return _listing(visit, found, f"Search results for: '{text}'", [], [])


@SHOP.page("/catalogsearch/advanced")
def advanced(visit: Visit) -> Response:
    """Show the form of the advanced search."""
    return visit.render("advanced.html")


@SHOP.page("/catalogsearch/advanced/result")
def advanced_results(visit: Visit) -> Response:
    """Show the products that fulfil everything that was filled in."""
    query, found = visit.query, _enabled(visit.world[PRODUCTS])
    for field in ("name", "sku", "description"):
        wanted = query.text(field).lower()
        if wanted:
            found = [p for p in found if wanted in getattr(p, field).lower()]
    low, high = query.cents("price[from]"), query.cents("price[to]")
    found = [p for p in found if (low or 0) <= p.price <= (high if high is not None else 10**9)]
    return _listing(visit, found, "Catalog Advanced Search", [], [])


def _enabled(products: Iterable[Product]) -> list[Product]:
    return [product for product in products if product.enabled]


def _listing(
    visit: Visit,
    products: list[Product],
    title: str,
    trail: Sequence[Category],
    below: Sequence[Category],
) -> Response:
    query = visit.query
    products = _within_price(products, query.text("price"))
    bands = [
        (f"{a}-{b}", a, b, sum(a * 100 <= p.price < b * 100 for p in products))
        for a, b in zip(BANDS, BANDS[1:], strict=False)
    ]
    order = query.choice("product_list_order", [name for name, _ in ORDERS], "position")
    falls = query.text("product_list_dir") == "desc"
    if order != "position":
        products = sorted(products, key=lambda p: (getattr(p, order), p.id), reverse=falls)
    elif falls:
        products = products[::-1]
    size = int(query.choice("product_list_limit", PER_PAGE, "12"))
    page = cut(products, query.number("p", 1), size)
    return visit.render(
        "listing.html",
        title=title,
        trail=trail,
        below=below,
        page=page,
        cards=_cards(visit.world, page.items),
        bands=[band for band in bands if band[3]],
        order=order,
        orders=ORDERS,
        falls=falls,
        size=size,
        sizes=PER_PAGE,
    )


def _within_price(products: list[Product], band: str) -> list[Product]:
    """Return the products of a band of prices in dollars, `25-50`, `-25`, `50-`."""
    found = _BAND.fullmatch(band)
    if found is None:
        return products
    low = int(found[1] or 0) * 100
    high = int(found[2]) * 100 if found[2] else 10**12
    return [product for product in products if low <= product.price < high]


def _cards(world: World, products: Sequence[Product]) -> list[tuple[Product, tuple[int, int]]]:
    return [(product, stars_of(world, product)) for product in products]


@SHOP.page("/{path:path}.html")
def shelf_or_product(visit: Visit) -> Response:
    """Show a category or a product: both have addresses of the same kind."""
    path: str = visit.parameters["path"]
    category = next(iter(visit.world[CATEGORIES].where(path=path)), None)
    if category is not None:
        return _category(visit, category)
    product = next(iter(visit.world[PRODUCTS].where(slug=path.rpartition("/")[2])), None)
    if product is None or not product.enabled:
        raise Missing
    return _product(visit, product)


def _category(visit: Visit, category: Category) -> Response:
    categories = visit.world[CATEGORIES]
    leaves, below = [category.id], categories.where(parent=category.id)
    if below:
        leaves = [c.id for child in below for c in (child, *categories.where(parent=child.id))]
    products = [p for leaf in leaves for p in _enabled(visit.world[PRODUCTS].where(category=leaf))]
    trail = _trail(visit.world, category)
    return _listing(visit, products, category.name, trail[:-1], below)


def _trail(world: World, category: Category | None) -> list[Category]:
    """Return the categories above one, from the top, with itself."""
    trail: list[Category] = []
    while category is not None:
        trail.insert(0, category)
        category = world[CATEGORIES].get(category.parent)
    return trail


def _product(visit: Visit, product: Product) -> Response:
    world, customer = visit.world, customer_of(visit)
    shown = [r for r in world[REVIEWS].where(product=product.id) if r.status == "approved"]
    shown.sort(key=lambda review: (review.created, review.id), reverse=True)
    like = [p for p in world[PRODUCTS].where(category=product.category) if p.id != product.id]
    start = product.id % max(1, len(like) - 4)
    return visit.render(
        "product.html",
        product=product,
        rated=stars_of(world, product),
        reviews=cut(shown, visit.query.number("reviews", 1), REVIEWS_PER_PAGE),
        trail=_trail(world, world[CATEGORIES].get(product.category)),
        like=like[start : start + 4],
        nickname=customer.first_name if customer is not None else "",
    )


@SHOP.form("/review/product/post/id/{id:int}", signed_in=False)
def post_review(visit: Visit) -> Response:
    """Take a review, which waits until the administration approves it."""
    product = visit.world[PRODUCTS].get(visit.parameters["id"])
    if product is None:
        raise Missing
    form, path = visit.form, f"/{product.slug}.html"
    nick, title, text = form.text("nickname"), form.text("title"), form.text("detail")
    stars = form.number("ratings", 0)
    if not (nick and title and text and 1 <= stars <= 5):
        return visit.redirect(
            path, "Please fill in rating, nickname, summary and review.", failed=True
        )
    reviews = visit.world[REVIEWS]
    reviews.put(
        Review(
            reviews.next_id,
            product.id,
            int(visit.account or 0),
            nick,
            title,
            text,
            stars,
            visit.world.now,
            "pending",
        )
    )
    return visit.redirect(path, "You submitted your review for moderation.")


@SHOP.page("/{path}")
def text_page(visit: Visit) -> Response:
    """Show a page of text, for example the privacy policy."""
    pages = visit.world[PAGES].where(path=visit.parameters["path"])
    if not pages or not pages[0].enabled:
        raise Missing
    return visit.render("text.html", page=pages[0], path=quote(visit.path))
