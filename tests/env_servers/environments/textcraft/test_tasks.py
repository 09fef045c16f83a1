"""Which tasks there are, in which splits, and that they are the same everywhere."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from env_servers.environments.textcraft import TextCraft
from env_servers.environments.textcraft.embedded import divide_goals
from env_servers.environments.textcraft.official import first_observation, split_first_observation
from env_servers.environments.textcraft.tasks import DISTRACTORS, TRAIN_DRAWS, TextCraftTasks
from env_servers.environments.textcraft.world import spoken
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    ResetOptions,
    UnknownItem,
    UnknownSplit,
    load_environment,
)
from tests.kit.data import read_eval_ids

EVERYTHING = 10**6


def all_ids(tasks: TextCraftTasks, split: str) -> list[str]:
    return list(tasks.item_ids(split, 0, EVERYTHING))


def goals(tasks: TextCraftTasks, split: str) -> set[str]:
    return {tasks.get(item).payload.goal for item in all_ids(tasks, split)}


def opening(tasks: TextCraftTasks, item: str, **options: object) -> str:
    return TextCraft(tasks).reset(tasks.get(item), ResetOptions(options=options)).text


def test_the_registry_finds_the_environment() -> None:
    assert load_environment("textcraft") is TextCraft


def test_without_data_there_are_embedded_splits_only(embedded: TextCraftTasks) -> None:
    assert embedded.splits() == {"train": 4273, "eval": 118}
    assert all_ids(embedded, "train")[0] == f"textcraft_{EMBEDDED_BASE + 1}"


def test_no_goal_is_in_train_and_eval(embedded: TextCraftTasks) -> None:
    train, held_out = goals(embedded, "train"), goals(embedded, "eval")
    assert train.isdisjoint(held_out)
    assert len(train) == 244
    assert len(held_out) == 118


def test_no_two_tasks_of_the_embedded_splits_show_the_same(embedded: TextCraftTasks) -> None:
    shown = [
        opening(embedded, item) for split in ("train", "eval") for item in all_ids(embedded, split)
    ]
    assert len(set(shown)) == len(shown)


def test_train_has_many_draws_of_a_goal(embedded: TextCraftTasks) -> None:
    draws = Counter(embedded.get(item).payload.goal for item in all_ids(embedded, "train"))
    assert max(draws.values()) == TRAIN_DRAWS
    assert sum(count == TRAIN_DRAWS for count in draws.values()) > 0.8 * len(draws)


def test_tasks_that_no_split_has_keep_their_ids(embedded: TextCraftTasks) -> None:
    listed = {item for split in ("train", "eval") for item in all_ids(embedded, split)}
    for item, goal in (
        ("textcraft_1000000", "acacia_planks"),
        ("textcraft_1500000", "acacia_wood"),
    ):
        assert item not in listed
        assert opening(embedded, item).endswith(f"Goal: craft {spoken(goal)}.")


def test_every_goal_of_the_recordings_that_we_have_may_be_taught_and_no_other_official_one(
    official: TextCraftTasks,
) -> None:
    everything = [*all_ids(official, "official_train"), *all_ids(official, "official_eval")]
    payloads = [official.get(item).payload for item in everything]
    recorded = {payload.goal for payload in payloads if payload.recorded is not None}
    others = {payload.goal for payload in payloads} - recorded
    train = goals(official, "train")
    assert others.isdisjoint(train)
    goal_items = divide_goals(official.worlds["embedded"])
    assert recorded & set(goal_items.train) <= train
    assert goal_items.reserved == others & set(goal_items.train)


def test_categories_are_crafting_depths_one_to_four(embedded: TextCraftTasks) -> None:
    for split in ("train", "eval"):
        found = {embedded.category(item) for item in all_ids(embedded, split)}
        assert found == {"depth 1", "depth 2", "depth 3", "depth 4"}


def test_commands_hold_the_goals_tree_and_at_most_ten_distractors(
    embedded: TextCraftTasks,
) -> None:
    for item in all_ids(embedded, "eval"):
        assignment = embedded.get(item).payload
        tree = {recipe.command for recipe in embedded.worlds["embedded"].tree(assignment.goal)}
        commands = embedded.commands(assignment)
        assert tree <= set(commands)
        assert len(set(commands)) == len(commands) <= len(tree) + DISTRACTORS


def test_no_item_of_the_table_needs_itself(embedded: TextCraftTasks) -> None:
    world = embedded.worlds["embedded"]
    for item in world.recipes:
        parts = {part.name for recipe in world.tree(item) for part in recipe.ingredients}
        members = {member for part in parts for member in world.groups.get(part, ())}
        assert item not in parts | members


def test_every_basic_material_of_a_command_can_be_got(embedded: TextCraftTasks) -> None:
    world = embedded.worlds["embedded"]
    for recipes in world.recipes.values():
        for part in (part for recipe in recipes for part in recipe.ingredients):
            assert part.generic or part.name in world.recipes or part.name in world.obtainable


def test_embedded_tasks_are_the_same_on_every_machine(embedded: TextCraftTasks) -> None:
    """The figure changes only with the table or the drawing: then raise the spec's version."""
    shown = hashlib.blake2b(digest_size=8)
    for split in ("train", "eval"):
        for item in all_ids(embedded, split):
            shown.update(f"{item}\n{opening(embedded, item)}\n".encode())
    assert shown.hexdigest() == "41fd8eb1b88a65cd"


