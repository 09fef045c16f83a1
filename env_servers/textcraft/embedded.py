"""The table of recipes in this package, read into a world, and which of its items are goals.

Owns the table's format and the division of the goals into train and eval. The division depends on
the table alone: no order of files, no random generator. It knows no item ids.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final, NamedTuple

from env_servers.textcraft.world import Ingredient, Recipe, World, stable_order

__all__ = ["DEEPEST", "Goals", "divide_goals", "read_table"]

DEEPEST: Final = 4
"""Goals are 1 to this many crafting levels deep, as in the original."""
EVAL_SHARE: Final = 5
"""One goal in so many, of each depth, is an evaluation goal."""


class Goals(NamedTuple):
    """Goal items in canonical order: by depth, then by name."""

    train: tuple[str, ...]
    eval: tuple[str, ...]


def read_table() -> World:
    """The embedded world."""
    text = files(__package__).joinpath("recipes.tsv").read_text(encoding="utf-8")
    groups: dict[str, tuple[str, ...]] = {}
    recipes: list[Recipe] = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        kind, name, *rest = line.split("\t")
        if kind == "group":
            groups[name] = tuple(rest[0].split(" "))
        else:
            parts = tuple(_ingredient(part) for part in rest[1].split(" | "))
            recipes.append(Recipe(name, int(rest[0]), parts))
    return World(recipes, groups)


def _ingredient(text: str) -> Ingredient:
    count, _, name = text.partition(" ")
    return Ingredient(name.removeprefix("#"), int(count), name.startswith("#"))


def divide_goals(world: World) -> Goals:
    """Every craftable item up to the greatest depth, a fifth of each depth for evaluation."""
    train: list[str] = []
    held_out: list[str] = []
    for depth in range(1, DEEPEST + 1):
        goals = sorted(item for item in world.recipes if world.depth(item) == depth)
        chosen = set(stable_order(goals, "textcraft eval")[: -(-len(goals) // EVAL_SHARE)])
        held_out.extend(goal for goal in goals if goal in chosen)
        train.extend(goal for goal in goals if goal not in chosen)
    return Goals(tuple(train), tuple(held_out))
