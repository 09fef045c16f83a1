"""Goals: what a customer wants, in words and as the reward compares it.

Contains how the original turns a catalogue into goals (`SyntheticGoals`, `HumanGoals`): one goal
per combination of a product's options, or four price limits per sentence that a person wrote; a
seeded shuffle; a seeded choice among the next four price steps. The goal of an index depends on the
catalogue alone; only the price that a range leaves open is filled in per episode.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from env_servers.environments.webshop.catalogue import PRICE_STEPS, Product, Shop
from env_servers.environments.webshop.reward import GoalOption, GoalSpec

__all__ = ["NO_LIMIT", "Goal", "Goals", "HumanGoals", "SyntheticGoals", "price_steps"]

SEED: Final = 233
"""Of the original's price choice and of its shuffle."""
NO_LIMIT: Final = 1_000_000.0
"""The limit of a goal that names none."""
CHOICES: Final = 4
"""Price steps above a product's price from which a limit is taken."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal, complete but for the price limit, which may depend on a price draw."""

    number: int
    """The product that it was made from, in its shop."""
    instruction: str
    """What the agent reads, without the price."""
    attributes: tuple[str, ...]
    options: tuple[GoalOption, ...]
    step: int | None
    """Which of the price steps above the product's price is the limit; None = no limit."""

    def limit(self, price: float) -> float:
        """Return the price limit for a drawn price of the product."""
        if self.step is None:
            return NO_LIMIT
        steps = price_steps(price)
        return steps[min(self.step, len(steps) - 1)] if len(steps) > 1 else NO_LIMIT

    def sentence(self, limit: float) -> str:
        """Return the instruction with its price limit."""
        if limit >= NO_LIMIT:
            return self.instruction
        return f"{self.instruction}, and price lower than {limit:.2f} dollars"

    def spec(self, product: Product, limit: float) -> GoalSpec:
        """Return what the reward compares with; `product` is the one of `number`."""
        return GoalSpec(
            title=product.title,
            query=product.query,
            product_category=product.product_category,
            attributes=self.attributes,
            options=self.options,
            price_limit=limit,
        )


def price_steps(price: float) -> Sequence[float]:
    """Return the next four price steps above a price; fewer near the highest, 990 dollars."""
    first = int(price // 10)
    return PRICE_STEPS[first : first + CHOICES]


class Goals(ABC):
    """All goals of a shop by index."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Goal:
        """Return the goal of an index in [0, len)."""


def _middle(product: Product) -> float:
    return sum(product.prices[:2]) / len(product.prices[:2])


def _shuffled(size: int) -> array[int]:
    """Return where each index's goal stands in the unshuffled list."""
    order = list(range(size))
    random.Random(SEED).shuffle(order)
    return array("I", order)


class SyntheticGoals(Goals):
    """One goal for every combination of every product's options, in the original's order.

    16 bytes a goal are held; the goal itself is made when it is asked for.
    """

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._numbers, self._combinations = array("I"), array("I")
        self._steps: dict[int, int | None] = {}
        rng = random.Random(SEED)
        for number, product in enumerate(shop.products):
            if product.instruction is None:
                continue
            self._steps[number] = self._drawn_step(product, rng)
            size = prod(len(values) for values in product.options.values())
            self._numbers.extend([number] * size)
            self._combinations.extend(range(size))
        self._order = _shuffled(len(self._numbers))

    @staticmethod
    def _drawn_step(product: Product, rng: random.Random) -> int | None:
        """Return the larger of two of the next steps, drawn as the original draws it."""
        choices = len(price_steps(_middle(product)))
        return max(rng.sample(range(choices), 2)) if choices > 1 else None

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Goal:
        position = self._order[index]
        number = self._numbers[position]
        product = self._shop.products[number]
        options = _combination(product.options, self._combinations[position])
        spoken = ", and ".join(f"{name}: {value}" for name, value in options)
        instruction = f"{product.instruction} with {spoken}" if spoken else product.instruction
        return Goal(
            number=number,
            instruction=instruction or "",
            attributes=product.instruction_attributes,
            options=options,
            step=self._steps[number],
        )


def _combination(options: Mapping[str, Sequence[str]], index: int) -> tuple[tuple[str, str], ...]:
    """Return one value per option, names sorted; the last name's values change fastest."""
    combination: list[tuple[str, str]] = []
    for name in sorted(options, reverse=True):
        index, position = divmod(index, len(options[name]))
        combination.append((name, options[name][position]))
    return tuple(reversed(combination))


class HumanGoals(Goals):
    """Four goals per sentence that a person wrote, one for each of the next price steps."""

    def __init__(self, shop: Shop, written: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._goals: list[Goal] = []
        for asin in shop.asins:
            if asin in written:
                number = shop.number(asin) or 0
                middle = _middle(shop.products[number])
                for entry in written[asin]:
                    self._goals.extend(_written_goals(number, entry, len(price_steps(middle))))
        self._order = _shuffled(len(self._goals))

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Goal:
        return self._goals[self._order[index]]


def _written_goals(number: int, entry: Mapping[str, Any], choices: int) -> list[Goal]:
    """Return the goals of one sentence; none for a sentence without attributes."""
    if not entry["instruction_attributes"]:
        return []
    # Near the highest price too few steps are left: the same goal without limit, four times.
    steps: list[int | None] = list(range(choices)) if choices > 1 else [None] * CHOICES
    return [
        Goal(
            number=number,
            instruction=entry["instruction"].strip("."),
            attributes=tuple(entry["instruction_attributes"]),
            options=tuple(entry["instruction_options"]),
            step=step,
        )
        for step in steps
    ]
