"""The table of recipes in this package, read into a world, and which of its items are goals.

Contains the table's format and the division of the goals into train and eval. The division depends
on the package alone: no official file, no order of files, no random generator.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final, NamedTuple

from env_servers.environments.textcraft.planner import plan
from env_servers.environments.textcraft.world import Ingredient, Recipe, World, stable_order

__all__ = ["DEEPEST", "Goals", "divide_goals", "read_reserved", "read_table"]

DEEPEST: Final = 4
"""Goals are 1 to this many crafting levels deep, as in the original."""
LONGEST: Final = 20
"""Goals whose plan takes more actions are left out: an evaluation allows 20 rounds. They are
banners of colours that have to be mixed or made one by one."""
EVAL_SHARE: Final = 5
"""One goal in so many, of each depth, is an evaluation goal."""


class Goals(NamedTuple):
    """Goal items in canonical order: by depth, then by name."""

    train: tuple[str, ...]
    eval: tuple[str, ...]
    reserved: frozenset[str]
    """Train goals that no train task may have: AgentEval may have them."""


def read_table() -> World:
    """Return the embedded world."""
    groups: dict[str, tuple[str, ...]] = {}
    recipes: list[Recipe] = []
    for line in _lines("recipes.tsv"):
        kind, name, *rest = line.split("\t")
        if kind == "group":
            groups[name] = tuple(rest[0].split(" "))
        else:
            parts = tuple(_ingredient(part) for part in rest[1].split(" | "))
            recipes.append(Recipe(name, int(rest[0]), parts))
    return World(recipes, groups, name="embedded")


def read_reserved() -> frozenset[str]:
    """Return the goals that the official items have and AgentTraj-L is not known to teach."""
    return frozenset(_lines("reserved_goals.txt"))


def _lines(name: str) -> list[str]:
    """Return the lines of a file of this package without its comments."""
    file = files("env_servers.environments.textcraft").joinpath(name)
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def _ingredient(text: str) -> Ingredient:
    count, _, name = text.partition(" ")
    return Ingredient(name.removeprefix("#"), int(count), name.startswith("#"))


def divide_goals(world: World) -> Goals:
    """The items that 20 actions can craft, up to DEEPEST; of each depth, a fifth is for eval."""
    train: list[str] = []
    held_out: list[str] = []
    for depth in range(1, DEEPEST + 1):
        items = sorted(item for item in world.recipes if world.depth(item) == depth)
        goals = [item for item in items if len(plan(world, world.tree(item), item, {})) <= LONGEST]
        eval_goals = set(stable_order(goals, "textcraft eval")[: -(-len(goals) // EVAL_SHARE)])
        held_out.extend(goal for goal in goals if goal in eval_goals)
        train.extend(goal for goal in goals if goal not in eval_goals)
    return Goals(tuple(train), tuple(held_out), read_reserved())
