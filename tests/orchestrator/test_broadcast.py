"""What a run shows of the episodes that it is playing, and what readers cannot do to it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.live_record import LiveRecord, Waiting
from agentgym.episode.v1 import episode_pb2
from orchestrator import broadcast
from orchestrator.broadcast import Broadcast
from orchestrator.live_messages import (
    SOCKET_FILE,
    Answer,
    Listing,
    Refusal,
    Update,
    socket_address,
)

READERS = 16


class Reader:
    """A connection to a run."""

    def __init__(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.stream = stream
        self.writer = writer

    async def next(self) -> Answer:
        async with asyncio.timeout(20):
            return msgspec.json.decode(await self.stream.readline(), type=Answer)

    async def update(self) -> Update:
        answer = await self.next()
        assert isinstance(answer, Update)
        return answer


@asynccontextmanager
async def connected(folder: Path, question: bytes) -> AsyncIterator[Reader]:
    with socket_address(folder) as address:
        stream, writer = await asyncio.open_unix_connection(address, limit=64 << 20)
    writer.write(question + b"\n")
    try:
        yield Reader(stream, writer)
    finally:
        writer.transport.abort()


def about(episode_id: str) -> bytes:
    return json.dumps({"episode_id": episode_id}).encode()


@contextmanager
def played(run: Broadcast, episode_id: str = "e1"):
    """An episode of maze that has begun, with the conversation that it grows by."""
    messages: list[Message] = []
    with run.episode(episode_id) as shown:
        record = episode_pb2.Episode(
            episode_id=episode_id, environment="maze", item_id="maze_1", attempt=1, policy="p"
        )
        shown.begin(record, messages)
        shown.wait_for(Waiting.ENVIRONMENT)
        yield shown, record, messages


def observe(shown: LiveRecord, messages: list[Message], text: str) -> None:
    """Take a step, and wait for the policy's answer to it."""
    messages.append(Message(Role.USER, text))
    shown.record.steps.add(seq=len(shown.record.steps), observation=text)
    shown.wait_for(Waiting.POLICY)


async def test_live_episodes_are_listed_and_one_is_followed_to_its_end(tmp_path: Path) -> None:
    run = Broadcast(tmp_path)
    async with run.open():
        with run.episode("waits for a server"), played(run) as (shown, record, messages):
            async with connected(tmp_path, b"{}") as reader:
                listing = await reader.next()
                assert isinstance(listing, Listing)
                assert (listing.live, [it.item_id for it in listing.episodes]) == (1, ["maze_1"])
                assert await reader.stream.read() == b""
            async with connected(tmp_path, about("e1")) as reader:
                whole = episode_pb2.Episode()
                first = await reader.update()
                assert (first.state.waits_for, first.record, first.draft) == (
                    "environment",
                    b"",
                    "",
                )
                observe(shown, messages, "a wall")
                whole.MergeFromString((await reader.update()).record)
                assert shown.draft.wanted
                shown.draft.write(lambda: "Thought: le")
                assert (await reader.update()).draft == "Thought: le"
                messages.append(Message(Role.ASSISTANT, "Thought: left</s>", sampled=True))
                record.generations.add(turn=0)
                observe(shown, messages, "a door")
                update = await reader.update()
                whole.MergeFromString(update.record)
                assert (update.draft, update.state.turn, update.state.waits_for) == (
                    "",
                    1,
                    "policy",
                )
                shown.recorded = True
                shown.end()
                assert (await reader.update()).ended == "recorded"
                assert await reader.stream.read() == b""
        texts = [message.text for message in whole.messages]
        assert texts == ["a wall", "Thought: left", "a door"]
        assert [step.observation for step in whole.steps] == ["a wall", "a door"]
        async with connected(tmp_path, about("e1")) as reader:
            assert await reader.next() == Refusal("not_played")
    assert not (tmp_path / SOCKET_FILE).exists()


