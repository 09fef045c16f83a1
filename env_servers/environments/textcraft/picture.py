"""What is carried, and the goal's recipes as a tree of what goes into what."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from env_servers.environments.textcraft.crafting_game import CraftingGame
from env_servers.environments.textcraft.world import Ingredient, Recipe, spoken
from env_servers.sdk import View
from env_servers.toolkit.drawing import TreeNode, draw_tree, text_view, tree_lines

__all__ = ["draw"]

_MAX_NODES: Final = 60
_MAX_DEPTH: Final = 8
_MAX_ITEMS: Final = 50
_MOST: Final = 10**9
"""Higher counts are not written out: an agent may have got a number of 4,000 digits."""
_CARRIED, _BASIC, _CRAFTED, _UNKNOWN = "good", "accent", "ink", "bad"
_SAID: Final = {_CARRIED: "[x]", _BASIC: "[get]", _CRAFTED: "[craft]", _UNKNOWN: "[no command]"}


def draw(game: CraftingGame, shown: Sequence[Recipe]) -> list[View]:
    """Draw a game; `shown` are the recipes of its commands."""
    tree = _Trees(game, shown).of_goal()
    carried = [
        f"{count if count < _MOST else 'very many'} {spoken(name)}"
        for name, count in itertools.islice(game.inventory.items(), _MAX_ITEMS)
    ]
    notes = ["inventory:", *carried] if carried else ["inventory: nothing"]
    heading = "Recipes of the goal; green: carried, blue: can be got"
    lines = "\n".join([*tree_lines(_said(tree)), "", *notes])
    return [
        draw_tree(tree, heading, notes).view("recipes", "Recipes and inventory"),
        text_view("text", "Recipes as text", lines),
    ]


def _said(node: TreeNode) -> TreeNode:
    """The same tree with words for colours."""
    children = [_said(child) for child in node.children]
    return TreeNode(f"{node.label} {_SAID[node.tone]}", node.tone, children)


class _Trees:
    """Grows the tree of the goal from the shown recipes; what is carried needs no branches."""

    def __init__(self, game: CraftingGame, shown: Sequence[Recipe]) -> None:
        self._game = game
        self._shown = set(shown)
        self._nodes = itertools.count(1)

    def of_goal(self) -> TreeNode:
        return self._grow(Ingredient(self._game.goal, 1), frozenset())

    def _grow(self, part: Ingredient, above: frozenset[str]) -> TreeNode:
        world = self._game.world
        label = f"{part.count} {'any ' if part.generic else ''}{spoken(part.name)}"
        held = (count for name, count in self._game.inventory.items() if world.accepts(part, name))
        if any(count >= part.count for count in held):
            return TreeNode(label, _CARRIED)
        if part.name in world.obtainable:
            return TreeNode(label, _BASIC)
        recipes = [recipe for recipe in world.makers(part.name) if recipe in self._shown]
        full = next(self._nodes) > _MAX_NODES or len(above) > _MAX_DEPTH
        if not recipes or part.name in above or full:
            return TreeNode(label, _CRAFTED if recipes else _UNKNOWN)
        recipe = recipes[0]
        if len(recipes) > 1:
            label += f" (1 of {len(recipes)} ways)"
        if recipe.item != part.name:
            label += f", as {spoken(recipe.item)}"
        below = above | {part.name}
        return TreeNode(label, _CRAFTED, [self._grow(one, below) for one in recipe.ingredients])
