"""What is shown of a run fits a terminal of 80 columns, however many environments play."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator import progress as module
from orchestrator import sample
from orchestrator.progress import RunProgress
from orchestrator.terminal import TerminalConsole
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving_in_thread
from tests.orchestrator.test_live_commands import start_sample

ENVIRONMENTS = [f"environment{number}" for number in range(15)]
POLICIES = ["expert", "openai:some-organisation/some-very-large-model-instruct"]
TOTALS = {(name, policy): 1000 for name in ENVIRONMENTS for policy in POLICIES}
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
STATUS = ["1/4 servers lost", "limit 181", "1,052 resent (940 refused)"]


async def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> list[str]:
    """Return all lines that a run prints which fails here and there, and waits for a while."""
    monkeypatch.setattr(module, "_TERMINAL_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LINE_SECONDS", 0.01)
    console: Console = TerminalConsole(
        file=io.StringIO(), force_terminal=terminal, width=80 if terminal else 120, height=24
    )
    looks = 0

    def notice() -> str:
        nonlocal looks
        looks += 1
        return "http://host:8000/v1 has been down for 3 s: no answer" if looks < 3 else ""

    async with RunProgress(
        TOTALS,
        console,
        live=lambda: 256,
        notice=notice,
        status=lambda: STATUS,
    ) as progress:
        for name, policy in TOTALS:
            record = episode_pb2.Episode(environment=name, policy=policy)
            record.error.fault = types_pb2.FAULT_AGENT
            record.error.reason = "UNKNOWN_ITEM"
            progress.add(record)
        progress.tell("server 0 died (signal SIGKILL); it is started again")
        async with asyncio.timeout(30):
            while looks < 5:
                await asyncio.sleep(0.01)
    assert isinstance(console.file, io.StringIO)
    return ANSI.sub("", console.file.getvalue()).replace("\r", "\n").splitlines()


@pytest.mark.parametrize("terminal", [True, False])
async def test_it_fits_80_columns_and_tells_everything(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    lines = await shown(monkeypatch, terminal=terminal)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for said in (
        "an attempt failed: caller's request, UNKNOWN_ITEM",
        "server 0 died (signal SIGKILL); it is started again",
        "waiting: http://host:8000/v1 has been down for 3 s: no answer",
        "going on",
        "256 live",
        "1/4 servers lost, limit 181",
    ):
        assert said in text


async def test_bars_leave_the_whole_and_the_status_within_the_height(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = await shown(monkeypatch, terminal=True)
    first = max(number for number, line in enumerate(lines) if line.startswith("all "))
    screen = lines[first:]
    assert len(screen) < 24
    assert screen[-1].startswith("12 more lines, for which there is no room")


def output(lines: Iterator[bytes], wanted: str, seconds: float = 60) -> str:
    """Return the first line with a text."""
    end = time.monotonic() + seconds
    for line in lines:
        if wanted in line.decode():
            return line.decode()
        assert time.monotonic() < end
    raise AssertionError(f"{wanted!r} was never said")


@pytest.mark.slow
def test_a_server_that_dies_is_named_and_when_it_is_up_again(tmp_path: Path) -> None:
    slow = ["--spawn", "1", "--options", '{"sleep_ms": 200}', "--concurrency", "2"]
    process = start_sample(tmp_path / "run", *slow, "--episodes", "40", "--log-level", "error")
    assert process.stdout is not None
    try:
        output(process.stdout, "starting expert")
        [server] = psutil.Process(process.pid).children()
        server.kill()
        output(process.stdout, "server 0 died (signal SIGKILL); it is started again")
        output(process.stdout, "server 0 is up again, start 2")
    finally:
        process.kill()
        process.communicate()


def test_refused_requests_and_their_limit_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeOpenAI(Behaviour(quickest=0, slowest=0.01, refused=0.2, retry_after=0.01), seed=1)
    flags = ["--env", "echo", "--episodes", "20", "--policy", "openai:m"]
    with serving_in_thread(server) as url:
        arguments = [*flags, "--openai.base-url", url, "--out", str(tmp_path / "run")]
        assert sample.main(arguments) == 0
    told = capsys.readouterr().out
    found = re.search(r"^limit ([\d,]+), (\d+) resent \((\d+) refused\)$", told, re.MULTILINE)
    assert found is not None, told
    assert int(found[3]) == server.answers["refused"]
