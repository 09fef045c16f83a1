"""What a run folder tells about what happened while the run was played."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_runtime.conversation import Message
from agent_runtime.errors import PolicyOverloaded
from agent_runtime.policies.base import Completion, EpisodeContext, Policy, PolicySession
from orchestrator import sample
from orchestrator.run_logs import open_run_logs
from orchestrator.store import RunReader

SLOW = ["--options", json.dumps({"sleep_ms": 20}), "--concurrency", "4", "--spawn", "1"]


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "logs" / "run.jsonl").read_text().splitlines()]


def wait_for_records(run: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "manifest.json").exists():
            with RunReader.open(run) as reader:
                if reader.count():
                    return
        time.sleep(0.02)
    raise AssertionError("the run never had a record")


def test_the_run_folder_tells_of_a_killed_server_and_what_was_done_about_it(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "orchestrator.sample", "--env", "echo", "--policy", "expert"]
    command += [*SLOW, "--episodes", "16", "--out", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_records(run, process)
    (server,) = psutil.Process(process.pid).children()
    server.kill()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0

    story = events(run)
    order = [it["event"] for it in story]
    assert order.index("connection lost") < order.index("connection re-attached")
    assert order.index("server restarted") < order.index("episode rebuilt")
    assert order[order.index("connection re-attached") + 1] == "episode rebuilt"
    rebuilt = [it for it in story if it["event"] == "episode rebuilt"]
    assert all(it["episode_id"] and it["environment"] == "echo" for it in rebuilt)
    told = [it for it in story if it["event"].startswith(("server ", "run "))]
    assert [it["event"] for it in told] == [
        "server starting",
        "server ready",
        "run started",
        "server died",
        "server restarting",
        "server restarted",
        "run ended",
        "server stopped",
    ]
    ready, died, restarted = told[1], told[3], told[5]
    assert (died["pid"], died["signal"]) == (ready["pid"], "SIGKILL") == (server.pid, "SIGKILL")
    assert died["server"] == restarted["server"] == ready["server"]
    assert restarted["pid"] != ready["pid"]
    assert (told[6]["finished"], told[6]["failed"]) == (16, 0)
    with RunReader.open(run) as reader:
        assert {it["run_id"] for it in story} == {reader.manifest.run_id}
        assert reader.verify() == []
    times = [datetime.fromisoformat(it["timestamp"]) for it in story]
    assert times == sorted(times)
    assert {it.utcoffset() for it in times} == {timedelta(0)}
    # A person at the terminal saw it, too, and the server's own log lies beside.
    assert b"server died" in errors
    assert b"server restarting" not in errors
    assert len((run / "logs" / "server-0.log").read_text().splitlines()) >= 2


class OverloadedSession(PolicySession):
    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        raise PolicyOverloaded("come back later")


class OverloadedPolicy(Policy):
    name = "expert"

    def open(self, context: EpisodeContext) -> PolicySession:
        return OverloadedSession()


def test_retries_are_told_with_their_reason_and_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.run.make_policy", lambda *_: OverloadedPolicy())
    run = tmp_path / "run"
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "1", "--spawn", "1"]
    flags += ["--samples", "2", "--retry.first-delay", "0.01", "--retry.budget", "1"]
    assert sample.main([*flags, "--out", str(run)]) == 1
    story = [it for it in events(run) if it["event"].startswith(("episode ", "retry "))]
    told = sorted((it["event"], it.get("attempt", 0), it.get("why", "")) for it in story)
    assert told == [
        ("episode given up", 1, "budget_exhausted"),
        ("episode given up", 2, "budget_exhausted"),
        ("episode will be retried", 1, ""),
        ("retry budget exhausted", 0, ""),
    ]
    assert {it["reason"] for it in story if "reason" in it} == {"POLICY_OVERLOADED"}
    assert all(it["episode_id"] and it["run_id"] for it in story)


def test_a_resumed_run_adds_to_its_logs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "2", "--spawn", "1"]
    assert sample.main([*flags, "--out", str(run)]) == 0
    assert sample.main(["--resume", str(run)]) == 0
    started = [it for it in events(run) if it["event"] == "run started"]
    assert [(it["session"], it["finished"]) for it in started] == [(1, 0), (2, 2)]
    assert len({it["run_id"] for it in started}) == 1


def test_log_lines_are_json_where_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "1", "--spawn", "1"]
    flags += ["--log-level", "info", "--log-json"]
    assert sample.main([*flags, "--out", str(tmp_path / "run")]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert "run started" in [json.loads(line)["event"] for line in lines]


def test_a_run_that_was_asked_for_wrongly_leaves_nothing(tmp_path: Path) -> None:
    flags = ["--env", "echo", "--split", "nope", "--out", str(tmp_path / "run")]
    assert sample.main(flags) == 2
    assert list(tmp_path.iterdir()) == []


def test_open_logs_are_written_on_after_they_were_moved(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with open_run_logs(run, "r", resume=False) as logs:
        with (logs.folder.path / "server-0.log").open("a") as server:
            run.mkdir()
            logs.settle()
            server.write("still here\n")
    assert (run / "logs" / "server-0.log").read_text() == "still here\n"
    assert [it.name for it in tmp_path.iterdir()] == ["run"]
