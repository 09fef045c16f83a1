"""Reads the official TextCraft files: the recipe folder, and AgentTraj-L's recorded tasks.

Contains their formats and the order in which recipes are taken, on which the original's game
depends. Nothing here is executed or written to disk; the archive is read in memory.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from env_servers.environments.textcraft.world import Ingredient, Recipe, World, item_id
from env_servers.sdk import EnvironmentUnavailable

__all__ = [
    "RECORDED_PREFIX",
    "OfficialRecipes",
    "RecordedTask",
    "first_observation",
    "read_recipes",
    "read_recorded",
    "split_first_observation",
]

RECORDED_PREFIX: Final = "Instruction:\n"
"""Stands before every observation in AgentTraj-L; the client and the server do not write it."""

_LOADED_FIRST: Final = ("honey_bottle.json", "iron_nugget.json")
"""Cycles (ingots and nuggets, honey blocks and bottles) keep whichever recipe is loaded first; in
the original that was the folder's own order. This choice gives AgentTraj-L's game: of each of the
three cycles the recorded commands show exactly the recipe that is kept here. Recordings of other
machines show other cuts."""

_MAX_FILE: Final = 64 * 1024
_NAMESPACE: Final = "minecraft:"


class RecordedTask(NamedTuple):
    """What a recorded conversation asked for."""

    goal: str
    """Item id."""
    commands: tuple[str, ...]
    """Crafting commands in the order shown."""


class _Loaded(NamedTuple):
    """One recipe file, before groups are known."""

    recipe: Recipe
    group: str


def first_observation(goal: str, commands: tuple[str, ...]) -> str:
    """Return what a reset shows; `goal` as the agent reads it."""
    return "Crafting commands:\n" + "\n".join(commands) + f"\n\nGoal: craft {goal}."


def split_first_observation(text: str) -> RecordedTask | None:
    """Return the task of a recorded first observation; None where the text is none."""
    body = text.removeprefix(RECORDED_PREFIX)
    head, separator, goal = body.partition("\n\nGoal: craft ")
    if not separator or not head.startswith("Crafting commands:\n") or not goal.endswith("."):
        return None
    commands = tuple(head.removeprefix("Crafting commands:\n").split("\n"))
    return RecordedTask(item_id(goal[:-1]), commands)


def read_recorded(data_dir: Path) -> dict[int, RecordedTask]:
    """Recorded tasks by AgentGym's integer; empty where AgentTraj-L is not there.

    Reads `agenttraj_l/textcraft.jsonl.gz` or the published list `agenttraj_l/textcraft_train.json`.
    """
    folder = data_dir / "agenttraj_l"
    tasks: dict[int, RecordedTask] = {}
    try:
        for row in _conversations(folder):
            _, _, digits = row["item_id"].rpartition("_")
            task = split_first_observation(row["conversations"][2]["value"])
            if task is not None and digits.isdecimal():
                tasks.setdefault(int(digits), task)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EnvironmentUnavailable(f"cannot read AgentTraj-L in {folder}: {error!r}") from error
    return tasks


def _conversations(folder: Path) -> Iterator[Mapping[str, Any]]:
    lines, published = folder / "textcraft.jsonl.gz", folder / "textcraft_train.json"
    if lines.is_file():
        with gzip.open(lines, "rt", encoding="utf-8") as stream:
            yield from map(json.loads, stream)
    elif published.is_file():
        yield from json.loads(published.read_text(encoding="utf-8"))


class OfficialRecipes:
    """The recipe files as worlds: one for each way to cut the cycles."""

    def __init__(self, files: Mapping[str, Any]) -> None:
        """Take recipe files by name, whatever order they come in."""
        names = sorted(files, key=lambda name: (name not in _LOADED_FIRST, name))
        entries = (_recipe(files[name]) for name in names)
        self._loaded = [entry for entry in entries if entry is not None]
        self._worlds: dict[frozenset[str], World] = {}
        self._cut: frozenset[str] = frozenset()
        kept = self.world().by_command
        crafting = (entry.recipe for entry in self._loaded if not _unpacks(entry.recipe))
        self._cut = frozenset(recipe.command for recipe in crafting if recipe.command not in kept)

    def world(self, commands: Iterable[str] = ()) -> World:
        """Return the world in which every cycle keeps the recipe that the commands list.

        A cycle of which they list nothing is cut as in AgentTraj-L. Of two recipes of one cycle
        only one can be kept, so that a list with both has a command that the world lacks.
        """
        listed = self._cut.intersection(commands)
        if listed not in self._worlds:
            order = sorted(self._loaded, key=lambda entry: entry.recipe.command not in listed)
            name = ", ".join(("official", *sorted(listed)))
            self._worlds[listed] = _build_world(order, name)
        return self._worlds[listed]


def read_recipes(data_dir: Path) -> OfficialRecipes | None:
    """Return the official recipes, or None where there are none.

    Reads `textcraft/recipes.tar.xz`, or the folder `textcraft/recipes` of JSON files.
    """
    archive, folder = data_dir / "textcraft" / "recipes.tar.xz", data_dir / "textcraft" / "recipes"
    if not archive.is_file() and not folder.is_dir():
        return None
    try:
        files = _from_archive(archive) if archive.is_file() else _from_folder(folder)
        return OfficialRecipes(files)
    except (OSError, EOFError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentUnavailable(f"cannot read TextCraft's recipes: {error!r}") from error


def _from_archive(path: Path) -> dict[str, Any]:
    files: dict[str, Any] = {}
    with tarfile.open(path, "r:xz") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".json") and member.size <= _MAX_FILE:
                content = archive.extractfile(member)
                if content is not None:
                    files[Path(member.name).name] = json.load(content)
    return files


def _from_folder(path: Path) -> dict[str, Any]:
    return {file.name: json.loads(file.read_text("utf-8")) for file in path.glob("*.json")}


def _build_world(loaded: list[_Loaded], name: str) -> World:
    """Return the original's game from recipes in the order in which it loads them."""
    items = {entry.recipe.item for entry in loaded}
    tags: dict[str, list[str]] = {}
    for entry in loaded:
        for part in entry.recipe.ingredients:
            if part.generic:
                tags.setdefault(part.name, [])
            else:
                items.add(part.name)
    acyclic = _acyclic([entry for entry in loaded if not _unpacks(entry.recipe)], tags)
    craftable = {recipe.item for recipe in acyclic}
    used = {part.name for recipe in acyclic for part in recipe.ingredients if part.generic}
    # A generic ingredient of which no kind can be crafted is a plain item ("oak logs").
    plain = {tag for tag in used if craftable.isdisjoint(tags[tag])}
    groups = {tag: members for tag, members in tags.items() if tag not in plain}
    recipes = [_with_plain(recipe, plain) for recipe in acyclic]
    return World(recipes, groups, items | plain, name=name)


