import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from agent_runtime import logs
from agent_runtime.logs import bind_context, configure_logging, get_logger, log_file

log = get_logger("agent_runtime.test")


def unconfigure() -> None:
    while logs._configured:
        logs._remove(logs._configured.pop())
    for package in logs._PACKAGES:
        logging.getLogger(package).setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    unconfigure()  # commands that ran in this process before have configured it
    yield
    unconfigure()


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_library_user_sees_warnings_and_nothing_below_them():
    program = (
        "from agent_runtime.logs import get_logger\n"
        "log = get_logger('agent_runtime.x')\n"
        "log.info('stream opened', server='a')\n"
        "log.warning('server died', server='a', restarts=3)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stderr == "server died server='a' restarts=3\n"
    assert ran.stdout == ""


def test_events_go_through_the_standard_library(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="agent_runtime"):
        log.info("progress 100% done", episode_id="e1")
    (record,) = caplog.records
    assert record.name == "agent_runtime.test"
    assert record.getMessage() == "progress 100% done episode_id='e1'"


async def test_context_belongs_to_a_task_and_to_the_tasks_that_it_starts(tmp_path: Path):
    async def deeper() -> None:
        await asyncio.sleep(0)
        log.warning("retry", reason="x")

    async def episode(number: int) -> None:
        with bind_context(episode_id=f"e{number}"):
            await asyncio.sleep(0)
            await asyncio.create_task(deeper())
        log.warning("over", number=number)

    with log_file(tmp_path / "run.jsonl"), bind_context(run_id="r"):
        await asyncio.gather(episode(1), episode(2))
    written = events(tmp_path / "run.jsonl")
    retries = [event for event in written if event["event"] == "retry"]
    assert {event["episode_id"] for event in retries} == {"e1", "e2"}
    assert all(event["run_id"] == "r" for event in written)
    assert all("episode_id" not in event for event in written if event["event"] == "over")


def test_a_file_holds_json_lines_with_utc_times(tmp_path: Path):
    path = tmp_path / "logs" / "run.jsonl"
    with log_file(path):
        log.debug("not written")
        log.info("weights updated", version="v2", path=Path("/x"), text="ä")
        try:
            raise KeyError("missing")
        except KeyError:
            log.exception("broken")
    updated, broken = events(path)
    assert (updated["event"], updated["level"]) == ("weights updated", "info")
    assert (updated["version"], updated["path"], updated["text"]) == ("v2", "/x", "ä")
    assert updated["logger"] == "agent_runtime.test"
    assert datetime.fromisoformat(updated["timestamp"]).utcoffset() == timedelta(0)
    assert broken["level"] == "error"
    assert "KeyError: 'missing'" in broken["exception"]


def test_writing_a_file_shows_a_library_user_nothing_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with log_file(tmp_path / "run.jsonl"):
        log.info("server started")
    assert caplog.records == []
    assert [event["event"] for event in events(tmp_path / "run.jsonl")] == ["server started"]


def test_a_file_may_leave_out_the_events_of_other_runs(tmp_path: Path):
    with log_file(tmp_path / "1.jsonl", run_id="1"), log_file(tmp_path / "2.jsonl", run_id="2"):
        with bind_context(run_id="1"):
            log.info("started")
        with bind_context(run_id="2"):
            log.info("finished")
        log.info("server died")
    assert [event["event"] for event in events(tmp_path / "1.jsonl")] == ["started", "server died"]
    assert [event["event"] for event in events(tmp_path / "2.jsonl")] == ["finished", "server died"]


def test_a_file_holds_the_warnings_of_other_libraries(tmp_path: Path):
    with log_file(tmp_path / "run.jsonl"):
        logging.getLogger("asyncio").error("Task exception was never retrieved")
        logging.getLogger("asyncio").info("nothing of interest")
    (event,) = events(tmp_path / "run.jsonl")
    assert (event["logger"], event["level"]) == ("asyncio", "error")


def test_the_console_is_stderr_at_the_level_asked_for_and_the_file_tells_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    configure_logging("warning", file=tmp_path / "run.jsonl")
    log.info("server started", server="s")
    log.warning("server died", server="s")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "server died" in captured.err
    assert "server started" not in captured.err
    assert [event["event"] for event in events(tmp_path / "run.jsonl")] == [
        "server started",
        "server died",
    ]


def test_the_console_may_print_json(capsys: pytest.CaptureFixture[str]):
    configure_logging("debug", json=True)
    log.debug("limit changed", limit=12)
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["limit"], event["level"]) == ("limit changed", 12, "debug")


def test_configuring_again_replaces_what_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    configure_logging("info", json=True, file=tmp_path / "first.jsonl")
    configure_logging("info", json=True, file=tmp_path / "second.jsonl")
    log.info("once")
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert events(tmp_path / "first.jsonl") == []
    assert len(events(tmp_path / "second.jsonl")) == 1


def test_events_are_printed_above_a_progress_bar(monkeypatch: pytest.MonkeyPatch):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    configure_logging("info")
    console = Console(file=screen, force_terminal=True, width=60)
    with Progress(console=console, refresh_per_second=1) as progress:
        progress.add_task("episodes", total=2)
        log.warning("server died")
    assert "server died" in screen.getvalue()
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="unknown log level 'loud'"):
        configure_logging("loud")
