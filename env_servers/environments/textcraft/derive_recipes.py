"""Derives `recipes.tsv` from the item and recipe lists of the `minecraft_data` package.

Run once when the table is to be renewed; nothing at run time imports it:

    pip install minecraft_data==3.20.0
    python -m env_servers.environments.textcraft.derive_recipes

It owns the rules by which single recipes become generic ones and by which cycles are cut; the
result depends on the input lists alone, not on their order.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

VERSION: Final = "1.19"
OUTPUT: Final = Path(__file__).with_name("recipes.tsv")
HEADER: Final = (
    "# Crafting recipes. Derived by derive_recipes.py from minecraft_data 3.20.0 (MIT), game "
    f"version {VERSION}.\n# group <TAB> name <TAB> members\n"
    "# recipe <TAB> item <TAB> count <TAB> count name (a group is marked #) | ...\n"
)

Parts = tuple[tuple[str, int], ...]
"""(ingredient, count), sorted; a group is written with a leading #."""
Row = tuple[str, int, Parts]
"""(item, count made, ingredients)."""


def read_rows(folder: Path) -> tuple[set[Row], set[str]]:
    """Return every recipe with item names instead of numbers and places, and every item name."""
    items = {item["id"]: item["name"] for item in _read(folder / "items.json")}
    recipes: Mapping[str, list[dict[str, Any]]] = _read(folder / "recipes.json")
    rows: set[Row] = set()
    for item_recipes in recipes.values():
        for recipe in item_recipes:
            cells = recipe.get("ingredients") or [x for row in recipe["inShape"] for x in row]
            parts = Counter(items[cell] for cell in cells if cell is not None)
            result = recipe["result"]
            rows.add((items[result["id"]], result["count"], tuple(sorted(parts.items()))))
    return rows, set(items.values())


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def generic_groups(items: Iterable[str]) -> dict[str, set[str]]:
    """Groups whose members carry the group's name, so that an agent can tell them.

    Their names are those that a crafting command shows ("planks").
    """
    names = set(items)
    woods = {name.removesuffix("_planks") for name in names if name.endswith("_planks")}
    return {
        "planks": {f"{wood}_planks" for wood in woods},
        "wool": {name for name in names if name.endswith("_wool")},
        "wooden_slab": {f"{wood}_slab" for wood in woods},
    }


def natural_materials(items: Iterable[str]) -> dict[str, set[str]]:
    """Sets of raw wood that become one plain item, got under the set's own name ("oak logs").

    Nothing has to be crafted for them, so the kind does not matter; the original game names
    them in the same way.
    """
    names = set(items)
    sets: dict[str, set[str]] = {"logs": set()}
    for planks in sorted(name for name in names if name.endswith("_planks")):
        wood = planks.removesuffix("_planks")
        plural = f"{wood}_stems" if f"{wood}_stem" in names else f"{wood}_logs"
        kinds = {f"{wood}_{kind}" for kind in ("log", "wood", "stem", "hyphae")}
        sets[plural] = (kinds | {f"stripped_{kind}" for kind in kinds}) & names
        sets["logs"] |= sets[plural]
    return sets


def merge(rows: set[Row], members: set[str], name: str) -> set[Row]:
    """Replace recipes that differ in nothing but the member, one for each, by one recipe."""
    families: dict[tuple[str, int, Parts, int], set[str]] = defaultdict(set)
    for item, count, parts in rows:
        for part, amount in parts:
            if part in members:
                rest = tuple(other for other in parts if other[0] != part)
                families[item, count, rest, amount].add(part)
    merged = set(rows)
    for (item, count, rest, amount), family in families.items():
        if family == members:
            parts = (tuple(sorted((*rest, (part, amount)))) for part in family)
            merged.difference_update((item, count, old) for old in parts)
            merged.add((item, count, tuple(sorted((*rest, (name, amount))))))
    return merged


def without_unpacking(rows: set[Row]) -> set[Row]:
    """Drop the way back from a storage block: one block to the items that it is made of."""
    made_of = {(item, part) for item, _, parts in rows for part, _ in parts}
    return {
        (item, count, parts)
        for item, count, parts in rows
        if not (len(parts) == 1 and parts[0][1] == 1 and (parts[0][0], item) in made_of)
        or not parts[0][0].endswith("_block")
    }


def without_cycles(rows: set[Row], groups: Mapping[str, set[str]]) -> list[Row]:
    """Keep recipes as long as no item needs itself; recipes of fewer pieces go first."""
    needs: dict[str, set[str]] = defaultdict(set)
    acyclic: list[Row] = []
    for item, count, parts in sorted(rows, key=lambda row: (sum(n for _, n in row[2]), row)):
        inputs = {name for part, _ in parts for name in _expand(part, groups)}
        if not _reaches(inputs, item, needs):
            needs[item] |= inputs
            acyclic.append((item, count, parts))
    return sorted(acyclic)


def _expand(part: str, groups: Mapping[str, set[str]]) -> set[str]:
    return groups[part[1:]] if part.startswith("#") else {part}


def _reaches(start: set[str], goal: str, needs: Mapping[str, set[str]]) -> bool:
    seen: set[str] = set()
    waiting = sorted(start)
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            waiting.extend(sorted(needs.get(name, ())))
    return False


def derive(folder: Path) -> str:
    """Return the text of the table."""
    rows, items = read_rows(folder)
    groups = generic_groups(items)
    for name, members in groups.items():
        rows = merge(rows, members, f"#{name}")
    for name, members in natural_materials(items).items():
        rows = merge(rows, members, name)
    acyclic = without_cycles(without_unpacking(rows), groups)
    lines = [f"group\t{name}\t{' '.join(sorted(groups[name]))}" for name in sorted(groups)]
    for item, count, parts in acyclic:
        inputs = " | ".join(f"{amount} {part}" for part, amount in parts)
        lines.append(f"recipe\t{item}\t{count}\t{inputs}")
    return HEADER + "\n".join(lines) + "\n"


def source_folder() -> Path:
    """Return where the installed `minecraft_data` keeps its lists."""
    spec = importlib.util.find_spec("minecraft_data")
    if spec is None or spec.origin is None:
        raise SystemExit("install minecraft_data==3.20.0, or give --source")
    return Path(spec.origin).parent / "data" / "data" / "pc" / VERSION


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="derive recipes.tsv from minecraft_data")
    parser.add_argument("--source", type=Path, help="folder with items.json and recipes.json")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    options.output.write_text(derive(options.source or source_folder()), encoding="utf-8")


if __name__ == "__main__":
    main()
