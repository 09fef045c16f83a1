"""Generates what the shop sells: categories, products, and what customers wrote about them.

`kinds.txt` says which kinds of goods there are, with their facts, options and prices, and with what
customers write about. A kind's products depend on its place in that file alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from importlib.resources import files
from typing import Final

from env_servers.environments.webarena.sites.formats import slug
from env_servers.environments.webarena.sites.people import FAMILY_NAMES, GIVEN_NAMES, nickname
from env_servers.environments.webarena.sites.shop.rows import Category, Product, Review
from env_servers.environments.webarena.sites.wordlists import entries, words
from env_servers.environments.webarena.sites.world import START

__all__ = ["Kind", "make_categories", "make_products", "make_reviews", "read_kinds"]

PRODUCTS_PER_KIND: Final = 48
_BRAND_STARTS: Final = words(
    "Al Bru Cal Dor El Fal Gar Hol Is Jul Kor Lan Mir Nor Ost Par Quin Rav Sil Tam Ul Vel Wes Zan"
)
_BRAND_ENDS: Final = words("by co dale den eto fern is lio mere nix ona per ra sen ta vo wick yx")
_STYLES: Final = words(
    "Basic Classic Compact Everyday Family Fine Heritage Light Modern Original Plus Premium Pro "
    "Pure Select Simple Slim Smart Studio Travel"
)
_OPENINGS: Final = entries(
    "A {noun} for people who want one that lasts.; The {style} series of {brand} is known for good "
    "value.; {brand} made this {noun} for daily use.; You will not need another {noun} for a long "
    "time.; A {noun} that does what it should, without any fuss."
)
_CLOSINGS: Final = entries(
    "Delivered with a short manual.; Two years of warranty.; Please check the measures before you "
    "order.; Ships within two days from our own warehouse.; Made with care for detail."
)
_GOOD: Final = entries(
    "The {aspect} is better than I expected.; I really like the {aspect}.; Great {aspect}, no "
    "complaints at all.; The {aspect} is still like new after {weeks} weeks.; My {person} was "
    "impressed by the {aspect}.; The {aspect} alone is worth the money."
)
_FAIR: Final = entries(
    "The {aspect} is all right for the price.; The {aspect} could be a little better.; Nothing "
    "special about the {aspect}.; It took me a while to get used to the {aspect}."
)
_BAD: Final = entries(
    "The {aspect} broke after {weeks} weeks.; I am disappointed with the {aspect}.; The {aspect} "
    "is much worse than the description says.; The {aspect} is too small for me.; The {aspect} was "
    "damaged when it arrived.; Be careful, the {aspect} is really poor."
)
_FACTS: Final = entries(
    "It is true that it has {name} {value}.; I chose it because of the {name}: {value}.; With "
    "{value} it is just right for us.; I compared several, and {value} was what I needed."
)
_GOOD_ENDS: Final = entries(
    "I would buy it again.; I recommend it to everybody.; Bought a second one for my {person}.; "
    "Five stars from me.; Arrived in {days} days."
)
_BAD_ENDS: Final = entries(
    "I sent it back.; I want my money back.; I would not buy it again.; Customer service never "
    "answered.; Save your money."
)
_TITLES: Final = {
    5: entries("Love it; Excellent; Just perfect; Very happy; Best purchase this year"),
    4: entries("Good, with small flaws; Good value; Solid; Nearly perfect; Quite happy"),
    3: entries("It is okay; Mixed feelings; Average; Does the job; Not bad, not great"),
    2: entries("Expected more; Disappointed; Not for me; Poor quality; Could be better"),
    1: entries("Waste of money; Do not buy; Terrible; Broken on arrival; Very disappointed"),
}
_PEOPLE: Final = words("wife husband son daughter mother father neighbor sister brother friend")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of goods, one line of `kinds.txt`."""

    path: tuple[str, str, str]
    noun: str
    low: int
    high: int
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    aspects: tuple[str, ...]


def read_kinds() -> tuple[Kind, ...]:
    """Return the kinds of goods in the order of their file."""
    lines = (
        files("env_servers.environments.webarena.sites.shop")
        .joinpath("kinds.txt")
        .read_text("utf-8")
        .splitlines()
    )
    return tuple(_read_kind(line) for line in lines if line and not line.startswith("#"))


def _read_kind(line: str) -> Kind:
    path, noun, prices, facts, options, aspects = (part.strip() for part in line.split("|"))
    top, middle, leaf = entries(path, ">")
    low, _, high = prices.partition("-")
    return Kind(
        (top, middle, leaf),
        noun,
        int(low),
        int(high),
        _read_values(facts),
        _read_values(options),
        entries(aspects),
    )