def test_unknown_items_and_splits_are_errors(embedded: TextCraftTasks) -> None:
    with pytest.raises(UnknownItem):
        embedded.get("textcraft_5")
    with pytest.raises(UnknownSplit):
        embedded.item_ids("test", 0, 1)


def test_the_first_observation_can_be_read_back() -> None:
    commands = ("craft 1 shears using 2 iron ingot", "craft 1 bowl using 3 planks")
    task = split_first_observation(first_observation("iron helmet", commands))
    assert task is not None
    assert (task.goal, task.commands) == ("iron_helmet", commands)
    assert split_first_observation("Inventory: You are not carrying anything.") is None


def test_a_reset_can_be_given_goal_and_commands(embedded: TextCraftTasks) -> None:
    item = all_ids(embedded, "train")[0]
    commands = "craft 4 oak planks using 1 oak logs\ncraft 1 oak boat using 5 oak planks"
    text = opening(embedded, item, goal="oak boat", commands=commands)
    assert text == f"Crafting commands:\n{commands}\n\nGoal: craft oak boat."
    assert opening(embedded, item, goal="oak_boat").endswith("Goal: craft oak boat.")


@pytest.mark.parametrize(
    "options", [{"gaol": "x"}, {"goal": 3}, {"goal": "sandwich"}, {"commands": "x" * 10**6}]
)
def test_options_that_do_not_exist_are_errors(
    embedded: TextCraftTasks, options: dict[str, object]
) -> None:
    with pytest.raises(InvalidOption):
        opening(embedded, all_ids(embedded, "train")[0], **options)


def test_an_unknown_profile_is_an_error(embedded: TextCraftTasks) -> None:
    with pytest.raises(InvalidOption):
        TextCraft(embedded).reset(
            embedded.get(all_ids(embedded, "train")[0]), ResetOptions(profile="nice")
        )


def test_the_official_world_has_the_sizes_of_the_recorded_one(official: TextCraftTasks) -> None:
    """Recorded ids change depth exactly at these borders: 140, 420 and 533."""
    world = official.worlds["official"]
    depths = [world.depth(goal) for goal in world.recipes]
    assert [depths.count(depth) for depth in range(1, 6)] == [140, 280, 113, 11, 0]


def test_every_official_id_stands_for_another_goal(official: TextCraftTasks) -> None:
    ids = [*all_ids(official, "official_train"), *all_ids(official, "official_eval")]
    assert sorted(int(item.removeprefix("textcraft_")) for item in ids) == list(range(544))
    assert len({official.get(item).payload.goal for item in ids}) == 544


def test_official_ids_run_through_the_goals_by_depth(official: TextCraftTasks) -> None:
    ids = [f"textcraft_{index}" for index in range(544)]
    categories = [official.category(item) for item in ids]
    assert categories == sorted(categories)


def test_no_train_goal_is_a_goal_of_official_eval(official: TextCraftTasks) -> None:
    held_out = goals(official, "official_eval")
    assert len(held_out) == 100
    assert held_out.isdisjoint(goals(official, "train") | goals(official, "official_train"))


def test_official_eval_is_agenteval(official: TextCraftTasks) -> None:
    assert sorted(all_ids(official, "official_eval")) == sorted(read_eval_ids("textcraft"))


def test_recorded_commands_all_exist_in_the_official_world(official: TextCraftTasks) -> None:
    """So each cycle was cut at the same place as on the machine that recorded them."""
    world = official.worlds["official"]
    for item in all_ids(official, "official_train"):
        assignment = official.get(item).payload
        if assignment.recorded is not None:
            assert world.by_command.keys() >= set(assignment.recorded)
            assert {recipe.command for recipe in world.tree(assignment.goal)} <= set(
                assignment.recorded
            )


def test_recipes_may_also_lie_in_a_folder(
    official: TextCraftTasks, data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "textcraft").mkdir()
    with tarfile.open(data_dir / "textcraft" / "recipes.tar.xz") as archive:
        archive.extractall(tmp_path / "textcraft", filter="data")
    tasks = TextCraft.load_tasks(EnvironmentConfig(tmp_path))
    assert tasks.worlds["official"].digest() == official.worlds["official"].digest()
    assert tasks.get("textcraft_31").payload.recorded is None
    assert goals(tasks, "train").isdisjoint(goals(tasks, "official_eval"))


def test_official_goals_can_be_injected_into_any_official_item(official: TextCraftTasks) -> None:
    text = opening(official, "textcraft_0", goal="flint and steel")
    assert "craft 1 flint and steel using 1 iron ingot, 1 flint" in text
    assert text.endswith(f"Goal: craft {spoken('flint_and_steel')}.")


def test_broken_official_files_are_reported(tmp_path: Path, data_dir: Path) -> None:
    (tmp_path / "textcraft").mkdir()
    archive = tmp_path / "textcraft" / "recipes.tar.xz"
    archive.write_bytes(b"no archive")
    with pytest.raises(EnvironmentUnavailable):
        TextCraft.load_tasks(EnvironmentConfig(tmp_path))
    archive.write_bytes((data_dir / "textcraft" / "recipes.tar.xz").read_bytes())
    (tmp_path / "agenttraj_l").mkdir()
    with gzip.open(tmp_path / "agenttraj_l" / "textcraft.jsonl.gz", "wt") as stream:
        stream.write('{"item_id": 3}\n')
    with pytest.raises(EnvironmentUnavailable):
        TextCraft.load_tasks(EnvironmentConfig(tmp_path))
