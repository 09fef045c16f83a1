"""Official games: AgentGym's numbers, splits, and what is said of files that are missing or bad."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.tasks import AlfworldTasks, Source
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    ResetOptions,
    UnknownItem,
    UnknownSplit,
    load_environment,
)
from env_servers.sdk.contract import EnvironmentContract, Terms
from tests.env_servers.environments.alfworld.conftest import play, solve, start
from tests.kit.data import read_eval_ids

EVAL_ARCHIVE = "json_2.1.1-valid_train.tar.xz"


def load(folder: Path, **settings: str) -> AlfworldTasks:
    return Alfworld.load_tasks(EnvironmentConfig(folder, settings))


def mapping(index: int, task: str, trial: str) -> str:
    return json.dumps([{"item_id": index, "task_type": task, "task_id": trial}])


@pytest.fixture
def tree(tmp_path: Path, data_dir: Path) -> Path:
    """One official game, unpacked as `alfworld-download` does, with the mappings beside it."""
    home = tmp_path / "alfworld"
    home.mkdir()
    for name in ("mappings_train.json", "mappings_test.json"):
        shutil.copy(data_dir / "alfworld" / name, home / name)
    rows = json.loads((home / "mappings_test.json").read_text())
    wanted = f"valid_train/{rows[0]['task_type']}/{rows[0]['task_id']}/game.tw-pddl"
    with tarfile.open(data_dir / "alfworld" / EVAL_ARCHIVE) as archive:
        archive.extract(wanted, home / "json_2.1.1", filter="data")
    return tmp_path


def test_the_registry_finds_the_environment() -> None:
    assert load_environment("alfworld") is Alfworld


def test_official_eval_is_agenteval(official: AlfworldTasks) -> None:
    assert list(official.item_ids("official_eval", 0, 1000)) == read_eval_ids("alfworld")


def test_official_train_holds_the_mapped_games_that_are_there(official: AlfworldTasks) -> None:
    ids = official.item_ids("official_train", 0, 10_000)
    numbers = [int(item.removeprefix("alfworld_")) for item in ids]
    assert numbers == sorted(numbers)
    assert set(numbers) <= set(range(2420))
    assert {official.category(item) for item in ids} <= {
        official.category(item) for item in official.item_ids("train", 0, 6)
    }


def test_only_solvable_held_out_games_are_listed(official: AlfworldTasks) -> None:
    ids = official.item_ids("official_valid_unseen", 0, 1000)
    assert len(ids) == 134
    assert ids[0] == "alfworld_valid_unseen_0"
    assert official.get(ids[5]).item_id == ids[5]


@pytest.mark.parametrize("split", ["official_train", "official_eval", "official_valid_unseen"])
def test_the_expert_solves_official_games_within_the_rounds(
    official: AlfworldTasks, split: str
) -> None:
    for item in official.item_ids(split, 0, 10_000)[::9]:
        episode, _ = start(official, item)
        assert solve(episode)[0].reward == 1.0, item


@pytest.mark.slow
@pytest.mark.parametrize("split", ["official_train", "official_eval", "official_valid_unseen"])
def test_the_expert_solves_every_official_game(official: AlfworldTasks, split: str) -> None:
    for item in official.item_ids(split, 0, 10_000):
        episode, _ = start(official, item)
        assert solve(episode)[0].reward == 1.0, item


def test_an_unpacked_tree_gives_the_same_game_as_the_archive(
    tree: Path, official: AlfworldTasks
) -> None:
    tasks = load(tree)
    assert tasks.splits()["official_eval"] == 1
    assert start(tasks, "alfworld_2420")[1] == start(official, "alfworld_2420")[1]


def test_a_tree_may_also_be_given_by_its_own_folder(tree: Path) -> None:
    assert load(tree / "alfworld").splits()["official_eval"] == 1


def test_todays_grammar_is_read_too(tree: Path) -> None:
    game = next(tree.rglob("game.tw-pddl"))
    data = json.loads(game.read_text())
    for old, new in (
        ("put {o} in/on {r}", "move {o} to {r}"),
        ("You put the {o.name} in/on the {r.name}.", "You move the {o.name} to the {r.name}."),
        ("You arrive at {lend.name}.", "You arrive at {r.name}."),
    ):
        assert old in data["grammar"]
        data["grammar"] = data["grammar"].replace(old, new)
    game.write_text(json.dumps(data))
    episode, _ = start(load(tree), "alfworld_2420")
    arrived = play(episode, episode.advise_expert(0).action)[0]
    assert arrived.startswith("You arrive at ")
    said = []
    while not said or not said[-1].terminated:
        said.append(episode.step(episode.advise_expert(0).action))
    assert said[-1].text.startswith("You move the mug ")


def test_without_data_an_official_item_says_how_to_get_it(embedded: AlfworldTasks) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"alfworld-download.*embedded games"):
        embedded.get("alfworld_7")
    with pytest.raises(UnknownSplit):
        embedded.item_ids("official_train", 0, 1)


def test_a_missing_game_is_named_with_the_place_where_it_belongs(tree: Path) -> None:
    tasks = load(tree)
    with pytest.raises(EnvironmentUnavailable) as caught:
        tasks.get("alfworld_2421")
    text = str(caught.value)
    assert "alfworld_2421: the game json_2.1.1/valid_train/pick_two_obj_and_place-" in text
    assert str(tree / "alfworld" / "json_2.1.1" / "valid_train") in text
    assert "alfworld-download" in text
    assert "embedded" in text
    assert tasks.get("alfworld_1000000").category == "pick_and_place_simple"


def test_a_game_that_vanishes_is_named(tree: Path) -> None:
    tasks = load(tree)
    task = tasks.get("alfworld_2420")
    next(tree.rglob("game.tw-pddl")).unlink()
    with pytest.raises(EnvironmentUnavailable, match="is missing: expected at"):
        Alfworld(tasks).reset(task, ResetOptions())


def test_a_half_downloaded_game_is_named(tree: Path) -> None:
    game = next(tree.rglob("game.tw-pddl"))
    game.write_bytes(game.read_bytes()[:5000])
    tasks = load(tree)
    with pytest.raises(EnvironmentUnavailable, match="is damaged: the game file is no JSON"):
        start(tasks, "alfworld_2420")


def test_a_half_downloaded_archive_is_named(tmp_path: Path, data_dir: Path) -> None:
    whole = (data_dir / "alfworld" / EVAL_ARCHIVE).read_bytes()
    (tmp_path / EVAL_ARCHIVE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EnvironmentUnavailable, match="half there") as caught:
        load(tmp_path)
    assert EVAL_ARCHIVE in str(caught.value)
    (tmp_path / EVAL_ARCHIVE).write_bytes(b"no archive")
    with pytest.raises(EnvironmentUnavailable, match="embedded games"):
        load(tmp_path)


def test_a_missing_or_broken_mapping_is_named(tree: Path) -> None:
    path = tree / "alfworld" / "mappings_test.json"
    path.unlink()
    with pytest.raises(EnvironmentUnavailable, match=r"in no mapping.*mappings_test\.json"):
        load(tree).get("alfworld_2420")
    bad = ("[", "[3]", "{}3", mapping(0, "..", ".."), mapping(0, "a/b", "c"), '[{"item_id": 1}]')
    for content in bad:
        path.write_text(content)
        with pytest.raises(EnvironmentUnavailable, match="is damaged"):
            load(tree)


def test_any_game_of_the_tree_can_be_named_in_a_reset(official: AlfworldTasks) -> None:
    source = official.get("alfworld_2420").payload
    episode, first = start(official, "alfworld_1000000", game=source.path)
    assert first == start(official, "alfworld_2420")[1]
    assert solve(episode)[0].reward == 1.0


@pytest.mark.parametrize("game", ["train/a/b", "train/../b", "etc/passwd/x", "train/a", 3])
def test_games_that_are_not_there_cannot_be_named(official: AlfworldTasks, game: object) -> None:
    with pytest.raises(InvalidOption):
        start(official, "alfworld_1000000", game=game)


@pytest.mark.parametrize(
    "item", ["alfworld_2620", "alfworld_999999", "alfworld_valid_unseen_134", "babyai_1"]
)
def test_items_outside_all_ranges_are_unknown(official: AlfworldTasks, item: str) -> None:
    with pytest.raises(UnknownItem):
        official.get(item)


def test_games_are_shared_and_the_oldest_are_let_go(embedded: AlfworldTasks) -> None:
    source = embedded.get("alfworld_1000000").payload
    game = embedded.game(source)
    assert embedded.game(Source("train", 0)) is game
    for number in range(1, 300):
        embedded.game(Source("train", number))
    assert embedded.game(source) is not game


@pytest.mark.parametrize("settings", [{"alfworld.engine": "magic"}, {"alfworld.enigne": "native"}])
def test_settings_that_do_not_exist_are_errors(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidOption):
        Alfworld.load_tasks(EnvironmentConfig(settings=settings))


def test_settings_of_other_environments_do_not_matter() -> None:
    assert Alfworld.load_tasks(EnvironmentConfig(settings={"echo.engine": "x"})).engine == "native"


class TestOfficialContract(EnvironmentContract):
    """Every promise again, on official games."""

    environment_name = "alfworld"
    terms = Terms(items_per_split=2, expert_items_per_split=5)

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _data(cls, data_dir: Path) -> None:
        cls.config = EnvironmentConfig(data_dir)
