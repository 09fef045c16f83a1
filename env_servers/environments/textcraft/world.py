"""Crafting recipes as a world: what can be got, what can be crafted, how deep, and from what.

Contains recipes, groups ("planks" stands for any kind of planks) and everything that follows from
them alone. A world is immutable after construction and shared by all episodes, and its answers
depend only on the order of the recipes it was given.

Items are named by their bare id (`oak_planks`); the agent writes and reads `oak planks`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Ingredient", "Recipe", "World", "item_id", "spoken", "stable_order"]


def spoken(name: str) -> str:
    """Return an item id as the agent reads it: `oak_planks` is "oak planks"."""
    return name.replace("_", " ")


def item_id(text: str) -> str:
    """Return what the agent wrote as an item id; any text is legal and may name nothing."""
    return text.replace(" ", "_")


def stable_order(names: Iterable[str], salt: str) -> list[str]:
    """The names in an order drawn from `salt`; the same on every machine and Python version."""

    def drawn(name: str) -> bytes:
        return hashlib.blake2b(f"{salt}\0{name}".encode(), digest_size=8).digest()

    return sorted(names, key=lambda name: (drawn(name), name))


@dataclass(frozen=True, slots=True)
class Ingredient:
    """So many of an item, or of any one member of a group."""

    name: str
    count: int
    generic: bool = False
    """`name` is a group: any one of its members will do, all of the same kind."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to craft an item."""

    item: str
    count: int
    """How many one crafting makes."""
    ingredients: tuple[Ingredient, ...]

    @property
    def inputs(self) -> str:
        """The ingredients as the agent writes them, in the recipe's order."""
        return ", ".join(f"{part.count} {spoken(part.name)}" for part in self.ingredients)

    @property
    def command(self) -> str:
        """The crafting command as the agent sees it."""
        return f"craft {self.count} {spoken(self.item)} using {self.inputs}"


class World:
    """Recipes by item, groups by name, and the items that can simply be got."""

    def __init__(
        self,
        recipes: Iterable[Recipe],
        groups: Mapping[str, Sequence[str]],
        items: Iterable[str] = (),
        *,
        name: str = "",
    ) -> None:
        """`items` are further items that exist although no recipe names them."""
        self.name = name
        by_item: dict[str, list[Recipe]] = {}
        known_items = set(items)
        for recipe in recipes:
            by_item.setdefault(recipe.item, []).append(recipe)
            known_items.add(recipe.item)
            known_items.update(part.name for part in recipe.ingredients if not part.generic)
        self.recipes: Mapping[str, tuple[Recipe, ...]] = {
            item: tuple(item_recipes) for item, item_recipes in by_item.items()
        }
        self.groups: Mapping[str, tuple[str, ...]] = {
            name: tuple(members) for name, members in groups.items()
        }
        self._members = {name: frozenset(members) for name, members in self.groups.items()}
        self.obtainable: frozenset[str] = frozenset(known_items - by_item.keys() - groups.keys())
        self.by_command: Mapping[str, Recipe] = {
            recipe.command: recipe
            for item_recipes in by_item.values()
            for recipe in reversed(item_recipes)
        }
        self._uses = self._collect_uses()
        self._depths: dict[str, int] = {}
        self._trees: dict[str, tuple[Recipe, ...]] = {}
        self._reaches: dict[str, frozenset[str]] = {}

    def accepts(self, ingredient: Ingredient, name: str) -> bool:
        """Return whether an item may stand for the ingredient; a group's own name may, too."""
        if name == ingredient.name:
            return True
        return ingredient.generic and name in self._members.get(ingredient.name, frozenset())

    def makers(self, name: str) -> tuple[Recipe, ...]:
        """Return the recipes of an item, or of all members of a group; none for a basic item."""
        own = self.recipes.get(name)
        if own is not None:
            return own
        members = self.groups.get(name, ())
        return tuple(recipe for member in members for recipe in self.recipes.get(member, ()))

    def depth(self, name: str) -> int:
        """Crafting levels below an item by its flattest recipe: 0 = can be got as it is."""
        cached = self._depths.get(name)
        if cached is None:
            cached = self._depths[name] = self._depth(name)
        return cached

    def tree(self, name: str) -> tuple[Recipe, ...]:
        """Return every recipe that crafting the item may use, its own first; no recipe twice."""
        cached = self._trees.get(name)
        if cached is None:
            cached = self._trees[name] = self._tree(name)
        return cached

    def reach(self, name: str) -> frozenset[str]:
        """Return the item itself and every ingredient, item or group, of its tree."""
        cached = self._reaches.get(name)
        if cached is None:
            parts = (part.name for recipe in self.tree(name) for part in recipe.ingredients)
            cached = self._reaches[name] = frozenset((name, *parts))
        return cached

    def commands(self, goal: str, *, distractors: int, salt: str) -> tuple[str, ...]:
        """The crafting commands of a task: the goal's tree and recipes that share ingredients.

        Which distractors are taken and the order of the lines follow from `salt` alone.
        """
        needed = {recipe.command for recipe in self.tree(goal)}
        parts = {part.name for recipe in self.tree(goal) for part in recipe.ingredients}
        related = {command for part in parts for command in self._uses.get(part, ())} - needed
        extra = stable_order(related, f"{salt}:distractors")[:distractors]
        return tuple(stable_order(needed.union(extra), f"{salt}:order"))

    def digest(self) -> bytes:
        """Identifies recipes and groups by content."""
        content = (sorted(self.by_command), sorted(self.groups.items()), sorted(self.obtainable))
        return hashlib.blake2b(repr(content).encode(), digest_size=8).digest()

    def _collect_uses(self) -> dict[str, list[str]]:
        uses: dict[str, list[str]] = {}
        for command, recipe in self.by_command.items():
            for part in recipe.ingredients:
                uses.setdefault(part.name, []).append(command)
        return uses

    def _depth(self, name: str) -> int:
        own_recipes = self.recipes.get(name)
        if own_recipes is not None:
            return min(
                1 + max(self.depth(part.name) for part in recipe.ingredients)
                for recipe in own_recipes
            )
        members = self.groups.get(name)
        return min(self.depth(member) for member in members) if members else 0

    def _tree(self, name: str) -> tuple[Recipe, ...]:
        recipes: dict[Recipe, None] = {}
        visited: set[str] = set()
        waiting = [name]
        for current in waiting:
            if current in visited:
                continue
            visited.add(current)
            for recipe in self.makers(current):
                recipes[recipe] = None
                waiting.extend(part.name for part in recipe.ingredients)
        return tuple(recipes)
