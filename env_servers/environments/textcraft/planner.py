"""Short plans: from what is carried to the goal, by the recipes that the task shows.

Contains the search; a plan is a pure function of its arguments. It gets each basic item once, in
the total amount, then crafts bottom-up. It chooses recipe and kind ingredient by ingredient, by the
fewest actions so far, which is short but not proved shortest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from env_servers.environments.textcraft.world import Ingredient, Recipe, World, spoken

__all__ = ["Craft", "Get", "Plan", "plan"]


class Get(NamedTuple):
    """Take so many of a basic item."""

    item: str
    amount: int
    purpose: str
    """The item whose crafting first needs it."""

    @property
    def action(self) -> str:
        """The native action."""
        return f"get {self.amount} {spoken(self.item)}"


class Craft(NamedTuple):
    """Apply a recipe once, each ingredient as a definite item."""

    recipe: Recipe
    inputs: tuple[tuple[str, int], ...]
    """(item, count) in the recipe's order."""
    purpose: str
    """The item that this is crafted for; the item itself for the goal."""

    @property
    def action(self) -> str:
        """The native action."""
        parts = ", ".join(f"{count} {spoken(item)}" for item, count in self.inputs)
        return f"craft {self.recipe.count} {spoken(self.recipe.item)} using {parts}"


Plan = tuple[Get | Craft, ...]


@dataclass(slots=True)
class _Draft:
    """A plan in the making, and what will be left over when it has been carried out."""

    spare: dict[str, int]
    gets: dict[str, Get] = field(default_factory=dict[str, Get])
    crafts: list[Craft] = field(default_factory=list[Craft])

    @property
    def length(self) -> int:
        return len(self.gets) + len(self.crafts)

    def copy(self) -> _Draft:
        return _Draft(dict(self.spare), dict(self.gets), list(self.crafts))


def plan(world: World, recipes: Sequence[Recipe], goal: str, carried: Mapping[str, int]) -> Plan:
    """Actions that craft the goal once; empty where the recipes do not lead there."""
    search = _Search(world, recipes)
    draft = _Draft({item: count for item, count in carried.items() if count > 0})
    draft.spare.pop(goal, None)
    done = search.provide(draft, goal, 1, goal, frozenset())
    return (*done.gets.values(), *done.crafts) if done is not None else ()


class _Search:
    def __init__(self, world: World, recipes: Sequence[Recipe]) -> None:
        self._world = world
        self._recipes: dict[str, list[Recipe]] = {}
        for recipe in recipes:
            self._recipes.setdefault(recipe.item, []).append(recipe)

    def provide(
        self, draft: _Draft, item: str, count: int, purpose: str, above: frozenset[str]
    ) -> _Draft | None:
        """Return the draft with so many of the item made and set aside; None = impossible."""
        draft = draft.copy()
        missing = count - draft.spare.pop(item, 0)
        if missing > 0 and item in self._world.obtainable:
            before = draft.gets.get(item)
            total = missing + (before.amount if before else 0)
            draft.gets[item] = Get(item, total, before.purpose if before else purpose)
            missing = 0
        if missing > 0:
            recipe = self._cheapest(draft, item, missing, purpose, above)
            if recipe is None:
                return None
            draft, count_made = recipe
            missing -= count_made
        if missing < 0:
            draft.spare[item] = draft.spare.get(item, 0) - missing
        return draft

    def _cheapest(
        self, draft: _Draft, item: str, missing: int, purpose: str, above: frozenset[str]
    ) -> tuple[_Draft, int] | None:
        """So many of the item, at least, by the recipe that costs fewest actions."""
        best: tuple[_Draft, int] | None = None
        if item in above:
            return None
        for recipe in self._recipes.get(item, ()):
            rounds = -(-missing // recipe.count)
            done = self._craft(draft, recipe, rounds, purpose, above | {item})
            if done is not None and (best is None or done.length < best[0].length):
                best = (done, rounds * recipe.count)
        return best

    def _craft(
        self, draft: _Draft, recipe: Recipe, rounds: int, purpose: str, above: frozenset[str]
    ) -> _Draft | None:
        """Return the recipe applied so many times, each ingredient as one kind throughout."""
        current = draft.copy()
        inputs: list[tuple[str, int]] = []
        for part in recipe.ingredients:
            ingredient = self._ingredient(current, part, rounds, recipe.item, above)
            if ingredient is None:
                return None
            current, item = ingredient
            inputs.append((item, part.count))
        current.crafts.extend([Craft(recipe, tuple(inputs), purpose)] * rounds)
        return current

    def _ingredient(
        self, draft: _Draft, part: Ingredient, rounds: int, purpose: str, above: frozenset[str]
    ) -> tuple[_Draft, str] | None:
        """Return the ingredient as the kind that costs fewest actions; the first of equals."""
        kinds = self._world.groups.get(part.name, ()) if part.generic else (part.name,)
        best: tuple[_Draft, str] | None = None
        for kind in kinds:
            done = self.provide(draft, kind, part.count * rounds, purpose, above)
            if done is not None and (best is None or done.length < best[0].length):
                best = (done, kind)
        return best
