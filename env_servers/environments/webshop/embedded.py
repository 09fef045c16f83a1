"""The embedded catalogue: 12,200 generated products of 61 kinds, with one goal each.

Contains the generator. `product_types.txt` says what goods are called, and which properties,
options and prices they have. A product depends on its number and on that file alone, so the
catalogue is the same on every machine; a goal belongs to `train` or `eval` by a hash of its words,
so no sentence is in both.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

from env_servers.environments.webshop.catalogue import Product, Shop, searched_text
from env_servers.environments.webshop.goals import CHOICES, Goal, Goals
from env_servers.toolkit.retrieval.bm25 import IndexWriter

__all__ = [
    "PRODUCTS_PER_KIND",
    "EmbeddedGoals",
    "ProductType",
    "divide_goals",
    "load_embedded_shop",
    "make_product",
    "product_types_text",
    "read_product_types",
]

SHOP_NAME: Final = "embedded"
PRODUCTS_PER_KIND: Final = 200
EVAL_SHARE: Final = 12
"""One goal in so many is held out."""
RANGE_SHARE: Final = 0.08
"""Share of products whose tag shows a price range."""

_BRAND_STARTS: Final = (
    "Al Bel Cor Dal El Fen Gor Hal Is Jor Kel Lum Mar Nor Or Pel Quil Ros Sol Tor Ul Ver Wil Yar "
    "Zen"
)
_BRAND_ENDS: Final = (
    "avia bright crest dora elle field gate haven ica joy kraft lina mont nova ora port quest ria "
    "stone tino una vale wood ya zo"
)
_STARTS, _ENDS = _BRAND_STARTS.split(), _BRAND_ENDS.split()
_TITLES: Final = (
    "{brand} {style} {head}, {first}, {second}{purpose}",
    "{brand} {head} {style} Design with {second}{purpose}, {first}",
    "{first} {head} by {brand}, {style}, {second}{purpose}",
    "{brand} {style} {head}{purpose} - {first}, {second}",
)
_OPENINGS: Final = (
    "The {head} by {brand} was made for people who want something {style} that lasts.",
    "{brand} brings you a {style} {head} at a fair price.",
    "Looking for {query}? This {style} {head} is one of our most asked for.",
    "A {style} {head} that fits into any day, designed by {brand}.",
)
_ABOUT_IS: Final = (
    "It is {fact}.",
    "Every piece is {fact}, as our customers asked for.",
    "Tested to be {fact}.",
)
_ABOUT_HAS: Final = (
    "Comes with {fact}.",
    "Thanks to {fact}, it does its work every time.",
    "You will notice the {fact} at once.",
)
_ABOUT_FOR: Final = ("Great for {fact}.", "Many use it for {fact}.", "A good choice for {fact}.")
_CLOSINGS: Final = (
    "Write to {brand} with any question, and we answer within two days.",
    "Please check the measures before you order.",
    "Packed with care and shipped from our own warehouse.",
    "Colors may look a little different on your screen.",
)


@dataclass(frozen=True, slots=True)
class ProductType:
    """One kind of goods."""

    department: str
    query: str
    path: str
    heads: tuple[str, ...]
    styles: tuple[str, ...]
    qualities: tuple[tuple[str, ...], ...]
    """Properties that stand before the noun, in groups of which one is chosen."""
    parts: tuple[tuple[str, ...], ...]
    """Properties that are said with "with", in such groups."""
    purposes: tuple[tuple[str, ...], ...]
    options: Mapping[str, tuple[str, ...]]
    prices: tuple[float, float]


def product_types_text() -> str:
    """Return the file that the catalogue is made of."""
    return (
        files("env_servers.environments.webshop")
        .joinpath("product_types.txt")
        .read_text(encoding="utf-8")
    )


def read_product_types(text: str) -> list[ProductType]:
    """Return the kinds of goods in `product_types.txt`; its head says how it is written."""
    lists: dict[str, tuple[str, ...]] = {}
    product_types: list[ProductType] = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        for line in lines:
            if line.startswith("@"):
                name, _, values = line.partition(": ")
                lists[name] = _listed(values)
        rest = [line for line in lines if not line.startswith("@")]
        if rest:
            product_types.append(_product_type(rest, lists))
    return product_types


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _grouped(facts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(fact.split("/")) for fact in facts)


def _product_type(lines: Sequence[str], lists: Mapping[str, tuple[str, ...]]) -> ProductType:
    department, query, path = (part.strip() for part in lines[0].split(" | "))
    fields: dict[str, list[str]] = {}
    name = ""
    for part in "; ".join(lines[1:]).split("; "):
        key, equals, value = part.partition("=")
        if equals:
            fields[key] = list(lists[value])
            continue
        key, colon, value = part.partition(": ")
        if colon:
            name, part = key, value
        fields.setdefault(name, []).append(part)
    lists_read = {key: tuple(fields.pop(key)) for key in ("heads", "styles", "is", "has", "for")}
    low, high = fields.pop("price")[0].split("-")
    return ProductType(
        department=department,
        query=query,
        path=path,
        heads=lists_read["heads"],
        styles=lists_read["styles"],
        qualities=_grouped(lists_read["is"]),
        parts=_grouped(lists_read["has"]),
        purposes=_grouped(lists_read["for"]),
        options={key: tuple(values) for key, values in fields.items()},
        prices=(float(low), float(high)),
    )


@lru_cache(maxsize=1)
def load_embedded_shop() -> Shop:
    """The shop of the embedded catalogue, one per process; making it takes about a second."""
    products: list[Product] = []
    writer = IndexWriter()
    for index, product_type in enumerate(read_product_types(product_types_text())):
        for nth in range(PRODUCTS_PER_KIND):
            product = make_product(product_type, index * PRODUCTS_PER_KIND + nth)
            products.append(product)
            writer.add(product.asin, searched_text(product))
    return Shop(SHOP_NAME, products, writer.finish())


def make_product(product_type: ProductType, number: int) -> Product:
    """Product `number` of the catalogue, which is of the kind `product_type`."""
    rng = random.Random(number * 2_654_435_761 % 2**32)
    qualities = _facts(product_type.qualities, rng.randint(1, 3), rng)
    parts = _facts(product_type.parts, rng.randint(1, 3), rng)
    purposes = _facts(product_type.purposes, rng.randint(0, 2), rng)
    words = {
        "brand": rng.choice(_STARTS) + rng.choice(_ENDS),
        "head": rng.choice(product_type.heads),
        "style": rng.choice(product_type.styles),
        "query": product_type.query,
    }
    prices, tag = _prices(product_type, rng)
    bullets = [rng.choice(_ABOUT_HAS).format(fact=fact) for fact in parts]
    bullets += [rng.choice(_ABOUT_FOR).format(fact=fact) for fact in purposes]
    rng.shuffle(bullets)
    sentences = [rng.choice(_OPENINGS)]
    sentences += [rng.choice(_ABOUT_IS).format(fact=fact) for fact in qualities]
    sentences.append(rng.choice(_CLOSINGS))
    goal_facts = _wanted(qualities, parts, purposes, rng)
    return Product(
        asin=_asin(number),
        title=_title(words, qualities, parts, purposes, rng),
        description=" ".join(sentences).format_map(words),
        bullets=tuple(bullets),
        prices=prices,
        price_tag=tag,
        options=_options(product_type, rng),
        attributes=(*qualities, *parts, *purposes),
        category=product_type.department,
        query=product_type.query,
        product_category=product_type.path,
        instruction=_instruction(product_type.query, *goal_facts),
        instruction_attributes=tuple(fact for facts in goal_facts for fact in facts),
    )


def _facts(groups: Sequence[Sequence[str]], count: int, rng: random.Random) -> list[str]:
    """Return one fact of each of `count` groups."""
    return [rng.choice(group) for group in rng.sample(groups, count)]


def _asin(number: int) -> str:
    """Ten characters that no real shop uses; different for every number below 36^7."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    rest = (number * 1_000_003 + 12_345) % 36**7
    written = ""
    for _ in range(7):
        rest, digit = divmod(rest, 36)
        written = digits[digit] + written
    return "EMB" + written


