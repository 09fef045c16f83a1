"""Which questions there are, in which splits, and that their databases are the same everywhere."""

from __future__ import annotations

import hashlib
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from env_servers.environments.bird import Bird
from env_servers.environments.bird.domains import DOMAINS, Domain
from env_servers.environments.bird.embedded import cache_folder, find_or_build
from env_servers.environments.bird.tasks import EVAL_BASE, BirdTasks
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    UnknownItem,
    load_environment,
)
from tests.env_servers.environments.bird.conftest import every_item
from tests.kit.data import REPOSITORY

DIGESTS = {
    "retail": "c3f6015af967206ea34da3328fa0cdc4",
    "hospital": "195ad7a825b3df9392fe59f1b461459e",
    "library": "85d631bacfb50e6128d5dba8d3a4536e",
    "railway": "87873412a6538bded69fdd81cd063977",
    "league": "4e8a20ef8c9b85960f83b234b021d8a1",
}
by_name = pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)


def test_the_registry_finds_the_environment() -> None:
    assert load_environment("bird") is Bird


def test_without_data_there_are_embedded_splits_only(embedded: BirdTasks) -> None:
    assert embedded.splits() == {"train": 1320, "eval": 240}
    assert embedded.item_ids("train", 0, 1) == [f"bird_{EMBEDDED_BASE}"]
    assert embedded.item_ids("eval", 0, 1) == [f"bird_{EVAL_BASE}"]


def test_no_question_is_in_train_and_eval(embedded: BirdTasks) -> None:
    def asked(split: str) -> list[tuple[str, str]]:
        puzzles = [embedded.get(item).payload for item in every_item(embedded, split)]
        return [(puzzle.base.database.name, puzzle.question) for puzzle in puzzles]

    train, held_out = asked("train"), asked("eval")
    assert set(train).isdisjoint(held_out)
    assert len(set(train)) == len(train)
    assert len(set(held_out)) == len(held_out)


def test_both_splits_have_every_database_and_level(embedded: BirdTasks) -> None:
    for split in ("train", "eval"):
        tasks = [embedded.get(item) for item in every_item(embedded, split)]
        found = Counter((task.payload.base.database.name, task.category) for task in tasks)
        assert len(found) == 3 * len(DOMAINS)
        assert min(found.values()) >= 5


def test_listing_tasks_builds_no_database(tmp_path: Path) -> None:
    tasks = Bird.load_tasks(EnvironmentConfig(settings={"bird.cache": str(tmp_path / "cache")}))
    assert tasks.get(tasks.item_ids("eval", 7, 8)[0]).payload.question
    assert not (tmp_path / "cache").exists()


def test_every_gold_statement_gives_a_result_with_little_work(embedded: BirdTasks) -> None:
    trivial: list[str] = []
    for item in every_item(embedded, "train", "eval"):
        puzzle = embedded.get(item).payload
        outcome = puzzle.base.database.ask(puzzle.sql)
        assert outcome.error is None, puzzle
        assert 1 <= outcome.count <= 60, puzzle
        assert outcome.steps <= 2_000_000, puzzle
        assert any(value is not None for value in outcome.rows[0]), puzzle
        if set(outcome.rows) in ({(0,)}, {(0.0,)}, {("",)}):
            trivial.append(puzzle.question)
    assert not trivial


def test_gold_statements_agree_with_plain_sqlite(embedded: BirdTasks) -> None:
    """The guards replace functions; results must not feel it."""
    for item in every_item(embedded, "eval"):
        puzzle = embedded.get(item).payload
        plain = sqlite3.connect(f"file:{puzzle.base.database.path()}?mode=ro", uri=True)
        expected = plain.execute(puzzle.sql).fetchall()
        plain.close()
        assert list(puzzle.base.database.ask(puzzle.sql).rows) == expected


