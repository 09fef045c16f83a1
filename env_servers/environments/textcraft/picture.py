"""What is carried, and the goal's recipes as a tree of what goes into what."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from env_servers.environments.textcraft.crafting_game import CraftingGame
from env_servers.environments.textcraft.world import Ingredient, Recipe, spoken
from env_servers.sdk import View
from env_servers.toolkit.drawing import Drawing, Table, TreeNode, place, text_view, tree_lines

__all__ = ["draw"]

_COLUMN: Final = 210
_ROW: Final = 34
_BOX: Final = 24
_LINE: Final = 20
_MAX_NODES: Final = 60
_MAX_DEPTH: Final = 8
_COLORS: Final = {
    "carried": "var(--good)",
    "basic": "var(--accent)",
    "craft": "var(--ink)",
    "unknown": "var(--bad)",
}
_SAID: Final = {
    "carried": "[x]",
    "basic": "[get]",
    "craft": "[craft]",
    "unknown": "[no command]",
}


def draw(game: CraftingGame, shown: Sequence[Recipe]) -> list[View]:
    """Draw a game; `shown` are the recipes of its commands."""
    tree = _Trees(game, shown).of_goal()
    carried = {
        spoken(name): str(count) if count < 10**9 else "more than a billion"
        for name, count in game.inventory.items()
    }
    held = Table(["carried", "count"], list(carried.items()), max_rows=50)
    said = TreeNode(
        f"{tree.label} {_SAID[tree.kind]}", children=[_said(child) for child in tree.children]
    )
    lines = "\n".join([*tree_lines(said), "", held.text() if carried else "carrying nothing"])
    return [_picture(tree, carried), text_view("text", "Recipes as text", lines)]


def _said(node: TreeNode) -> TreeNode:
    children = [_said(child) for child in node.children]
    return TreeNode(f"{node.label} {_SAID[node.kind]}", node.kind, children)


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
        any_of = "any " if part.generic else ""
        label = f"{part.count} {any_of}{spoken(part.name)}"
        held = (count for name, count in self._game.inventory.items() if world.accepts(part, name))
        if any(count >= part.count for count in held):
            return TreeNode(label, "carried")
        if part.name in world.obtainable:
            return TreeNode(label, "basic")
        recipes = [recipe for recipe in world.makers(part.name) if recipe in self._shown]
        full = next(self._nodes) > _MAX_NODES or len(above) > _MAX_DEPTH
        if not recipes or part.name in above or full:
            return TreeNode(label, "craft" if recipes else "unknown")
        recipe = recipes[0]
        if len(recipes) > 1:
            label += f" (1 of {len(recipes)} ways)"
        if recipe.item != part.name:
            label += f", as {spoken(recipe.item)}"
        below = above | {part.name}
        return TreeNode(label, "craft", [self._grow(one, below) for one in recipe.ingredients])


def _picture(tree: TreeNode, carried: Mapping[str, str]) -> View:
    root = place(tree)
    nodes = list(root.walk())
    columns = max(node.column for node in nodes) + 1
    rows = max(node.row for node in nodes) + 1
    items = list(carried.items())[:50]
    top = 30 + rows * _ROW
    drawing = Drawing(columns * _COLUMN + 10, top + 30 + max(1, len(items)) * _LINE)
    drawing.text(8, 14, "Recipes: green is carried, blue can be got", size=12, fill="var(--muted)")
    for node in nodes:
        x, y = 8 + node.column * _COLUMN, 30 + (node.row + 0.5) * _ROW
        for child in node.children:
            below = 30 + (child.row + 0.5) * _ROW
            bend, end = x + _COLUMN - 22, x + _COLUMN
            drawing.line([(end - 28, y), (bend, y), (bend, below), (end, below)])
        color = _COLORS[node.node.kind]
        width = _COLUMN - 28
        drawing.rectangle(
            x,
            y - _BOX / 2,
            width,
            _BOX,
            fill="var(--panel)",
            stroke=color,
            radius=4,
            tip=node.node.label,
        )
        label = node.node.label
        shown = label if len(label) <= 27 else f"{label[:26]}…"
        drawing.text(x + 6, y, shown, size=11, fill=color)
    drawing.text(8, top + 14, "Inventory", size=12, fill="var(--muted)")
    for number, (name, count) in enumerate(items):
        drawing.text(8, top + 34 + number * _LINE, f"{count} {name}", size=12)
    if not items:
        drawing.text(8, top + 34, "nothing", size=12)
    return drawing.view("recipes", "Recipes and inventory")
