"""The rules of the game: what `get`, `craft` and `inventory` do to what the agent carries.

Contains the inventory and every observation and error string of a step, by one of three sets of
rules: the original's in two versions, with its quirks, or fixed ones. It knows the world and the
goal, but no task, reward, action format or thought. An action that cannot be done changes nothing
and says why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from env_servers.environments.textcraft.world import Recipe, World, item_id, spoken

__all__ = ["CraftingGame", "Outcome", "Rules"]

_CRAFT: Final = re.compile(r"craft (.*) using (.*)")
_GET: Final = re.compile(r"get ([0-9]+) (.*)")
_COUNTED: Final = re.compile(r"([0-9]+) (.*)")
_MAX_DIGITS: Final = 4000
"""Longer numbers would pass Python's limit for integers in text; the original server failed."""

EMPTY_HANDED: Final = "You are not carrying anything."


class Rules(Enum):
    """Whose game is played."""

    ORIGINAL_2025 = "2025"
    """The original's since September 2025."""
    ORIGINAL_2024 = "2024"
    """The original's before, in which AgentTraj-L was recorded: naming an item also makes what it
    is made of."""
    FIXED = "fixed"
    """This project's."""


class Outcome(NamedTuple):
    """What an action showed, and whether it brought the goal."""

    text: str
    reached_goal: bool = False


class Offer(NamedTuple):
    """An ingredient as the agent wrote it."""

    name: str
    amount: int


class _ActionRefused(Exception):
    """The action cannot be done; the text is the observation."""


