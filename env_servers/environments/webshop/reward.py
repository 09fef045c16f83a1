"""What a purchase earns: WebShop's formula.

    reward = kind * (attributes + options + price) / (goal attributes + goal options + 1)

Contains the formula with all its oddities, which the README lists. The reward lies in [0, 1] and
depends only on what was bought, at which price, and on the goal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from env_servers.environments.webshop.catalogue import Product
from env_servers.environments.webshop.fuzzy import resembles
from env_servers.environments.webshop.nouns import title_nouns

__all__ = ["COLOURS", "GoalSpec", "Score", "score_purchase"]

_COLOURS: Final = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown "
    "burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee "
    "cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia "
    "gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender "
    "lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor "
    "mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red "
    "rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan "
    "taupe teal tiger turquoise violet walnut wheat white wine yellow"
)
COLOURS: Final = tuple(_COLOURS.split())
"""Colour words in the order in which they are looked for."""
_COLOUR_SET: Final = frozenset(COLOURS)

GoalOption = str | tuple[str, str]
"""A value, or (option name, value)."""


@dataclass(frozen=True, slots=True, repr=False)
class GoalSpec:
    """What a goal compares a purchase with."""

    title: str
    """Of the product that the goal was made from."""
    query: str
    product_category: str
    attributes: tuple[str, ...]
    options: tuple[GoalOption, ...]
    price_limit: float
    exact_options: bool = False
    """Options count when exactly they are chosen, not when they resemble what is chosen."""

    def __repr__(self) -> str:
        # State hashes are made of this text. The class was called Wish when version 1.0.0's runs
        # were recorded, and they must still replay to the same hashes.
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"Wish({shown})"


@dataclass(frozen=True, slots=True)
class Score:
    """A reward and its parts."""

    reward: float
    kind: float
    """Factor for the kind of product: 0, 0.1, 0.5 or 1."""
    title_share: float
    """Share of the goal title's nouns that the bought title has."""
    attributes: int
    """Goal attributes that the product has."""
    options: int
    """Goal options that were chosen."""
    price_kept: bool


def score_purchase(
    bought: Product, chosen: Mapping[str, str], price: float, goal_spec: GoalSpec
) -> Score:
    """Score one purchase; `chosen` is value by option name, `price` in dollars."""
    kind, share = _kind(bought, goal_spec)
    attributes = sum(_has_attribute(bought, goal_item) for goal_item in goal_spec.attributes)
    if goal_spec.exact_options:
        options = sum(_is_chosen(goal_item, chosen) for goal_item in goal_spec.options)
    else:
        options = _matching_options(chosen.values(), goal_spec.options)
    price_kept = price <= goal_spec.price_limit
    whole = len(goal_spec.attributes) + len(goal_spec.options) + 1
    reward = (attributes + options + price_kept) / whole * kind
    return Score(reward, kind, share, attributes, options, price_kept)


def _kind(bought: Product, goal_spec: GoalSpec) -> tuple[float, float]:
    """Return how far the bought product is of the goal's kind, and the share of title nouns.

    Without shared nouns the factor is 0 even for the very same query and category.
    """
    goal_nouns = title_nouns(goal_spec.title)
    shared = set(goal_nouns) & set(title_nouns(bought.title))
    share = len(shared) / len(goal_nouns) if goal_nouns else 0.2
    same_place = len(_levels(bought.product_category) & _levels(goal_spec.product_category)) >= 2
    if share == 0.0:
        return 0.0, share
    if share < 0.1:
        return 0.1, share
    return (1.0 if bought.query == goal_spec.query or same_place or share > 0.2 else 0.5), share


def _levels(path: str) -> set[str]:
    return {level.strip() for level in path.split("\u203a")}


def _has_attribute(bought: Product, goal_attribute: str) -> bool:
    return (
        any(resembles(attribute, goal_attribute) for attribute in bought.attributes)
        or goal_attribute in bought.title.lower()
        or goal_attribute in " ".join(bought.bullets).lower()
        or goal_attribute in bought.description.lower()
    )


def _matching_options(chosen: Iterable[str], goal_options: Sequence[GoalOption]) -> int:
    values = [_first_colour(value) for value in chosen]
    return sum(any(resembles(value, text) for value in values) for text in map(_text, goal_options))


def _is_chosen(option: GoalOption, chosen: Mapping[str, str]) -> bool:
    if isinstance(option, str):
        return any(resembles(value, option) for value in chosen.values())
    return chosen.get(option[0]) == option[1]


def _first_colour(value: str) -> str:
    """Return the first colour word that occurs anywhere in the value, in place of the value."""
    return next((colour for colour in COLOURS if colour in value), value)


def _text(option: GoalOption) -> str:
    """Return the text that a goal's option is compared by.

    A pair is compared as Python writes it, unless one of its two parts is exactly a colour word.
    """
    if isinstance(option, str):
        return _first_colour(option)
    if not _COLOUR_SET.isdisjoint(option):
        return next(colour for colour in COLOURS if colour in option)
    return str(option)