async def test_nothing_is_read_of_a_draft_that_nobody_watches(tmp_path: Path) -> None:
    run = Broadcast(tmp_path)
    read: list[int] = []
    async with run.open():
        with played(run) as (shown, _, _):
            assert not shown.draft.wanted
            shown.draft.write(lambda: str(read.append(1)))
            async with connected(tmp_path, about("e1")) as reader:
                await reader.update()
                assert shown.draft.wanted
            while shown.draft.wanted:  # the run notices that the reader has left
                await asyncio.sleep(0.01)
            changes = shown.changes
            shown.draft.write(lambda: str(read.append(2)))
            assert (read, shown.changes) == ([1], changes)


async def test_a_reader_that_takes_nothing_holds_nobody_up_and_gets_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "_REST", 0)
    run = Broadcast(tmp_path)
    async with run.open():
        with played(run) as (shown, _, messages):
            async with (
                connected(tmp_path, about("e1")) as slow,
                connected(tmp_path, about("e1")) as quick,
            ):
                await slow.update()
                await quick.update()
                slow.writer.transport.pause_reading()
                # Each more than sockets hold; the quick reader sees every one.
                for number in range(10):
                    observe(shown, messages, f"{number} " + "x" * 300_000)
                    part = episode_pb2.Episode.FromString((await quick.update()).record)
                    assert part.steps[0].observation.startswith(f"{number} ")
                slow.writer.transport.resume_reading()
                late = [await slow.update() for _ in range(2)]
    counts = [len(episode_pb2.Episode.FromString(update.record).steps) for update in late]
    assert sum(counts) == 10
    assert late[1].changes == counts[1] > 1


async def test_readers_are_few_and_what_they_send_is_bounded(tmp_path: Path) -> None:
    run = Broadcast(tmp_path)
    async with run.open():
        for junk in (b"[]", b"{", b"x" * 5000, b'{"episode_id": 1}', b'{"stop": true}'):
            async with connected(tmp_path, junk) as reader:
                assert await reader.next() == Refusal("not_understood")
        with played(run):
            async with asyncio.TaskGroup() as group:
                enough = asyncio.Event()

                async def watch() -> str:
                    async with connected(tmp_path, about("e1")) as reader:
                        answer = await reader.next()
                        if isinstance(answer, Refusal):
                            enough.set()
                            return answer.reason
                        await enough.wait()
                        return "watched"

                watching = [group.create_task(watch()) for _ in range(READERS + 1)]
            answers = sorted(task.result() for task in watching)
            assert answers == ["too_many", *["watched"] * READERS]


async def test_only_this_user_can_connect_whatever_the_umask_and_however_long_the_path(
    tmp_path: Path,
) -> None:
    folder = tmp_path / ("a-long-name-" * 10) / ("b" * 100)
    folder.mkdir(parents=True)
    before = os.umask(0)
    try:
        async with Broadcast(folder).open():
            mode = (folder / SOCKET_FILE).stat().st_mode
            assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
            async with connected(folder, b"{}") as reader:
                assert isinstance(await reader.next(), Listing)
    finally:
        os.umask(before)


async def test_strangers_are_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "_ROOT", -1)
    monkeypatch.setattr(broadcast.os, "geteuid", lambda: os.getuid() + 1)
    async with Broadcast(tmp_path).open():
        stream, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET_FILE))
        assert await stream.read() == b""
        writer.close()


async def test_a_socket_that_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    left = broadcast._listen(tmp_path)
    left.close()
    assert (tmp_path / SOCKET_FILE).exists()
    async with Broadcast(tmp_path).open(), connected(tmp_path, b"{}") as reader:
        assert isinstance(await reader.next(), Listing)


async def test_a_folder_that_takes_no_socket_is_played_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / SOCKET_FILE).mkdir()
    run = Broadcast(tmp_path)
    async with run.open():
        with played(run) as (shown, _, messages):
            observe(shown, messages, "a wall")
    assert "live episodes cannot be watched" in caplog.text
