"""The response cache: what is the same request, what several processes share, what is refused."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.response_cache import CACHE_FILE, ResponseCache, request_key

BODY = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "temperature": 0.5}
KEY = request_key("/chat/completions", BODY, 1)


@asynccontextmanager
async def cache(folder: Path) -> AsyncIterator[ResponseCache]:
    opened = ResponseCache(folder)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_that_decides_an_answer_tells_requests_apart() -> None:
    others = [
        request_key("/responses", BODY, 1),
        request_key("/chat/completions", BODY, 2),
        request_key("/chat/completions", {**BODY, "model": "other"}, 1),
        request_key("/chat/completions", {**BODY, "temperature": 0.6}, 1),
        request_key("/chat/completions", {**BODY, "messages": []}, 1),
    ]
    assert len({KEY, *others}) == 6
    assert request_key("/chat/completions", dict(reversed(BODY.items())), 1) == KEY
    assert request_key("/chat/completions", BODY, 2**64 - 1), "as large as seeds are"


async def test_an_answer_is_kept_for_good_and_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    async with cache(folder) as first:
        assert await first.get(KEY) is None
        await first.put(KEY, {"text": "höher"})
        await first.put(KEY, {"text": "another"})
    async with cache(folder) as again:
        assert await again.get(KEY) == {"text": "höher"}
    assert permissions(folder) == 0o700
    assert permissions(folder / CACHE_FILE) == 0o600


async def test_several_users_of_a_folder_read_and_write_at_once(tmp_path: Path) -> None:
    async def use(number: int) -> None:
        async with cache(tmp_path) as one:
            for turn in range(20):
                await one.put(request_key("/p", BODY, turn), {"turn": turn, "by": number})

    await asyncio.gather(*(use(number) for number in range(4)))
    async with cache(tmp_path) as reader:
        kept = [await reader.get(request_key("/p", BODY, turn)) for turn in range(20)]
    assert [answer and answer["turn"] for answer in kept] == list(range(20))


async def refusal(folder: Path) -> str:
    with pytest.raises(PolicyMisconfigured) as caught:
        async with cache(folder) as opened:
            await opened.get(KEY)
    assert "name another folder, or remove the file" in str(caught.value)
    return str(caught.value)


async def test_what_is_no_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in await refusal(tmp_path / "file")
    (tmp_path / CACHE_FILE).write_bytes(b"this is no database" * 100)
    assert "not a database" in await refusal(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA user_version = 2",
        "PRAGMA application_id = 1",
        "CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM answers; END",
    ],
)
async def test_the_cache_of_another_version_or_program_is_refused(
    statement: str, tmp_path: Path
) -> None:
    async with cache(tmp_path):
        pass
    with sqlite3.connect(tmp_path / CACHE_FILE) as database:
        database.execute(statement)
    database.close()
    assert "no cache of this version" in await refusal(tmp_path)


async def test_a_damaged_answer_is_named(tmp_path: Path) -> None:
    async with cache(tmp_path) as opened:
        await opened.put(KEY, {"text": "up"})
    with sqlite3.connect(tmp_path / CACHE_FILE) as database:
        database.execute("UPDATE answers SET answer = '{'")
    database.close()
    assert "damaged" in await refusal(tmp_path)