def _acyclic(loaded: list[_Loaded], tags: dict[str, list[str]]) -> list[Recipe]:
    """Skip each recipe whose ingredients are known to need its result; fills `tags`.

    As in the original, dependencies are those known when a recipe is read: they are not
    recomputed for recipes that came earlier.
    """
    needs: dict[str, set[str]] = {}
    group_of: dict[str, str] = {}
    acyclic: list[Recipe] = []
    for recipe, group in loaded:
        if group and group != recipe.item:
            tags.setdefault(group, [])
            group_of[recipe.item] = group
        own = needs.setdefault(recipe.item, set())
        inputs = [part.name for part in recipe.ingredients]
        if any(recipe.item in needs.get(name, ()) for name in inputs):
            continue
        acyclic.append(recipe)
        for name in inputs:
            own.add(name)
            own |= needs.get(name, set())
    for item, group in group_of.items():
        tags[group].append(item)
    return acyclic


def _unpacks(recipe: Recipe) -> bool:
    """Recipes from nothing but a block are left out by the original."""
    return len(recipe.ingredients) == 1 and recipe.ingredients[0].name.endswith("_block")


def _with_plain(recipe: Recipe, plain: set[str]) -> Recipe:
    parts = tuple(
        Ingredient(part.name, part.count, part.generic and part.name not in plain)
        for part in recipe.ingredients
    )
    return Recipe(recipe.item, recipe.count, parts)


def _recipe(file: Mapping[str, Any]) -> _Loaded | None:
    """Return a crafting recipe file, or None for other kinds (smelting and so on)."""
    kind = file["type"]
    if kind == "minecraft:crafting_shaped":
        parts = _shaped(file)
    elif kind == "minecraft:crafting_shapeless":
        parts = _shapeless(file)
    else:
        return None
    result = file["result"]
    item, count = (result, 1) if isinstance(result, str) else (result["item"], result.get("count"))
    return _Loaded(Recipe(_bare(item), count or 1, parts), file.get("group", ""))


def _shaped(file: Mapping[str, Any]) -> tuple[Ingredient, ...]:
    rows: list[str] = file["pattern"]
    return tuple(
        Ingredient(*_choice(cell, sum(row.count(symbol) for row in rows)))
        for symbol, cell in file["key"].items()
    )


def _shapeless(file: Mapping[str, Any]) -> tuple[Ingredient, ...]:
    parts: dict[str, Ingredient] = {}
    for cell in file["ingredients"]:
        name, count, generic = _choice(cell, 1)
        before = parts[name].count if name in parts else 0
        parts[name] = Ingredient(name, before + count, generic)
    return tuple(parts.values())


def _choice(cell: Any, count: int) -> tuple[str, int, bool]:
    """Return the first alternative of a recipe cell."""
    first = cell[0] if isinstance(cell, list) else cell
    generic = "item" not in first
    return _bare(first["tag"] if generic else first["item"]), count, generic


def _bare(name: str) -> str:
    return name.removeprefix(_NAMESPACE)
