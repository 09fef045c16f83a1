"""No statement changes a database, takes what it should not, or holds others up."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from env_servers.environments.bird import Bird
from env_servers.environments.bird.database import Database
from env_servers.environments.bird.guard import Limits
from env_servers.environments.bird.query_limits import QueryLimits
from env_servers.environments.bird.tasks import OFFICIAL_LIMITS, BirdTasks
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable
from tests.env_servers.environments.bird.conftest import (
    SHOP,
    SHOP_QUESTIONS,
    every_item,
    guarded,
    start,
    write_bird,
    write_database,
)
from tests.kit.data import REPOSITORY

READ_ONLY = "attempt to write a readonly database"
NUMBERS = """
CREATE TABLE number (n INTEGER PRIMARY KEY, text TEXT);
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000)
INSERT INTO number SELECT x, 'number ' || x FROM c;
CREATE INDEX by_text ON number(text);
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_database(tmp_path / "a folder?" / "numbers.sqlite", NUMBERS)


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    opened = guarded(path)
    yield opened
    opened.close()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


WRITES = (
    "DROP TABLE number",
    "DELETE FROM number",
    "INSERT INTO number VALUES (0, '')",
    "INSERT INTO number SELECT n + 9999, text FROM number RETURNING n",
    "UPDATE number SET text = ''",
    "REPLACE INTO number VALUES (1, '')",
    "ALTER TABLE number ADD COLUMN more",
    "CREATE TABLE other (a)",
    "CREATE TEMP TABLE other (a)",
    "CREATE INDEX i ON number(text)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON number BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE v USING fts5(a)",
    "REINDEX",
    "ANALYZE",
    "WITH x AS (SELECT 1) DELETE FROM number",
)
FORBIDDEN = (
    "ATTACH ':memory:' AS other",
    "ATTACH 'other.sqlite' AS other",
    "DETACH main",
    "VACUUM",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "SAVEPOINT a",
    "PRAGMA writable_schema = 1",
    "PRAGMA query_only = 0",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = 7",
    "PRAGMA mmap_size = 0",
    "PRAGMA hard_heap_limit = 1",
    "PRAGMA database_list",
    "PRAGMA temp_store_directory = '/'",
)


@pytest.mark.parametrize("statement", WRITES)
def test_writing_is_refused_in_the_original_words(
    database: Database, path: Path, statement: str
) -> None:
    before = digest(path)
    assert database.ask(statement).error == READ_ONLY
    assert digest(path) == before


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_what_is_neither_reading_nor_a_schema_look_up_is_refused(
    database: Database, path: Path, statement: str
) -> None:
    before = digest(path)
    assert database.ask(statement).error == "not authorized"
    assert digest(path) == before
    assert database.ask("SELECT COUNT(*) FROM number").rows == ((3000,),)


def test_vacuum_into_writes_no_file(database: Database, tmp_path: Path) -> None:
    target = tmp_path / "copy.sqlite"
    assert database.ask(f"VACUUM INTO '{target}'").error == "not authorized"
    assert not target.exists()


@pytest.mark.parametrize(
    "call",
    (
        "load_extension('x')",
        "randomblob(8)",
        "sqlite_version()",
        "sqlite_source_id()",
        "last_insert_rowid()",
        "fts3_tokenizer('x')",
    ),
)
def test_functions_that_reach_out_or_tell_machines_apart_are_refused(
    database: Database, call: str
) -> None:
    error = database.ask(f"SELECT {call}").error
    assert error is not None
    assert error.startswith(("not authorized to use function: ", "no such function: "))


@pytest.mark.parametrize(
    "table", ("dbstat", "sqlite_stmt", "pragma_database_list", "sqlite_dbpage")
)
def test_tables_about_the_machine_cannot_be_read(database: Database, table: str) -> None:
    assert database.ask(f"SELECT * FROM {table}").error in (READ_ONLY, f"no such table: {table}")


HEAVY = {
    "cross join": "SELECT COUNT(*) FROM number a, number b, number c",
    "endless recursion": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
    " SELECT COUNT(*) FROM c",
    "endless recursion without counting": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL"
    " SELECT x FROM c) SELECT x FROM c WHERE x = 2",
    "subquery per row": "SELECT COUNT(*) FROM number a, number b WHERE (SELECT SUM(c.n) FROM number"
    " c WHERE c.n > a.n) > b.n",
}


