"""A served SciWorld: dead Java processes and dead workers are replaced, and nobody notices."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb

ACTIONS = ("open door", "0", "look around", "inventory", "wait1", "look around", "examine agent")
EPISODES = 8


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[tuple[Connection, psutil.Process]]:
    address_file = folder / "address"
    command = [sys.executable, "-m", "env_servers", "serve", "sciworld", "--workers", "2"]
    command += ["--bind", "127.0.0.1:0", "--address-file", str(address_file)]
    command += ["--log-level", "error", "--drain", "0", "--set", "sciworld.heap_mib=384"]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        while not address_file.exists():
            assert process.returncode is None
            await asyncio.sleep(0.02)
        async with Connection(address_file.read_text().strip()) as connection:
            await connection.get_environment("sciworld")
            yield connection, psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


def javas(process: psutil.Process) -> list[psutil.Process]:
    return [each for each in process.children(recursive=True) if "java" in each.name()]


async def opened(connection: Connection, prefix: str) -> list[RemoteEpisode]:
    page = await connection.list_tasks("sciworld", "eval", page_size=EPISODES)
    episodes = [
        RemoteEpisode(
            connection, f"{prefix}-{number}", pb.Reset(environment="sciworld", item_id=task.item_id)
        )
        for number, task in enumerate(page.tasks)
    ]
    await asyncio.gather(*(episode.reset() for episode in episodes))
    return episodes


async def step_all(episodes: list[RemoteEpisode], action: str) -> list[str]:
    told = await asyncio.gather(*(episode.step(action) for episode in episodes))
    return [f"{each.text} {each.reward}" for each in told]


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_dead_are_replaced_and_every_episode_goes_on(tmp_path: Path) -> None:
    async with server(tmp_path) as (connection, process):
        assert javas(process) == []
        undisturbed = await opened(connection, "undisturbed")
        expected = [await step_all(undisturbed, action) for action in ACTIONS]
        for episode in undisturbed:
            episode.close()
        assert len(javas(process)) == 2

        disturbed = await opened(connection, "disturbed")
        found = [await step_all(disturbed, action) for action in ACTIONS[:3]]
        os.kill(javas(process)[0].pid, signal.SIGKILL)
        found += [await step_all(disturbed, action) for action in ACTIONS[3:5]]
        worker = javas(process)[0].parent()
        assert worker is not None
        assert worker.pid != process.pid
        os.kill(worker.pid, signal.SIGKILL)
        found += [await step_all(disturbed, action) for action in ACTIONS[5:]]
        assert found == expected
        workers = process.children()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
