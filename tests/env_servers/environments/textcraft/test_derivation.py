"""The rules by which the table of recipes is derived, on a handful of recipes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from env_servers.environments.textcraft.derive_recipes import OUTPUT, derive, source_folder

ITEMS = [
    "oak_planks",
    "birch_planks",
    "oak_log",
    "oak_wood",
    "stripped_oak_log",
    "stripped_oak_wood",
    "birch_log",
    "stick",
    "iron_ingot",
    "iron_nugget",
    "iron_block",
    "sign",
]


def write_lists(folder: Path, recipes: list[tuple[str, int, list[str]]]) -> Path:
    numbers = {name: number for number, name in enumerate(ITEMS, start=1)}
    items = [{"id": number, "name": name} for name, number in numbers.items()]
    lists: dict[str, list[object]] = {}
    for item, count, inputs in recipes:
        result = {"id": numbers[item], "count": count}
        cells = [numbers[name] for name in inputs]
        shaped = {"inShape": [[*cells[:2], None], cells[2:]], "result": result}
        loose = {"ingredients": cells, "result": result}
        lists.setdefault(str(numbers[item]), []).append(shaped if len(cells) > 2 else loose)
    (folder / "items.json").write_text(json.dumps(items))
    (folder / "recipes.json").write_text(json.dumps(lists))
    return folder


def rows(folder: Path) -> list[str]:
    lines = derive(folder).splitlines()
    return [line.replace("\t", " ") for line in lines if line.startswith("recipe")]


def test_recipes_that_differ_in_the_kind_become_generic(tmp_path: Path) -> None:
    folder = write_lists(
        tmp_path,
        [("stick", 4, ["oak_planks"] * 2), ("stick", 4, ["birch_planks"] * 2)],
    )
    assert rows(folder) == ["recipe stick 4 2 #planks"]


def test_a_recipe_for_one_kind_only_stays_specific(tmp_path: Path) -> None:
    folder = write_lists(tmp_path, [("sign", 3, ["oak_planks"] * 6 + ["stick"])])
    assert rows(folder) == ["recipe sign 3 6 oak_planks | 1 stick"]


def test_all_forms_of_raw_wood_become_one_material(tmp_path: Path) -> None:
    forms = ["oak_log", "oak_wood", "stripped_oak_log", "stripped_oak_wood"]
    folder = write_lists(tmp_path, [("oak_planks", 4, [form]) for form in forms])
    assert rows(folder) == ["recipe oak_planks 4 1 oak_logs"]


def test_storage_blocks_are_not_unpacked_and_cycles_are_cut(tmp_path: Path) -> None:
    folder = write_lists(
        tmp_path,
        [
            ("iron_ingot", 9, ["iron_block"]),
            ("iron_block", 1, ["iron_ingot"] * 9),
            ("iron_ingot", 1, ["iron_nugget"] * 9),
            ("iron_nugget", 9, ["iron_ingot"]),
        ],
    )
    assert rows(folder) == ["recipe iron_block 1 9 iron_ingot", "recipe iron_nugget 9 1 iron_ingot"]


@pytest.mark.skipif(
    importlib.util.find_spec("minecraft_data") is None, reason="needs minecraft_data==3.20.0"
)
def test_the_committed_table_is_what_the_script_derives() -> None:
    assert derive(source_folder()) == OUTPUT.read_text(encoding="utf-8")