def _prices(product_type: ProductType, rng: random.Random) -> tuple[tuple[float, ...], str]:
    """Cheap products are more frequent than dear ones."""
    low, high = product_type.prices
    price = int(low + (high - low) * rng.random() ** 2) + rng.choice((0.0, 0.49, 0.95, 0.99))
    if rng.random() < RANGE_SHARE:
        dearest = round(price * (1.1 + 0.4 * rng.random()), 2)
        return (price, dearest), f"${price} to ${dearest}"
    return (price,), f"${price}"


def _title(
    words: Mapping[str, str],
    qualities: Sequence[str],
    parts: Sequence[str],
    purposes: Sequence[str],
    rng: random.Random,
) -> str:
    shown = {key: _capitals(word) for key, word in words.items()}
    purpose = f" for {_capitals(purposes[0])}" if purposes and rng.random() < 0.6 else ""
    return rng.choice(_TITLES).format(
        first=_capitals(qualities[0]), second=_capitals(parts[0]), purpose=purpose, **shown
    )


def _capitals(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split())


def _options(product_type: ProductType, rng: random.Random) -> dict[str, tuple[str, ...]]:
    """Some values of every option, in the order of the list; one option may be missing."""
    names = list(product_type.options)
    if len(names) > 1 and rng.random() < 0.15:
        names.remove(rng.choice(names))
    options: dict[str, tuple[str, ...]] = {}
    for name in names:
        values = product_type.options[name]
        count = rng.randint(min(2, len(values)), min(8, len(values)))
        indexes = sorted(rng.sample(range(len(values)), count))
        options[name] = tuple(values[index] for index in indexes)
    return options