class CraftingGame:
    """One agent's game: what it carries, and what its commands do."""

    __slots__ = ("fixed", "goal", "inventory", "rules", "world")

    def __init__(self, world: World, goal: str, rules: Rules) -> None:
        self.world = world
        self.goal = goal
        self.rules = rules
        self.fixed = rules is Rules.FIXED
        self.inventory: dict[str, int] = {}
        """Counts by item id, in the order in which the items came."""

    def act(self, action: str) -> Outcome:
        """Do one native action; any text is legal."""
        command = action.strip().lower() if self.fixed else action
        try:
            if match := _CRAFT.match(command):
                return self._craft(action, match[1], match[2])
            if match := _GET.match(command):
                return self._get(action, match[1], match[2])
            if command.startswith("inventory"):
                return Outcome(f"Inventory: {self._carried()}")
        except _ActionRefused as refusal:
            return Outcome(str(refusal))
        return Outcome(f"Could not execute {action}")

    def _get(self, action: str, digits: str, text: str) -> Outcome:
        count = _number(digits, action)
        name = item_id(text)
        if name not in self.world.obtainable:
            raise _ActionRefused(f"Could not find {text}")
        if self.fixed and count == 0:
            raise _ActionRefused(f"Wrong item format: {digits} {text}")
        self.inventory[name] = self.inventory.get(name, 0) + count
        return Outcome(f"Got {count} {text}", name == self.goal)

    def _craft(self, action: str, output: str, inputs: str) -> Outcome:
        counted = _COUNTED.match(output)
        count = _number(counted[1], action) if counted else 1
        item = item_id(counted[2] if counted else output)
        offers = [_offer(part.strip(), action) for part in inputs.split(",")]
        choose = self._choose_fixed if self.fixed else self._choose
        recipe, used = choose(item, count, offers)
        for offer in used:
            left = self.inventory.get(offer.name, 0) - offer.amount
            self.inventory[offer.name] = left
            if left == 0:
                del self.inventory[offer.name]
        self.inventory[recipe.item] = self.inventory.get(recipe.item, 0) + recipe.count
        item_name = spoken(recipe.item) if self.fixed else f"minecraft:{recipe.item}"
        return Outcome(f"Crafted {recipe.count} {item_name}", recipe.item == self.goal)

    def _choose(
        self, item: str, count: int, offers: Sequence[Offer]
    ) -> tuple[Recipe, Sequence[Offer]]:
        """Choose in the original's order: first what is carried, item by item, then the recipes."""
        group = item in self.world.groups
        if not all(self._carries(offer) for offer in offers):
            shown = None if group else f"minecraft:{item}"
            raise _ActionRefused(f"Could not find enough items to craft {shown}")
        for recipe in () if group else self._candidates(item):
            if _uses_up(self.world, recipe, offers):
                return recipe, offers
        tag, plain = (f"minecraft:{item}", None) if group else (None, f"minecraft:{item}")
        raise _ActionRefused(
            "Could not find a valid recipe for ItemTagWithCount(item_tag="
            f"ItemTag(tag={tag!r}, item_id={plain!r}), count={count})"
        )

    def _candidates(self, item: str) -> tuple[Recipe, ...]:
        """Return what the original takes for the recipes of an item.

        In 2024, drawing the goal's crafting commands appended the recipes of all components to the
        recipe list of the goal and of each craftable component, so that "craft 4 birch stairs using
        1 birch logs" made planks. AgentTraj-L has a case of it.
        """
        own = self.world.recipes.get(item, ())
        mixed = self.rules is Rules.ORIGINAL_2024 and own and item in self.world.reach(self.goal)
        return self.world.tree(item) if mixed else own

    def _carries(self, offer: Offer) -> bool:
        held = self.inventory.get(offer.name)
        return held is not None and held >= offer.amount

    def _choose_fixed(
        self, item: str, count: int, offers: Sequence[Offer]
    ) -> tuple[Recipe, Sequence[Offer]]:
        """First the recipe, then whether enough is carried for it."""
        summed = _summed(offers)
        for recipe in self.world.recipes.get(item, ()):
            if _uses_up(self.world, recipe, summed):
                resolved = self._resolved(recipe, summed)
                if all(map(self._carries, resolved)):
                    return recipe, resolved
                raise _ActionRefused(f"Could not find enough items to craft {spoken(item)}")
        raise _ActionRefused(f"Could not find a valid recipe for {count} {spoken(item)}")

    def _resolved(self, recipe: Recipe, offers: Sequence[Offer]) -> list[Offer]:
        """Offers with a group's name replaced by a carried member that suffices, if any does."""
        taken = {offer.name for offer in offers}
        return [self._member(recipe, offer, taken) for offer in offers]

    def _member(self, recipe: Recipe, offer: Offer, taken: set[str]) -> Offer:
        for part in recipe.ingredients:
            if part.generic and part.name == offer.name:
                for name, held in self.inventory.items():
                    if (
                        held >= offer.amount
                        and name not in taken
                        and self.world.accepts(part, name)
                    ):
                        return Offer(name, offer.amount)
        return offer

    def _carried(self) -> str:
        if not self.inventory:
            return EMPTY_HANDED
        items = [f"[{spoken(name)}] ({count})" for name, count in self.inventory.items()]
        # The original ends the list with a space.
        return " ".join(items) if self.fixed else " ".join(items) + " "


def _number(digits: str, action: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _ActionRefused(f"Could not execute {action}")
    return int(digits)


def _offer(text: str, action: str) -> Offer:
    match = _COUNTED.match(text)
    if match is None:
        raise _ActionRefused(f"Wrong item format: {text}")
    return Offer(item_id(match[2]), _number(match[1], action))


def _summed(offers: Sequence[Offer]) -> list[Offer]:
    """Return each item once, with its total."""
    totals: dict[str, int] = {}
    for offer in offers:
        totals[offer.name] = totals.get(offer.name, 0) + offer.amount
    return [Offer(name, count) for name, count in totals.items()]


def _uses_up(world: World, recipe: Recipe, offers: Sequence[Offer]) -> bool:
    """Return whether the offers are the recipe's ingredients, all of them and in the same counts.

    As in the original, the first fitting offer must have the right count; no other is tried.
    """
    left = list(offers)
    for part in recipe.ingredients:
        offer = next((offer for offer in left if world.accepts(part, offer.name)), None)
        if offer is None or offer.amount != part.count:
            return False
        left.remove(offer)
    return not left
