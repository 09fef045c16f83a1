"""What the scripted players do: buy the product that a goal was made from, or act at random.

Contains the choice of keywords and the wording of thoughts. The expert knows which product the goal
was made from, and words its search from the instruction as long as that brings the product among
the 50 found; otherwise it adds words of the title. Everything is a pure function of the arguments.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

from env_servers.environments.webshop.catalogue import Product
from env_servers.environments.webshop.goals import Goal
from env_servers.environments.webshop.pages import BACK, BUY, NEXT, PAGE_SIZE, PREVIOUS, Kind
from env_servers.environments.webshop.visit import Visit
from env_servers.sdk import Advice

__all__ = ["advise", "best_keywords", "random_advice"]

LAST_PAGE: Final = 2
"""Result pages that the expert turns at most; a better search is shorter."""
_SEARCH: Final = (
    "I begin with a search for the kind of product and what it has to offer: {keywords}.",
    "The instruction asks for {wanted}. I put that into my keywords.",
    "First I search. The words that matter are those about {wanted}.",
    "I need {wanted}, so I search for it together with the options.",
)
_SEARCH_TITLE: Final = (
    "The plain words of the instruction find too much else, so I word the search like a title.",
    "A search that reads like the title of a fitting product should bring it up.",
)
_OPEN: Final = (
    '{asin}, "{title}", is the kind of product that I look for. I open it.',
    'Of the results, "{title}" looks right for {wanted}, so I open {asin}.',
    "{asin} fits what is asked for: {wanted}. I have a closer look.",
    'I open {asin}, because "{title}" matches the instruction best.',
)
_NEXT: Final = (
    "None of these ten is what I look for. I turn the page.",
    "The right product is not on this page, so I go on to the next one.",
)
_PREVIOUS: Final = ("I have gone too far; the product is on an earlier page.",)
_BACK: Final = (
    "This does not lead to the right product. I go back and search with other words.",
    "I want to search again, with better keywords.",
)
_LEAVE_SUB: Final = ("I have read enough here and go back to the product.",)
_OPTION: Final = (
    'The instruction asks for {name} "{value}", so I choose that.',
    'I set {name} to "{value}", as required.',
    '{name} has to be "{value}". I select it.',
    'Next I choose "{value}" for {name}.',
)
_BUY: Final = (
    "The product fits and all options that were asked for are chosen. I buy it.",
    "Nothing is left to choose, and the price keeps within the limit. I buy.",
    "This is what the instruction describes, so it is time to buy.",
    "Everything matches the instruction. I complete the purchase.",
)
_RANDOM: Final = "I try something at random."
_SIGNS: Final = re.compile(r"[^\w\s./\"'&%-]+")


def advise(visit: Visit, goal: Goal, wording: int) -> Advice:
    """Return the next action towards buying the goal's product with its options."""
    product = visit.shop.products[goal.number]
    words = {
        "asin": product.asin,
        "title": _shortened(product.title),
        "wanted": ", ".join(goal.attributes[:3]) or product.query,
    }
    kind = visit.page.kind
    if kind is Kind.RESULTS:
        return _on_results(visit, product, goal, words, wording)
    if kind is Kind.ITEM:
        return _on_item(visit, product, goal, wording)
    if kind is Kind.SUB:
        return _say(f"click[{PREVIOUS}]", _LEAVE_SUB, wording, words)
    keywords, from_title = best_keywords(visit, goal)
    thoughts = _SEARCH_TITLE if from_title else _SEARCH
    return _say(f"search[{keywords}]", thoughts, wording, {**words, "keywords": keywords})


def _on_results(
    visit: Visit, product: Product, goal: Goal, words: dict[str, str], wording: int
) -> Advice:
    if product.asin.lower() in visit.page.clickables:
        return _say(f"click[{product.asin.lower()}]", _OPEN, wording, words)
    rank = _place(visit, visit.keywords, goal.number)
    if rank is None or rank // PAGE_SIZE >= visit.number + LAST_PAGE:
        return _say(f"click[{BACK}]", _BACK, wording, words)
    if rank // PAGE_SIZE + 1 < visit.number:
        return _say(f"click[{PREVIOUS}]", _PREVIOUS, wording, words)
    return _say(f"click[{NEXT}]", _NEXT, wording, words)


def _on_item(visit: Visit, product: Product, goal: Goal, wording: int) -> Advice:
    if visit.asin != product.asin:
        return _say(f"click[{BACK}]", _BACK, wording, {})
    for value in _wanted_values(product, goal):
        owner = visit.page.clickables.get(value)
        if owner is not None and visit.chosen.get(owner) != value:
            return _say(f"click[{value}]", _OPTION, wording, {"name": owner, "value": value})
    return _say(f"click[{BUY}]", _BUY, wording, {})


def _wanted_values(product: Product, goal: Goal) -> list[str]:
    """Return the option values to choose, in the order of the page."""
    pairs: dict[str, str] = {}
    for option in goal.options:
        if not isinstance(option, str):
            pairs[option[0]] = option[1]
            continue
        # A person's goal names the value alone.
        for name, values in product.options.items():
            if option in values and name not in pairs:
                pairs[name] = option
                break
    return [pairs[name] for name in product.options if name in pairs]


def best_keywords(visit: Visit, goal: Goal) -> tuple[str, bool]:
    """The first of a few wordings that finds the product early; whether it is from the title."""
    product = visit.shop.products[goal.number]
    fallback = ""
    for keywords, from_title in _wordings(product, goal):
        rank = _place(visit, keywords, goal.number)
        if rank is not None and rank < PAGE_SIZE * (1 if not from_title else LAST_PAGE + 1):
            return keywords, from_title
        fallback = fallback or (keywords if rank is not None else "")
    return fallback or _plain(product.title), not fallback


def _wordings(product: Product, goal: Goal) -> Sequence[tuple[str, bool]]:
    options = [option if isinstance(option, str) else option[1] for option in goal.options]
    whole = _plain(" ".join((*goal.attributes, product.query, *options)))
    title = _plain(product.title)
    first_words = " ".join(title.split()[:6])
    return (
        (_plain(" ".join((product.query, *goal.attributes))), False),
        (whole, False),
        (f"{first_words} {product.query}", True),
        (title, True),
        (_plain(f"{product.title} {product.description} {whole}")[:2000], True),
    )


def _plain(text: str) -> str:
    """Keywords without signs that would end the action or mean something else."""
    return " ".join(_SIGNS.sub(" ", text).split()).lower()


def _place(visit: Visit, keywords: str, number: int) -> int | None:
    """Return where a search shows a product, from 0; None where it does not."""
    results = visit.shop.search(keywords)
    return results.index(number) if number in results else None


def _shortened(title: str) -> str:
    words = title.split()
    return " ".join(words[:8]) + (" ..." if len(words) > 8 else "")


def _say(action: str, thoughts: Sequence[str], wording: int, words: dict[str, str]) -> Advice:
    return Advice(action, thoughts[wording % len(thoughts)].format_map(words))


def random_advice(visit: Visit, goal: Goal, rng: random.Random) -> Advice:
    """Return a click on anything of the page, or a search for a word of the instruction."""
    if visit.page.has_search_bar or rng.random() < 0.1:
        words = _plain(goal.instruction).split()
        start = rng.randrange(len(words)) if words else 0
        keywords = " ".join(words[start : start + 3])
        return Advice(f"search[{keywords or 'anything'}]", _RANDOM)
    clickables = list(visit.page.clickables)
    return Advice(f"click[{rng.choice(clickables)}]" if clickables else "click[nothing]", _RANDOM)