def _wanted(
    qualities: Sequence[str], parts: Sequence[str], purposes: Sequence[str], rng: random.Random
) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Return the properties that a goal asks for, by their place in its sentence."""
    return (
        qualities[: rng.randint(1, 2)],
        parts[: rng.randint(1, 2)],
        purposes[: rng.randint(0, 1)],
    )


def _instruction(
    query: str, qualities: Sequence[str], parts: Sequence[str], purposes: Sequence[str]
) -> str:
    """Return a goal's sentence in the form of the original's synthetic goals."""
    purpose = f" for {', '.join(purposes)}" if purposes else ""
    return f"Find me {', '.join(qualities)} {query} with {', '.join(parts)}{purpose}"


class EmbeddedGoals(Goals):
    """One goal for every product: its properties, one value of each option, a price limit."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def __len__(self) -> int:
        return len(self._shop)

    def __getitem__(self, index: int) -> Goal:
        product = self._shop.products[index]
        rng = random.Random(index * 40_503 + 977)
        options = tuple((name, rng.choice(product.options[name])) for name in product.options)
        spoken = ", and ".join(f"{name}: {value}" for name, value in options)
        return Goal(
            number=index,
            instruction=f"{product.instruction} with {spoken}",
            attributes=product.instruction_attributes,
            options=options,
            step=max(rng.sample(range(CHOICES), 2)),
        )


def divide_goals(goals: Goals) -> tuple[list[int], list[int]]:
    """Indexes of train and of eval goals; equal sentences are on the same side."""
    train: list[int] = []
    held_out: list[int] = []
    for index in range(len(goals)):
        digest = hashlib.blake2b(goals[index].instruction.encode(), digest_size=4).digest()
        side = held_out if int.from_bytes(digest, "big") % EVAL_SHARE == 0 else train
        side.append(index)
    return train, held_out
