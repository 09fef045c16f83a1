"""One SQL statement cannot take BIRD's server, its memory or its other players."""

import asyncio
import contextlib
import resource
from pathlib import Path

import pytest

from env_servers.conformance.verdicts import expect_observation
from tests.env_servers.server.conftest import harness_for

GIB = 1 << 30
_BOUND_SECONDS = 120.0
_STEP_LIMIT = 25.0


def virtual(pid: int) -> int:
    """Bytes of address space of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.fixture
def bird(server_process, tmp_path):
    """A factory of servers of BIRD that get no more than a gigabyte for attacks."""

    def start(how="thread"):
        server = server_process(
            environments=["bird"],
            execution={"bird": how},
            workers=1,
            settings={"bird.cache": str(tmp_path / "cache")},
            limits={"step_limit": _STEP_LIMIT},
        )
        space = virtual(server.process.pid) + GIB
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (space, space))
        return server

    return start


def nested(levels: int) -> str:
    """A statement whose every line doubles it: SQLite expands it while it is prepared."""
    tables = ["a0 AS (SELECT 1 AS x)"]
    tables += [
        f"a{n} AS (SELECT x FROM a{n - 1} UNION ALL SELECT x FROM a{n - 1})"
        for n in range(1, levels + 1)
    ]
    return f"WITH {', '.join(tables)} SELECT COUNT(*) FROM a{levels}"


async def answer(harness, statement: str) -> str:
    """What an agent sees of a statement: an observation, never an error of the environment."""
    play = await harness.play()
    return expect_observation(await play.ask(1, action=statement)).observation


@contextlib.asynccontextmanager
async def players(server):
    """Harnesses of an attacker and an honest player."""
    async with (
        asyncio.timeout(_BOUND_SECONDS),
        harness_for(server.address, environment="bird", timeout=60.0) as attacker,
        harness_for(server.address, environment="bird", timeout=60.0) as honest,
    ):
        yield attacker, honest


@pytest.mark.parametrize("how", ["thread", "process"])
async def test_a_statement_that_doubles_29_times_is_an_observation(bird, how):
    """A kilobyte of text once took 22.7 GB, and the machine with it."""
    server = bird(how)
    async with players(server) as (attacker, honest):
        attack = asyncio.ensure_future(answer(attacker, nested(29)))
        while not attack.done():
            assert await answer(honest, "SELECT 48") == "[(48,)]"
            await asyncio.sleep(0.1)
        assert (await attack).startswith("query stopped: ")
        assert server.process.poll() is None


async def test_endless_formats_hold_nobody_up(bird):
    """Four of them once kept every player of BIRD waiting until their 60 s were over."""
    bomb = "SELECT " + ", ".join(["printf('%.*c',2147483646,'a')"] * 4)
    async with players(bird()) as (attacker, honest):
        attacks = [
            asyncio.ensure_future(answer(attacker, f"{bomb} -- {number}")) for number in range(4)
        ]
        assert await answer(honest, "SELECT 48") == "[(48,)]"
        # SQLite's own answer, which it gives after minutes.
        assert set(await asyncio.gather(*attacks)) == {"[(None, None, None, None)]"}
        assert await answer(honest, "SELECT 49") == "[(49,)]"


async def test_patterns_that_take_minutes_are_an_observation(bird):
    """990 letters of a LIKE once took 122 s: an agent's statement became a failed environment."""
    text, pattern = "printf('%.*c', 150000, 'a')", "a" * 990
    slow = (
        f"SELECT COUNT(*) FROM customer a, customer b WHERE {text} || a.rowid || b.rowid"
        f" LIKE '%{pattern}b%'"
    )
    async with players(bird()) as (attacker, honest):
        attack = asyncio.ensure_future(answer(attacker, slow))
        while not attack.done():
            assert await answer(honest, "SELECT 48") == "[(48,)]"
            await asyncio.sleep(0.1)
        assert await attack == "query stopped: it takes too long"