@pytest.mark.parametrize("statement", HEAVY.values(), ids=HEAVY)
def test_endless_work_ends_after_the_same_number_of_steps_every_time(
    path: Path, statement: str
) -> None:
    database = guarded(path, steps=1_000_000)
    one, other = database.ask(statement), database.ask(f"{statement} -- again")
    assert one.error == other.error == "query stopped: it needs more than 1000000 steps"
    assert one.steps == other.steps == 1_001_000
    database.close()


def test_the_embedded_databases_withstand_the_same(embedded: BirdTasks) -> None:
    item = every_item(embedded, "train")[0]
    path = embedded.get(item).payload.base.database.path()
    before = digest(path)
    for statement in HEAVY.values():
        episode, _ = start(embedded, item)
        last = episode.step(statement.replace("number", "customer").replace(".n", ".customer_id"))
        assert last.terminated
        assert last.reward == 0.0
        assert last.text == "query stopped: it needs more than 20000000 steps"
    for statement in (*WRITES, *FORBIDDEN, "SELECT 1 -- " + "x" * 1_000_000):
        last = start(embedded, item)[0].step(statement.replace("number", "customer"))
        assert (last.terminated, last.reward) == (True, 0.0)
    assert digest(path) == before
    assert path.stem.endswith(hashlib.blake2b(path.read_bytes()).hexdigest()[:32])


def test_results_have_limits(path: Path) -> None:
    database = guarded(path, rows=100, result_bytes=10_000)
    assert database.ask("SELECT n FROM number LIMIT 100").count == 100
    error = database.ask("SELECT n FROM number LIMIT 101").error
    assert error == "query stopped: its result has more than 100 rows"
    error = database.ask("SELECT printf('%9000d', n) FROM number").error
    assert error == "query stopped: its result is too large"
    database.close()


def test_memory_has_a_limit(path: Path) -> None:
    database = guarded(path, memory_bytes=48 * 2**20)
    many = "SELECT printf('%199000d', a.n) FROM number a, number b ORDER BY 1"
    for _ in range(3):
        assert database.ask(many).error == "query stopped: it needs too much memory"
    assert database.ask("SELECT MAX(n) FROM number").rows == ((3000,),)
    database.close()


@pytest.mark.parametrize(
    "statement",
    (
        "SELECT zeroblob(1000000000)",
        "SELECT hex(zeroblob(150000))",
        "SELECT replace(printf('%0100000d', 0), '0', '0123456789')",
        "WITH RECURSIVE c(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM c) SELECT x FROM c",
        "SELECT group_concat(printf('%1000d', n)) FROM number",
    ),
)
def test_values_have_a_limit(database: Database, statement: str) -> None:
    assert database.ask(statement).error == "string or blob too big"


def test_statements_have_limits(database: Database) -> None:
    assert database.ask("SELECT 1 -- " + "x" * 1_000_000).error == "query string is too large"
    deep = "SELECT " + "(" * 5000 + "1" + ")" * 5000
    assert database.ask(deep).error in ("parser stack overflow", "Recursion limit")
    error = database.ask("SELECT " + " + ".join(["1"] * 1000)).error
    assert error == "Expression tree is too large (maximum depth 200)"
    assert database.ask(" UNION ALL ".join(["SELECT 1"] * 100)).error is not None
    calls = database.ask("SELECT " + ", ".join(["abs(1)"] * 65))
    assert calls.error == "query refused: it has more than 64 calls"
    assert database.ask("SELECT " + ", ".join(["abs(1)"] * 64)).error is None


def test_any_text_is_answered(database: Database) -> None:
    for text in ("", ";", "--", "/*", "\0", "SELECT '\ud800'", "SELECT ?", "SELECT 1; SELECT 2"):
        outcome = database.ask(text)
        (outcome.error or "").encode()
        assert outcome.rows == ()


def test_random_numbers_are_the_same_in_every_statement(path: Path) -> None:
    statement = "SELECT random(), n FROM number ORDER BY random() LIMIT 5"
    one, other = guarded(path), guarded(path)
    first = one.ask(statement)
    assert first.error is None
    assert len({row[0] for row in first.rows}) == 5
    assert one.ask(f"{statement} -- again").rows == first.rows
    assert other.ask(statement).rows == first.rows