def _read_values(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    pairs = (part.partition(":") for part in entries(text))
    return tuple((name, entries(values, ",")) for name, _, values in pairs)


def make_categories(kinds: Sequence[Kind]) -> list[Category]:
    """Return all categories: the tops, what is below them, and the kinds, in this order."""
    paths: dict[tuple[str, ...], int] = {}
    for depth in (1, 2, 3):
        for kind in kinds:
            paths.setdefault(kind.path[:depth], len(paths) + 1)
    return [
        Category(number, path[-1], "/".join(slug(part) for part in path), paths.get(path[:-1], 0))
        for path, number in paths.items()
    ]


def make_products(kinds: Sequence[Kind], leaves: Sequence[int]) -> list[Product]:
    """Return all products; `leaves` has the category of each kind."""
    products: list[Product] = []
    for place, (kind, category) in enumerate(zip(kinds, leaves, strict=True)):
        draw = random.Random(f"products of kind {place}")
        starts, ends = draw.sample(_BRAND_STARTS, 6), draw.sample(_BRAND_ENDS, 6)
        brands = [start + end for start, end in zip(starts, ends, strict=True)]
        for place_in_kind in range(PRODUCTS_PER_KIND):
            number = len(products) + 1
            products.append(_product(draw, kind, category, number, brands, place_in_kind))
    return products


def _product(
    draw: random.Random, kind: Kind, category: int, number: int, brands: list[str], place: int
) -> Product:
    brand, style = draw.choice(brands), draw.choice(_STYLES)
    facts = tuple((name, draw.choice(values)) for name, values in kind.facts)
    model = f"{brand[0]}{slug(kind.path[2])[0].upper()}{place + 1:02d}"
    noun = kind.noun[kind.noun.find(" of ") + 4 :] if " of " in kind.noun else kind.noun
    title = " ".join(word if word[0].isupper() else word.capitalize() for word in noun.split())
    detail = ", ".join(value for _, value in facts)
    name = f"{brand} {style} {title} {model}, {detail}"
    span = kind.high - kind.low
    price = int((kind.low + span * draw.random() ** 2) * 100)
    price = price // 100 * 100 + draw.choice((0, 49, 50, 95, 99, 99, 99))
    sale = draw.random() < 0.12
    description = " ".join(
        (
            draw.choice(_OPENINGS).format(noun=kind.noun, brand=brand, style=style),
            *(f"{fact}: {value}." for fact, value in facts),
            f"Look at the {draw.choice(kind.aspects)}: we have made it anew.",
            draw.choice(_CLOSINGS),
        )
    )
    return Product(
        number,
        f"B{draw.randrange(10**4):04d}{number:05d}",
        name,
        slug(name),
        brand,
        category,
        price,
        price * draw.choice((115, 125, 140)) // 100 if sale else 0,
        kind.options if draw.random() < 0.7 else (),
        (("Brand", brand), ("Model", model), *facts),
        description,
        draw.choice((0, 3, 7, 10, 12, 25, 40, 60, 85, 100, 140, 200)),
        True,
        date(2022, 1, 1) + timedelta(days=draw.randrange(1200)),
    )


def make_reviews(kinds: Sequence[Kind], products: Sequence[Product]) -> list[Review]:
    """Return what customers wrote, in the order in which they did."""
    drafts: list[tuple[datetime, Product, Kind, random.Random]] = []
    for product in products:
        kind = kinds[(product.id - 1) // PRODUCTS_PER_KIND]
        draw = random.Random(f"reviews of product {product.id}")
        for _ in range(draw.choice((0, 1, 2, 2, 3, 3, 4, 5, 6, 8, 12))):
            age = timedelta(seconds=draw.randrange(3600, 720 * 86400))
            drafts.append((START - age, product, kind, draw))
    drafts.sort(key=lambda draft: (draft[0], draft[1].id))
    return [
        _review(number, time, product, kind, draw)
        for number, (time, product, kind, draw) in enumerate(drafts, 1)
    ]


def _review(
    number: int, time: datetime, product: Product, kind: Kind, draw: random.Random
) -> Review:
    # Products differ in how well they are liked.
    liked = (product.id * 7919 % 100) / 100
    weights = (1 + 4 * (1 - liked), 1 + 2 * (1 - liked), 2, 2 + 4 * liked, 1 + 9 * liked)
    (stars,) = draw.choices((1, 2, 3, 4, 5), weights)
    nick = nickname(draw.randrange(2600))
    if draw.random() < 0.6:
        nick = f"{draw.choice(GIVEN_NAMES)} {draw.choice(FAMILY_NAMES)}"
    is_recent = (START - time).days < 14
    status = draw.choice(("pending", "approved", "pending")) if is_recent else "approved"
    if draw.random() < 0.01:
        status = "rejected"
    text = " ".join(_sentences(product, kind, stars, draw))
    return Review(
        number, product.id, 0, nick, draw.choice(_TITLES[stars]), text, stars, time, status
    )


def _sentences(product: Product, kind: Kind, stars: int, draw: random.Random) -> Iterator[str]:
    first, second, third = draw.sample(kind.aspects, 3)
    pools = {5: (_GOOD, _GOOD), 4: (_GOOD, _FAIR), 3: (_FAIR, _FAIR), 2: (_BAD, _FAIR)}
    for aspect, pool in zip((first, second), pools.get(stars, (_BAD, _BAD)), strict=True):
        yield _sentence(draw, pool, aspect)
    if draw.random() < 0.3:
        name, value = draw.choice(product.facts[2:])
        yield draw.choice(_FACTS).format(name=name.lower(), value=value)
    if draw.random() < 0.2:
        yield _sentence(draw, _FAIR if stars > 2 else _BAD, third)
    if draw.random() < 0.5:
        yield _sentence(draw, _GOOD_ENDS if stars > 3 else _BAD_ENDS if stars < 3 else _FAIR, third)


def _sentence(draw: random.Random, pool: Sequence[str], aspect: str) -> str:
    return draw.choice(pool).format(
        aspect=aspect,
        weeks=draw.randrange(2, 20),
        days=draw.randrange(2, 9),
        person=draw.choice(_PEOPLE),
    )
