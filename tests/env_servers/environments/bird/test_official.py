"""Published files: their layouts, AgentGym's numbers, and what is said when one is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from env_servers.environments.bird import Bird
from env_servers.environments.bird.database import check_file
from env_servers.environments.bird.tasks import BirdTasks
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, ResetOptions
from tests.env_servers.environments.bird.conftest import (
    SHOP,
    SHOP_QUESTIONS,
    every_item,
    start,
    write_bird,
    write_database,
    write_spider,
)

DESCRIPTION = (
    "shop contains tables such as shop, daily sale. Table shop has columns such as shop id, shop "
    "name, city. shop id is the primary key. Table daily sale has columns such as shop id, day, "
    "amount.  is the primary key. The day of daily sale is the foreign key of shop name of shop."
)


def load(folder: Path) -> BirdTasks:
    return Bird.load_tasks(EnvironmentConfig(folder))


def fails(folder: Path, *words: str) -> None:
    """Loading says every one of the words, where to get the files, and what can be played."""
    with pytest.raises(EnvironmentUnavailable) as caught:
        load(folder)
    for word in (*words, "https://", "the embedded databases are played"):
        assert word in str(caught.value)


@pytest.mark.parametrize("within", ("bird/dev", "bird/dev_20240627", "bird"))
def test_the_dev_set_follows_the_train_set(tmp_path: Path, within: str) -> None:
    tasks = load(write_bird(tmp_path, within=within))
    assert every_item(tasks, "official_eval") == ["sqlgym_9428", "sqlgym_9429", "sqlgym_9430"]
    assert tasks.get("bird_9428").item_id == "sqlgym_9428"
    assert tasks.get("sqlgym_9428").category == "simple"


@pytest.mark.parametrize("within", ("bird/train", "bird"))
def test_the_train_set_is_counted_from_zero(tmp_path: Path, within: str) -> None:
    tasks = load(write_bird(tmp_path, "train", within, "train.json"))
    assert every_item(tasks, "official_train") == ["sqlgym_0", "sqlgym_1", "sqlgym_2"]


@pytest.mark.parametrize("within", ("bird/minidev/MINIDEV", "bird/mini_dev", "minidev/MINIDEV"))
def test_mini_dev_has_ids_of_its_own(tmp_path: Path, within: str) -> None:
    tasks = load(write_bird(tmp_path, "dev", within, "mini_dev_sqlite.json"))
    assert every_item(tasks, "official_mini_dev") == ["minidev_0", "minidev_1", "minidev_2"]


def test_spider_has_ids_of_its_own(tmp_path: Path) -> None:
    tasks = load(write_spider(tmp_path))
    assert every_item(tasks, "official_spider_dev") == ["spider_0", "spider_1"]
    train = ["spidertrain_0", "spidertrain_1", "spidertrain_2"]
    assert every_item(tasks, "official_spider_train") == train
    episode, first = start(tasks, "spider_0")
    assert first.text == f"{DESCRIPTION}\n\nHow many shops are in Oslo?"
    assert episode.step("SELECT 2").reward == 1.0


def test_sets_are_served_side_by_side(tmp_path: Path) -> None:
    write_bird(tmp_path, "train", "bird/train", "train.json")
    write_bird(tmp_path)
    write_spider(tmp_path)
    tasks = load(tmp_path)
    assert list(tasks.splits()) == [
        *("train", "eval", "official_train", "official_eval"),
        *("official_spider_train", "official_spider_dev"),
    ]
    assert tasks.digest() != load_without(tmp_path, "bird/train").digest()


def load_without(folder: Path, part: str) -> BirdTasks:
    shutil.rmtree(folder / part)
    return load(folder)


def test_agent_evals_questions_are_held_out(tmp_path: Path) -> None:
    write_bird(tmp_path)
    (tmp_path / "agenteval").mkdir()
    chosen = [{"item_id": "sqlgym_9429"}, {"item_id": "sqlgym_10000"}]
    (tmp_path / "agenteval" / "sqlgym_test.json").write_text(json.dumps(chosen))
    tasks = load(tmp_path)
    assert every_item(tasks, "official_eval") == ["sqlgym_9429"]
    assert every_item(tasks, "official_dev") == ["sqlgym_9428", "sqlgym_9430"]


def test_the_evidence_is_shown_where_the_original_is_not_imitated(tmp_path: Path) -> None:
    tasks = load(write_bird(tmp_path))
    assert start(tasks, "sqlgym_9428")[1].text == f"{DESCRIPTION}\n\nHow many shops are in Oslo?"
    for profile in ("fixed", "multi_turn"):
        text = start(tasks, "sqlgym_9428", profile)[1].text
        assert "\n\nHow many shops are in Oslo?\nHint: in Oslo means City = 'Oslo'" in text
    assert 'Shop(ShopID INTEGER PRIMARY KEY, "Shop Name" TEXT' in (
        start(tasks, "sqlgym_9428", "fixed")[1].text
    )


def test_rows_are_compared_as_sets(tmp_path: Path) -> None:
    tasks = load(write_bird(tmp_path))
    for answer, reward in (
        ("SELECT City FROM Shop", 1.0),
        ("SELECT DISTINCT City FROM Shop ORDER BY City", 1.0),
        ("SELECT 'Oslo' UNION SELECT 'Bergen'", 1.0),
        ("SELECT City FROM Shop WHERE City = 'Oslo'", 0.0),
        ("SELECT City, 1 FROM Shop", 0.0),
    ):
        assert start(tasks, "sqlgym_9429")[0].step(answer).reward == reward
    for answer in ("SELECT 2", "SELECT 2.0", "SELECT COUNT(*) - 1 FROM Shop"):
        assert start(tasks, "sqlgym_9428")[0].step(answer).reward == 1.0


def test_what_is_no_query_equals_an_empty_result_in_the_original_only(tmp_path: Path) -> None:
    tasks = load(write_bird(tmp_path))
    for nothing in ("", "-- nothing", "EXPLAIN"):
        expected = float(nothing != "EXPLAIN")
        assert start(tasks, "sqlgym_9430")[0].step(nothing).reward == expected
        assert start(tasks, "sqlgym_9430", "fixed")[0].step(nothing).reward == 0.0
    assert start(tasks, "sqlgym_9430", "fixed")[0].step("SELECT 1 WHERE 0").reward == 1.0


def test_a_gold_statement_that_fails_gives_nobody_a_reward(tmp_path: Path) -> None:
    write_bird(tmp_path)
    rows = [SHOP_QUESTIONS[0] | {"SQL": "SELECT nonsense"}]
    (tmp_path / "bird/dev/dev.json").write_text(json.dumps(rows))
    for answer in ("SELECT nonsense", "SELECT 1", ""):
        assert start(load(tmp_path), "sqlgym_9428")[0].step(answer).reward == 0.0


def test_a_question_without_its_database_is_known_and_not_offered(tmp_path: Path) -> None:
    tasks = load(write_bird(tmp_path))
    assert "sqlgym_9431" not in every_item(tasks, *tasks.splits())
    with pytest.raises(EnvironmentUnavailable) as caught:
        tasks.get("sqlgym_9431")
    assert str(tmp_path / "bird/dev/dev_databases/other/other.sqlite") in str(caught.value)


def test_a_folder_without_questions_is_reported(tmp_path: Path) -> None:
    (tmp_path / "bird").mkdir()
    (tmp_path / "bird" / "dev.zip").write_bytes(b"PK")
    fails(tmp_path, str(tmp_path / "bird"), "has no questions", "Unpack dev.zip", "dev/dev.json")


def test_a_missing_tables_file_is_reported(tmp_path: Path) -> None:
    write_bird(tmp_path)
    (tmp_path / "bird/dev/dev_tables.json").unlink()
    fails(tmp_path, "has dev.json and lacks dev_tables.json")


@pytest.mark.parametrize("file", ("dev.json", "dev_tables.json"))
def test_a_broken_off_file_is_reported(tmp_path: Path, file: str) -> None:
    path = write_bird(tmp_path) / "bird/dev" / file
    path.write_bytes(path.read_bytes()[:200])
    fails(tmp_path, f"cannot read {path}", "broken off")


@pytest.mark.parametrize("content", ("[]", "{}", "[1]", '[{"db_id": "shop"}]', "null"))
def test_questions_of_another_form_are_reported(tmp_path: Path, content: str) -> None:
    (write_bird(tmp_path) / "bird/dev/dev.json").write_text(content)
    fails(tmp_path)


def test_missing_databases_are_reported(tmp_path: Path) -> None:
    write_bird(tmp_path)
    shutil.rmtree(tmp_path / "bird/dev/dev_databases")
    (tmp_path / "bird/dev/dev_databases.zip").write_bytes(b"PK")
    fails(tmp_path, "none of their databases", "dev_databases/", "Unpack dev_databases.zip")


@pytest.mark.parametrize("length", (0, 50, 3000))
def test_a_broken_off_database_is_reported(tmp_path: Path, length: int) -> None:
    write_bird(tmp_path)
    path = tmp_path / "bird/dev/dev_databases/shop/shop.sqlite"
    path.write_bytes(path.read_bytes()[:length])
    fails(tmp_path, str(path), "broke off")


def test_whole_databases_pass_the_check(tmp_path: Path, data_dir: Path) -> None:
    check_file(write_database(tmp_path / "shop.sqlite", SHOP))
    for path in data_dir.glob("**/*.sqlite"):
        check_file(path)


def test_no_data_folder_for_it_leaves_the_embedded_tasks(tmp_path: Path) -> None:
    assert list(load(tmp_path).splits()) == ["train", "eval"]


def test_the_expert_speaks_of_published_questions_truly(tmp_path: Path) -> None:
    episode, _ = start(load(write_bird(tmp_path)), "sqlgym_9428")
    for seed in range(8):
        thought = episode.advise_expert(seed).thought
        assert "the table Shop" in thought or "The table Shop" in thought
        assert "count" in thought.lower()
        assert "join" not in thought.lower()


def _gold_scores(tasks: BirdTasks, items: list[str]) -> list[str]:
    """Items whose gold statement does not score 1."""
    missed: list[str] = []
    for item in items:
        episode = Bird(tasks)
        episode.reset(tasks.get(item), ResetOptions())
        if episode.step(episode.advise_expert(0).action).reward != 1.0:
            missed.append(item)
    return missed


def test_gold_statements_of_the_available_databases_score_one(official: BirdTasks) -> None:
    splits = [split for split in official.splits() if split.startswith("official")]
    items = every_item(official, *splits)
    assert len(items) >= 1300
    assert _gold_scores(official, items[::5]) == []


@pytest.mark.slow
def test_every_gold_statement_of_the_available_databases_scores_one(official: BirdTasks) -> None:
    splits = [split for split in official.splits() if split.startswith("official")]
    assert _gold_scores(official, every_item(official, *splits)) == []


@pytest.mark.slow
def test_the_expert_works_in_rounds_on_published_questions(official: BirdTasks) -> None:
    for item in every_item(official, "official_train", "official_mini_dev", "official_spider_dev"):
        episode, last = start(official, item, "multi_turn")
        while not (last.terminated or last.truncated):
            last = episode.step(episode.advise_expert(1).action)
        assert last.reward == 1.0, item
