"""What answers at a server's address in mid-run is asked who it is before it plays."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.store import RunReader
from tests.abuse.other_echo import SIGN
from tests.kit.server_process import ServerProcess

LONG = ("--options", '{"sleep_ms": 2, "length": 10}')
"""Episodes that take a while, so that there is a middle of the run."""


async def start(*flags: str | Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator.sample", "--policy", "expert", *map(str, flags)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def finish(process: asyncio.subprocess.Process) -> tuple[int, str]:
    async with asyncio.timeout(120):
        printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def until_recorded(run: Path, count: int) -> None:
    async with asyncio.timeout(60):
        while True:
            if (run / "manifest.json").exists():
                with RunReader.open(run) as reader:
                    if reader.count() >= count:
                        return
            await asyncio.sleep(0.02)


async def replaced_in_mid_run(run: Path, first: ServerProcess, module: str) -> tuple[int, str]:
    """Play 60 episodes; after 20 a server of another module takes the first one's address."""
    playing = await start(
        *("--out", run, "--servers", first.address, "--env", "echo", "--episodes", "60"),
        *("--concurrency", "8", *LONG),
    )
    await until_recorded(run, 20)
    first.signal(signal.SIGKILL)
    first.wait()
    folder = run.parent / "second"
    folder.mkdir()
    with ServerProcess(folder, environments=[module], bind=[first.address]):
        return await finish(playing)


def versions(run: Path) -> set[tuple[str, bool, bool]]:
    """Of each record: the version that it names, whether version two played, whether it failed."""
    with RunReader.open(run) as reader:
        assert reader.verify() == []
        return {
            (
                it.environment_version,
                any(SIGN in step.observation for step in it.steps),
                it.HasField("error"),
            )
            for it in reader.episodes()
        }


def count(run: Path) -> int:
    with RunReader.open(run) as reader:
        return reader.count()


async def test_a_server_replaced_by_another_version_plays_nothing_and_the_run_can_be_resumed(
    tmp_path: Path, server_process: Callable[..., ServerProcess]
) -> None:
    run, first = tmp_path / "run", server_process()
    status, printed = await replaced_in_mid_run(run, first, "tests.abuse.other_echo")
    assert status == 1, printed
    assert "Traceback" not in printed
    (told,) = [line for line in printed.splitlines() if line.startswith("error:")]
    assert "it serves echo 2" in told and "the run began with 1" in told
    assert versions(run) == {("1", False, False)}
    assert 20 <= count(run) < 60
    first.start()
    status, printed = await finish(await start("--resume", run))
    assert status == 0, printed
    assert versions(run) == {("1", False, False)}
    assert count(run) == 60


@pytest.mark.slow
async def test_a_server_replaced_by_the_same_version_goes_on_with_the_run(
    tmp_path: Path, server_process: Callable[..., ServerProcess]
) -> None:
    run, first = tmp_path / "run", server_process()
    status, printed = await replaced_in_mid_run(run, first, "echo")
    assert status == 0, printed
    assert versions(run) == {("1", False, False)}
    assert count(run) == 60


async def test_a_server_that_is_away_for_long_costs_no_episode(
    tmp_path: Path, server_process: Callable[..., ServerProcess]
) -> None:
    run, server = tmp_path / "run", server_process()
    playing = await start(
        *("--out", run, "--servers", server.address, "--env", "echo", "--episodes", "40"),
        *("--concurrency", "8", *LONG),
        *("--client.connect-deadline", "0.5", "--wait-for-servers", "60"),
    )
    await until_recorded(run, 10)
    server.signal(signal.SIGKILL)
    server.wait()
    await asyncio.sleep(2)
    await asyncio.to_thread(server.start)
    status, printed = await finish(playing)
    assert status == 0, printed
    assert "no server left, waiting" in printed
    assert versions(run) == {("1", False, False)}


async def test_a_run_whose_servers_stay_away_stops_and_keeps_the_rest_for_its_resume(
    tmp_path: Path, server_process: Callable[..., ServerProcess]
) -> None:
    run, server = tmp_path / "run", server_process()
    playing = await start(
        *("--out", run, "--servers", server.address, "--env", "echo", "--episodes", "40"),
        *("--concurrency", "8", *LONG),
        *("--client.connect-deadline", "0.5", "--wait-for-servers", "0.5"),
    )
    await until_recorded(run, 10)
    server.signal(signal.SIGKILL)
    server.wait()
    status, printed = await finish(playing)
    assert status == 1, printed
    (told,) = [line for line in printed.splitlines() if line.startswith("error:")]
    assert "does not answer" in told and "resume" in told
    assert versions(run) == {("1", False, False)}


@pytest.mark.slow
async def test_a_resume_under_other_code_says_so_in_one_line(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert (await finish(await start("--out", run, "--env", "echo", "--episodes", "2")))[0] == 0
    status, printed = await finish(await start("--resume", run))
    assert status == 0 and "other code" not in printed
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["sessions"][-1]["code_hash"] = "0" * 64
    (run / "manifest.json").write_text(json.dumps(manifest))
    status, printed = await finish(await start("--resume", run))
    (told,) = [line for line in printed.splitlines() if "other code" in line]
    assert status == 0 and "code 000000000000" in told