@by_name
def test_databases_are_of_the_promised_size_and_sound(domain: Domain, tmp_path: Path) -> None:
    connection = sqlite3.connect(find_or_build(domain, tmp_path))
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    names = [name for (name,) in tables if not name.startswith("sqlite_")]
    counts = [connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names]
    assert len(names) >= 6
    assert 20_000 <= sum(counts) <= 500_000
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


@by_name
def test_databases_are_the_same_everywhere(domain: Domain) -> None:
    """Schema and rows, whatever version of SQLite holds them."""
    digest = hashlib.blake2b(domain.ddl.encode(), digest_size=16)
    for table, rows in domain.rows(random.Random(domain.seed)):
        digest.update(table.encode())
        digest.update(repr(list(map(tuple, rows))).encode())
    assert digest.hexdigest() == DIGESTS[domain.name]


@by_name
def test_templates_are_worded_for_every_fill(domain: Domain) -> None:
    questions = domain.questions()
    assert len({question.text for question in questions}) == len(questions)
    for question in questions:
        for text in (question.text, question.sql, question.evidence, question.reason):
            assert "{" not in text
        assert question.text[0].isupper()
        assert question.text.endswith((".", "?"))
        assert "\n" not in question.sql


def test_a_database_is_built_once_and_found_again(tmp_path: Path) -> None:
    domain = DOMAINS[0]
    first = find_or_build(domain, tmp_path)
    written = first.stat().st_mtime_ns
    assert find_or_build(domain, tmp_path) == first
    assert first.stat().st_mtime_ns == written
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


@pytest.mark.parametrize("damage", ("cut off", "one byte", "empty"))
def test_a_damaged_file_is_built_anew(tmp_path: Path, damage: str) -> None:
    domain = DOMAINS[4]
    path = find_or_build(domain, tmp_path)
    content = bytearray(path.read_bytes())
    path.chmod(0o644)
    if damage == "one byte":
        content[len(content) // 2] ^= 1
    path.write_bytes({"cut off": content[:5000], "one byte": content, "empty": b""}[damage])
    again = find_or_build(domain, tmp_path)
    assert sqlite3.connect(again).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert content_of(again) == content_of(find_or_build(domain, tmp_path / "other"))


def content_of(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_folder_that_cannot_be_written_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = find_or_build(DOMAINS[4], tmp_path / "file" / "cache")
    assert path.is_file()
    assert tmp_path not in path.parents


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder(str(tmp_path)) == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder(None) == tmp_path / "agentgym-grpc" / "bird"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder(None).is_absolute()


def test_processes_that_start_together_share_one_file(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from env_servers.environments.bird.domains import DOMAINS\n"
        "from env_servers.environments.bird.embedded import find_or_build\n"
        "print(find_or_build(DOMAINS[4], Path(sys.argv[1])))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        for _ in range(4)
    ]
    found = {process.communicate()[0].strip() for process in running}
    assert len(found) == 1
    assert [str(path) for path in tmp_path.iterdir()] == list(found)


@pytest.mark.parametrize("item", ("sqlgym_0", "sqlgym_10961", "bird_5", "spider_0", "minidev_800"))
def test_published_questions_without_their_files_say_what_is_missing(
    embedded: BirdTasks, item: str
) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"AGENTGYM_DATA.*bird_1000000"):
        embedded.get(item)


@pytest.mark.parametrize("item", ("bird_10962", "bird_2000000", "retail_1", "bird_1001320"))
def test_items_that_never_existed_are_unknown(embedded: BirdTasks, item: str) -> None:
    with pytest.raises(UnknownItem):
        embedded.get(item)


def test_settings_are_checked() -> None:
    for value in ("many", 0, -5, "", []):
        with pytest.raises(InvalidOption, match=r"bird\.steps"):
            Bird.load_tasks(EnvironmentConfig(settings={"bird.steps": value}))
    tasks = Bird.load_tasks(EnvironmentConfig(settings={"bird.steps": "5000"}))
    database = tasks.get("bird_1000000").payload.base.database
    assert database.limits.steps == 5000
    assert tasks.digest() != Bird.load_tasks(EnvironmentConfig()).digest()
