"""Products, and the shop that holds them: look-up by id, search, price draws.

Contains what a product is and which of its texts are searched. A shop never changes once it is
built, so all episodes of a process share one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from env_servers.toolkit.retrieval.bm25 import Index

__all__ = ["PRICE_STEPS", "RESULT_LIMIT", "Product", "Shop", "draw_price", "searched_text"]

RESULT_LIMIT: Final = 50
"""Products that a search brings."""
PRICE_STEPS: Final = tuple(10.0 * step for step in range(1, 100))
"""The price limits that a goal may name, in dollars."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product as the shop shows it."""

    asin: str
    """Product id, ten characters."""
    title: str
    description: str
    bullets: tuple[str, ...]
    """The lines of the Features page."""
    prices: tuple[float, ...]
    """One price, or the ends of a range, in dollars."""
    price_tag: str
    options: Mapping[str, tuple[str, ...]]
    """Values by lower-case option name, in the order of the page."""
    attributes: tuple[str, ...]
    """Hidden facts that a reward compares."""
    category: str
    """Department."""
    query: str
    """What a customer who wants this kind of product types."""
    product_category: str
    """Path of categories, separated by `\u203a`."""
    instruction: str | None = None
    """The start of a synthetic goal for this product, where there is one."""
    instruction_attributes: tuple[str, ...] = ()
    image: str = ""


def searched_text(product: Product) -> str:
    """Return the text by which a product is found: title, description, first feature, options."""
    options = ", and ".join(
        f"{name}: {', '.join(values)}" for name, values in product.options.items()
    )
    first = product.bullets[0] if product.bullets else ""
    return f"{product.title} {product.description} {first} {options}"


def draw_price(product: Product, seed: int | None) -> float:
    """Return the price that counts when the product is bought, in dollars.

    The original draws it once per process, unseeded, where the tag shows a range. Here it depends
    on `seed` and the product alone; None gives the draw of the fixed profile.
    """
    if len(product.prices) == 1:
        return product.prices[0]
    salt = "fixed" if seed is None else str(seed)
    return random.Random(f"{salt}:{product.asin}").uniform(*product.prices[:2])


class Shop:
    """All products of one catalogue with the index over them."""

    def __init__(self, name: str, products: Sequence[Product], index: Index) -> None:
        """`index` numbers documents as `products` does, with their asins as ids."""
        self.name = name
        self.products = products
        self._index = index
        self.asins: Sequence[str] = index.ids
        """Product ids in the catalogue's order."""
        self._numbers = {asin: number for number, asin in enumerate(index.ids)}

    def __len__(self) -> int:
        return len(self.products)

    def find(self, asin: str) -> Product | None:
        """Return the product of an id."""
        number = self._numbers.get(asin)
        return None if number is None else self.products[number]

    def number(self, asin: str) -> int | None:
        """Return the place of a product in the catalogue."""
        return self._numbers.get(asin)

    def search(self, keywords: str) -> tuple[int, ...]:
        """Numbers of at most 50 products, best first."""
        return self._index.search(keywords, RESULT_LIMIT)

    @cached_property
    def by_category(self) -> Mapping[str, tuple[int, ...]]:
        """Numbers of all products of a department."""
        return _grouped([product.category for product in self.products])

    @cached_property
    def by_query(self) -> Mapping[str, tuple[int, ...]]:
        """Numbers of all products of a kind."""
        return _grouped([product.query for product in self.products])


def _grouped(keys: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    groups: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    return {key: tuple(numbers) for key, numbers in groups.items()}
