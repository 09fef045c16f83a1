"""Statements run in workers: what these bound, what they answer, and what is left of them."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.bird.database import Database
from env_servers.environments.bird.guard import Limits
from env_servers.environments.bird.query_limits import QueryLimits
from env_servers.environments.bird.result import as_table, shortened
from env_servers.environments.bird.statement_pool import StatementPool, WorkerDied
from env_servers.sdk import EnvironmentUnavailable
from tests.env_servers.environments.bird.conftest import guarded, write_database
from tests.kit.data import REPOSITORY

TABLE = "CREATE TABLE number (n INTEGER PRIMARY KEY); INSERT INTO number VALUES (1), (2), (3);"
SLOW = (
    f"SELECT printf('%.*c', 150000, 'a') || a.n LIKE '%{'a' * 990}b%'"
    " FROM number a, number b, number c, number d, number e, number f"
)
"""729 rows, each of them one long step of SQLite: minutes, and never a thousand steps."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_database(tmp_path / "numbers.sqlite", TABLE)


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    opened = guarded(path)
    yield opened
    opened.close()


def wait_until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def nested(levels: int) -> str:
    tables = ["a0 AS (SELECT 1 AS x)"]
    for n in range(1, levels + 1):
        tables.append(f"a{n} AS (SELECT x FROM a{n - 1} UNION ALL SELECT x FROM a{n - 1})")
    return f"WITH {', '.join(tables)} SELECT COUNT(*) FROM a{levels}"


def test_memory_that_grows_while_a_statement_is_prepared_has_a_limit(database: Database) -> None:
    before = resident_pages()
    error = database.ask(nested(24)).error
    assert error in ("query stopped: it needs too much memory", "query stopped: it takes too long")
    grown = resident_pages() - before
    assert grown * 4096 < 64 * 2**20
    assert database.ask("SELECT COUNT(*) FROM number").rows == ((3,),)


def test_a_statement_that_cannot_be_stopped_is_ended_with_its_worker(database: Database) -> None:
    outcome = database.ask(SLOW, time.monotonic() + 3)
    assert outcome.error == "query stopped: it takes too long"
    assert outcome.by_chance
    assert database.ask("SELECT 1").rows == ((1,),)


def test_a_worker_that_died_while_it_waited_costs_no_statement(database: Database) -> None:
    assert database.ask("SELECT 1").error is None
    for pid in database.pool.idle_pids():
        os.kill(pid, signal.SIGKILL)
    assert database.ask("SELECT 2").rows == ((2,),)