@pytest.mark.parametrize(
    ("expression", "value"),
    (
        ("date('now')", "2024-06-27"),
        ("date()", "2024-06-27"),
        ("DATETIME('NOW', '-1 day')", "2024-06-26 00:00:00"),
        ("strftime('%Y', 'now')", "2024"),
        ("strftime('%Y')", "2024"),
        ("time('now', 'localtime')", "00:00:00"),
        ("CURRENT_TIMESTAMP", "2024-06-27 00:00:00"),
        ("CURRENT_DATE || CURRENT_TIME", "2024-06-2700:00:00"),
        ("julianday('now') - julianday('2024-06-26')", 1.0),
        ("strftime('%m', '2021-12-31', '+1 day')", "01"),
        ("date('no date')", None),
        ("strftime('%Y', NULL)", None),
        ("date(2459000.5)", "2020-05-31"),
        ("strftime('%w', '2021-01-03')", "0"),
    ),
)
def test_clocks_stand_still_and_dates_compute_as_ever(
    database: Database, expression: str, value: object
) -> None:
    outcome = database.ask(f"SELECT {expression}")
    assert outcome.rows == ((value,),), outcome.error


def test_schema_look_ups_are_allowed(tmp_path: Path) -> None:
    database = guarded(write_database(tmp_path / "shop.sqlite", SHOP))
    for statement in (
        "PRAGMA table_info(Shop)",
        "SELECT name FROM pragma_table_info('Shop')",
        "PRAGMA foreign_key_list('Sale')",
        "SELECT sql FROM sqlite_master",
        "EXPLAIN QUERY PLAN SELECT * FROM Shop",
        "SELECT value FROM json_each('[1, 2]')",
    ):
        outcome = database.ask(statement)
        assert outcome.error is None
        assert outcome.rows


def test_light_statements_run_while_heavy_ones_do(path: Path) -> None:
    steps, seconds = 30_000_000, OFFICIAL_LIMITS.seconds
    database = guarded(path, steps=steps, seconds=seconds)
    heavy = [
        threading.Thread(target=database.ask, args=(f"{HEAVY['cross join']} -- {number}",))
        for number in range(3)
    ]
    for thread in heavy:
        thread.start()
    for number in range(50):
        outcome = database.ask(f"SELECT COUNT(*) FROM number WHERE n > {number}")
        assert outcome.rows == ((3000 - number,),)
    assert any(thread.is_alive() for thread in heavy)
    for thread in heavy:
        thread.join()


def test_a_damaged_file_is_nobodys_wrong_answer(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(EnvironmentUnavailable, match="malformed"):
        guarded(path).ask("SELECT COUNT(*) FROM number WHERE text > 'a'")


def test_importing_opens_nothing() -> None:
    script = (
        "import os, sqlite3\n"
        "sqlite3.connect = None\n"
        "import env_servers.environments.bird.environment\n"
        "names = [os.readlink(f'/proc/self/fd/{number}') for number in range(3, 20)\n"
        "         if os.path.lexists(f'/proc/self/fd/{number}')]\n"
        "assert not any('statm' in name for name in names), names"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=REPOSITORY)


def test_want_of_room_is_nobodys_wrong_answer(path: Path) -> None:
    no_room = QueryLimits(light=2, heavy=0, patience_seconds=0.01)
    database = Database("test", lambda: path, Limits(), no_room)
    for _ in range(20):
        with pytest.raises(EnvironmentUnavailable, match="too many others"):
            database.ask(HEAVY["cross join"])
    assert database.ask("SELECT COUNT(*) FROM number").rows == ((3000,),)


def test_a_gold_statement_that_the_machine_stops_gives_no_reward(tmp_path: Path) -> None:
    write_bird(tmp_path)
    long = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    rows = [SHOP_QUESTIONS[0] | {"SQL": long}]
    (tmp_path / "bird/dev/dev.json").write_text(json.dumps(rows))
    tasks = Bird.load_tasks(EnvironmentConfig(tmp_path))
    database = tasks.get("sqlgym_9428").payload.base.database
    database.limits = replace(database.limits, seconds=0.0)
    with pytest.raises(EnvironmentUnavailable, match="gold statement could not be run"):
        start(tasks, "sqlgym_9428")[0].step("SELECT 1")


def test_answers_that_the_machine_decides_are_not_remembered(path: Path) -> None:
    database = guarded(path, seconds=0.0)
    statement = "SELECT COUNT(*) FROM number a, number b WHERE a.n < 100 AND a.n + b.n < 50"
    assert database.ask(statement).error == "query stopped: it takes too long"
    database.limits = replace(database.limits, seconds=60.0)
    database.close()
    assert database.ask(statement).rows == ((1176,),)


def test_equal_statements_of_many_threads_get_equal_answers(path: Path) -> None:
    database = guarded(path)
    found: list[object] = []

    def ask(number: int) -> None:
        statement = f"SELECT SUM(n), COUNT(*) FROM number WHERE n % {number % 7 + 1} = 0"
        found.append((number % 7, database.ask(statement).rows))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 60
    assert len(set(found)) == 7
