"""The shop's pages: what they show as text, and what can be clicked on them.

Contains the text of every page as WebShop's `text` observation has it: the visible strings of its
HTML in order, joined by ` [SEP] `. A page depends on its arguments alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from env_servers.environments.webshop.catalogue import Product

__all__ = [
    "BACK",
    "BUTTON",
    "BUY",
    "LINK",
    "NEXT",
    "PAGE_SIZE",
    "PREVIOUS",
    "SUB_PAGES",
    "Kind",
    "Page",
    "done_page",
    "item_page",
    "results_page",
    "search_page",
    "sub_page",
]

SEPARATOR: Final = " [SEP] "
PAGE_SIZE: Final = 10
"""Products on a result page."""
BACK: Final = "back to search"
PREVIOUS: Final = "< prev"
NEXT: Final = "next >"
BUY: Final = "buy now"
SEARCH: Final = "search"
BUTTON: Final = "btn"
"""Marks a clickable that is named by its text."""
LINK: Final = "product-link"
"""Marks a clickable that opens a product."""
SUB_PAGES: Final = ("description", "features", "reviews")

_TITLE: Final = "WebShop"
_JSON_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"}
)


class Kind(Enum):
    """Which page it is."""

    SEARCH = "search"
    """The start: an instruction and a search bar."""
    RESULTS = "search_results"
    """Ten products found."""
    ITEM = "item_page"
    """One product with its options."""
    SUB = "item_sub_page"
    """A product's description, features or reviews."""
    DONE = "done"
    """After buying."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    kind: Kind
    parts: tuple[str, ...]
    """The visible strings in order."""
    clickables: Mapping[str, str]
    """What can be clicked, lower-case, in order: BUTTON, LINK, or the name of an option."""

    @property
    def text(self) -> str:
        """The observation."""
        return SEPARATOR.join(self.parts)

    @property
    def has_search_bar(self) -> bool:
        return self.kind is Kind.SEARCH


def search_page(instruction: str) -> Page:
    """Return the start page."""
    parts = (_TITLE, "Instruction:", *_node(instruction), "Search")
    return Page(Kind.SEARCH, parts, {SEARCH: BUTTON})


def results_page(instruction: str, products: Sequence[Product], number: int, total: int) -> Page:
    """Result page `number`, from 1; `products` are those of the page, `total` counts all found."""
    parts = [
        "Instruction:",
        *_node(instruction),
        "Back to Search",
        f"Page {number} (Total results: {total})",
    ]
    clickables = {BACK: BUTTON}
    if number > 1:
        parts.append("< Prev")
        clickables[PREVIOUS] = BUTTON
    # The original offers the next page even after the last.
    parts.append("Next >")
    clickables[NEXT] = BUTTON
    for product in products:
        parts += (*_node(product.asin), *_node(product.title), *_node(product.price_tag))
        clickables[product.asin.lower()] = LINK
    return Page(Kind.RESULTS, tuple(parts), clickables)


def item_page(instruction: str, product: Product) -> Page:
    """Return a product's page; it does not show which options are chosen."""
    parts = ["Instruction:", *_node(instruction), "Back to Search", "< Prev"]
    buttons: tuple[str, ...] = (BACK, PREVIOUS, *SUB_PAGES, BUY)
    clickables: dict[str, str] = dict.fromkeys(buttons, BUTTON)
    for name, values in product.options.items():
        parts += _node(name)
        for value in values:
            parts += _node(value)
            clickables[value] = name
    parts += (
        *_node(product.title),
        f"Price: {product.price_tag}",
        "Rating: N.A.",
        "Description",
        "Features",
        "Reviews",
        "Buy Now",
    )
    return Page(Kind.ITEM, tuple(parts), clickables)


def sub_page(instruction: str, product: Product, which: str) -> Page:
    """Return the page `which` of SUB_PAGES; no product has reviews."""
    parts = ["Instruction:", *_node(instruction), "Back to Search", "< Prev"]
    if which == "description":
        parts += _node(product.description)
    elif which == "features":
        for bullet in product.bullets:
            parts += _node(f" {bullet}")
    return Page(Kind.SUB, tuple(parts), {BACK: BUTTON, PREVIOUS: BUTTON})


def done_page(asin: str, chosen: Mapping[str, str], reward: float) -> Page:
    """Return the last page; most of its fields are empty in the original, too."""
    parts = (
        *("Thank you for shopping with us!", "Your code:", "None"),
        *("(Paste it in your MTurk interface.)", "Purchased", "asin", asin, "options"),
        json.dumps(chosen, sort_keys=True).translate(_JSON_ESCAPES),
        *("attrs", "None", "category", "None", "query", "None", "product category", "None"),
        *("Target", "asin", "options", "attrs", "price upper", "instuction text", "category"),
        *("product category", "query", "Goal", "None", "Reward"),
        *("Your score (min 0.0, max 1.0)", str(reward), "Reward Details", "None"),
    )
    return Page(Kind.DONE, parts, {})


def _node(text: str) -> tuple[str, ...]:
    """Return a text as the original's HTML parser yields it.

    Nothing for an empty text or for blanks with a line break, an empty string for other blanks.
    """
    stripped = text.strip()
    if stripped:
        return (stripped,)
    return ("",) if text and "\n" not in text else ()