class DyingPool(StatementPool):
    """Workers that die so many times."""

    def __init__(self, deaths: int) -> None:
        super().__init__()
        self.deaths = deaths

    def ask(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        if self.deaths:
            self.deaths -= 1
            raise WorkerDied
        return super().ask(*arguments, **options)


@pytest.mark.parametrize("executable", ("/nowhere/python", "/bin/false"))
def test_where_no_worker_starts_nobody_is_blamed(
    path: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    pool = StatementPool()
    monkeypatch.setattr(Database, "pool", pool)
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(EnvironmentUnavailable, match="no process for statements starts"):
        guarded(path).ask("SELECT 1")


@pytest.mark.parametrize(
    ("deaths", "error"), ((1, None), (2, "query stopped: it ends the process that runs it"))
)
def test_a_statement_may_lose_one_worker(
    path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, error: str | None
) -> None:
    pool = DyingPool(deaths)
    monkeypatch.setattr(Database, "pool", pool)
    outcome = guarded(path).ask("SELECT 1")
    assert (outcome.error, outcome.by_chance) == (error, error is not None)
    pool.close()


def test_who_finds_no_room_by_the_deadline_is_told(path: Path) -> None:
    query_limits = QueryLimits(light=1, heavy=1)
    database = Database("test", lambda: path, Limits(), query_limits)
    with query_limits.light_query(time.monotonic() + 60):
        with pytest.raises(EnvironmentUnavailable, match="had to wait too long"):
            database.ask("SELECT 1", time.monotonic() + 0.01)


def test_closing_leaves_no_process(database: Database) -> None:
    database.ask("SELECT 1")
    pids = database.pool.idle_pids()
    assert pids
    database.close()
    assert not any(is_running(pid) for pid in pids)
    assert database.ask("SELECT 2").rows == ((2,),)


def test_workers_end_with_their_parent_in_the_middle_of_a_statement(path: Path) -> None:
    script = (
        "import os, signal, sys, threading, time\n"
        "from pathlib import Path\n"
        "from env_servers.environments.bird.database import Database\n"
        "from env_servers.environments.bird.guard import Limits\n"
        f"database = Database('test', lambda: Path({str(path)!r}), Limits())\n"
        "database.ask('SELECT 1')\n"
        "print(*database.pool.idle_pids(), flush=True)\n"
        f"statement = {SLOW!r}\n"
        "threading.Thread(target=database.ask, args=(statement,), daemon=True).start()\n"
        "while database.pool.idle_pids(): time.sleep(0.01)\n"
        "time.sleep(0.2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # Only this pipe's text is read: the worker may still live when its parent is gone.
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=REPOSITORY, check=False
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 1
    assert wait_until(lambda: not is_running(pids[0]))


def test_workers_know_no_secrets_and_write_no_files(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", "secret")
    pool = StatementPool()
    pool.ask(str(path), Limits(), "SELECT 1", heavy=False, seconds=30)
    (pid,) = pool.idle_pids()
    assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert "Max file size             0 " in limits
    assert "Max address space         unlimited" not in limits
    assert "Max cpu time              unlimited" not in limits
    pool.close()


LONG = ("a" * 90 + "'" * end + "b" * 400 for end in (0, 1))
VALUES = (
    *LONG,
    "a" * 300 + "'",
    "a" * 300 + '"',
    "a" * 300 + "'\"",
    "a" * 250 + "é\n" * 20,
    "\\" * 300,
)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", (str, bytes))
def test_long_values_travel_cut_and_are_shown_as_whole_ones(
    database: Database, value: str, kind: type
) -> None:
    literal = value.replace("'", "''")
    sql = f"'{literal}'" if kind is str else f"x'{value.encode().hex()}'"
    whole = value if kind is str else value.encode()
    outcome = database.ask(f"SELECT {sql} AS value, 1")
    assert len(outcome.rows[0][0]) <= 258
    assert outcome.size == len(whole) + 8
    assert shortened(outcome) == f"{[(whole, 1)]!s:.100}..."
    assert as_table(outcome).splitlines()[1].endswith("... | 1")


def test_results_are_equal_as_sets_of_rows_are() -> None:
    path = Path("/dev/null")
    database = guarded(path)
    texts = (
        "SELECT 1",
        "SELECT 1.0",
        "SELECT 1 UNION ALL SELECT 1.0",
        "SELECT '1'",
        "SELECT x'31'",
        "SELECT 0.0",
        "SELECT -0.0",
        "SELECT 1, 2",
        "SELECT 1 UNION SELECT 2",
        "SELECT 2 UNION ALL SELECT 1 UNION ALL SELECT 2.0",
        "SELECT 9007199254740993",
        "SELECT 9007199254740992.0",
        "SELECT 1e300",
        "SELECT 9e999",
        "SELECT -9e999",
        "SELECT NULL",
        "SELECT 1 WHERE 0",
        "SELECT '(1,)'",
        "SELECT 0.1 + 0.2",
        "SELECT 0.3",
    )
    plain = sqlite3.connect(":memory:")
    rows = {text: frozenset(plain.execute(text).fetchall()) for text in texts}
    plain.close()
    for one, other in itertools.product(texts, repeat=2):
        equal = database.ask(one).matches(database.ask(other))
        assert equal == (rows[one] == rows[other]), (one, other)
    database.close()


@pytest.mark.parametrize(
    "arguments",
    (
        "",
        "NULL",
        "'%d|%5.2f|%-8s|%08d|%+d|%e|%g', 7, 1.5, 'x', 42, 3, 12345.678, 0.00001",
        "'%c|%3c|%.3c|%5.3c|%-5.2c|', 'xy', 'a', 'b', 'é', 'd'",
        "'%*.*c|%.*c|%*d', 5, 2, 'a', -3, 'b', 4, 9",
        "'%s %q %Q %w', 'it''s', 'it''s', 'it''s', 'it\"s'",
        "'100%% %n %', 1",
        "'%,d %!5s %x %X %o %lld', 1234567, 'äöü', 255, 255, 8, 9223372036854775807",
        "x'257325', 'a'",
        "'%s', x'6100'",
        "5, 6",
        "'%.*c', '3 of them', 'z'",
        "'%.3c%.2c', 'a'",
        "'%s'",
    ),
)
def test_formats_are_those_of_sqlite(database: Database, arguments: str) -> None:
    plain = sqlite3.connect(":memory:")
    statement = f"SELECT printf({arguments}), typeof(printf({arguments}))"
    assert list(database.ask(statement).rows) == plain.execute(statement).fetchall()
    plain.close()


@pytest.mark.parametrize(
    "arguments",
    (
        "'%.*c', 2147483646, 'a'",
        "'%.*c', -2147483647, 'a'",
        "'%.*c', '2147483646', 'a'",
        "'%.*c', 2e9, 'a'",
        "'%.2147483646c', 'a'",
        "'%d %*d %.*c', 1, 2, 3, 2147483646, 'a'",
        "replace(printf('%3000d', 0), ' ', '%.99999c'), 'a'",
        "'%2147483646c', 'a'",
        "'%2147483646d', 1",
        "'%.2147483646f', 1",
    ),
)
@pytest.mark.parametrize("name", ("printf", "format"))
def test_formats_have_a_limit(path: Path, name: str, arguments: str) -> None:
    """Repeated characters kept a slot of the server busy for minutes before SQLite said NULL."""
    database = guarded(path, seconds=2.0)
    assert database.ask(f"SELECT {name}({arguments})").rows == ((None,),)
    database.close()
