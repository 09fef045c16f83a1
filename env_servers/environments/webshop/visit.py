"""One customer's visit to the shop: which page is open, what was chosen, what a click does.

Contains the moves between pages, in the original's order of cases, and the purchase. A move that is
not possible changes nothing. It knows a shop, a goal and prices, but no item id, no action format
and no observation beyond its page.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from env_servers.environments.webshop.catalogue import RESULT_LIMIT, Product, Shop, draw_price
from env_servers.environments.webshop.pages import (
    BACK,
    BUY,
    LINK,
    NEXT,
    PAGE_SIZE,
    PREVIOUS,
    SEARCH,
    SUB_PAGES,
    Kind,
    Page,
    done_page,
    item_page,
    results_page,
    search_page,
    sub_page,
)
from env_servers.environments.webshop.reward import GoalSpec, Score, score_purchase

__all__ = ["Visit", "read_action"]

_LONGEST_ARGUMENT: Final = 65_536


def read_action(action: str) -> tuple[str, str]:
    """A native action as (verb, argument), both empty where it has not the form `verb[argument]`.

    Only the first line counts, the verb ends at the last bracket that opens before the last that
    closes, and what follows is ignored: that is what the original's pattern matches.
    """
    line = action[: _LONGEST_ARGUMENT + 64].split("\n", 1)[0]
    closing = line.rfind("]")
    opening = line.rfind("[", 1, max(closing - 1, 1))
    if opening < 1:
        return "", ""
    return line[:opening], line[opening + 1 : closing]


@dataclass(slots=True)
class Visit:
    """The state of one visit."""

    shop: Shop
    goal_spec: GoalSpec
    sentence: str
    """The instruction as the pages show it."""
    price_seed: int | None
    """Seed of the draws of open prices; None = the fixed ones."""
    known_prices: Mapping[str, float] = field(default_factory=dict[str, float])
    """Prices by asin that are given instead of drawn."""
    page: Page = field(init=False)
    keywords: str = ""
    number: int = 0
    """Of the result page last seen, from 1; 0 = none."""
    asin: str = ""
    """The product last opened."""
    chosen: dict[str, str] = field(default_factory=dict[str, str])
    """Option values by name."""
    searches: int = 0
    """How many result pages were shown; random picks depend on it."""
    sub: str = ""
    """Which sub-page is open."""
    score: Score | None = None
    """Of the purchase."""

    def __post_init__(self) -> None:
        self.page = search_page(self.sentence)

    @property
    def product(self) -> Product:
        """The product last opened; there is one on every item page and its sub-pages."""
        product = self.shop.find(self.asin)
        if product is None:
            raise LookupError(f"no product {self.asin!r} is open")
        return product

    def copy(self) -> Self:
        """Return an independent visit in the same state."""
        other = replace(self, chosen=dict(self.chosen))
        other.page = self.page
        return other

    def price(self, product: Product) -> float:
        """Return what a product costs in this visit, in dollars."""
        price = self.known_prices.get(product.asin)
        return draw_price(product, self.price_seed) if price is None else price

    def search(self, keywords: str) -> bool:
        """Show the first result page; the original allows it on every page.

        Returns whether anything happened.
        """
        if not keywords or self._matches(keywords) is None:
            return False
        self._show_results(keywords, 1)
        return True

    def click(self, name: str) -> Score | None:
        """Click on something of the page by its lower-case name; the score if that buys."""
        target = self.page.clickables.get(name)
        if target is None or name == SEARCH:
            return None
        if name == BUY:
            return self._buy()
        if name == BACK:
            self._start_again()
        elif name == NEXT and self.page.kind is Kind.RESULTS:
            self._show_results(self.keywords, self.number + 1)
        elif name == PREVIOUS and self.page.kind is not Kind.SUB:
            self._show_results(self.keywords, self.number - (self.page.kind is Kind.RESULTS))
        elif name in SUB_PAGES:
            self.sub = name
            self.page = sub_page(self.sentence, self.product, name)
        else:
            self._show_item(name, target)
        return None

    def _start_again(self) -> None:
        self.page = search_page(self.sentence)
        self.keywords, self.number, self.asin, self.chosen = "", 0, "", {}

    def _show_results(self, keywords: str, number: int) -> None:
        self.keywords, self.number, self.asin, self.chosen = keywords, number, "", {}
        self.searches += 1
        matches = self._matches(keywords) or ()
        shown = matches[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        products = [self.shop.products[product_number] for product_number in shown]
        self.page = results_page(self.sentence, products, number, len(matches))

    def _show_item(self, name: str, target: str) -> None:
        """Open a product, choose an option, or come back from a sub-page."""
        if target == LINK:
            self.asin = name.upper()
        elif name != PREVIOUS:
            self.chosen[target] = name
        self.page = item_page(self.sentence, self.product)

    def _buy(self) -> Score:
        product = self.product
        self.score = score_purchase(product, self.chosen, self.price(product), self.goal_spec)
        self.page = done_page(self.asin, self.chosen, self.score.reward)
        return self.score

    def _matches(self, keywords: str) -> tuple[int, ...] | None:
        """Return what a search finds; None for a form at which the original fails.

        `<r>`, `<c> department` and `<q> kind` are hidden searches of the original.
        """
        words = keywords.split(" ")
        if words[0] == "<r>":
            return self._random_products()
        if words[0] == "<c>":
            return self.shop.by_category.get(words[1].strip(), ()) if len(words) > 1 else None
        if words[0] == "<q>":
            return self.shop.by_query.get(" ".join(words[1:]).strip(), ())
        return None if words[0] == "<a>" else self.shop.search(keywords)

    def _random_products(self) -> tuple[int, ...]:
        rng = random.Random(f"{self.price_seed}:{self.searches}")
        return tuple(rng.sample(range(len(self.shop)), min(RESULT_LIMIT, len(self.shop))))

    def state(self) -> tuple[object, ...]:
        """Everything on which the future depends, as plain values."""
        return (
            self.shop.name,
            self.goal_spec,
            self.sentence,
            self.price_seed,
            sorted(self.known_prices.items()),
            self.page.kind.value,
            self.keywords,
            self.number,
            self.asin,
            sorted(self.chosen.items()),
            self.searches,
            self.sub,
            self.score,
        )
