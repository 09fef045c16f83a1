"""Runs beside model servers that refuse, spoil, hang, go away and come back."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator import progress, sample
from orchestrator.store import RunReader
from tests.kit.fake_openai import HOSTED, Behaviour, FakeOpenAI, serving_in_thread

QUICK = Behaviour(quickest=0.001, slowest=0.01)


def play(out: Path, url: str, *flags: str) -> int:
    quick = ("--request-retry.first-delay", "0.02", "--request-retry.max-delay", "0.1")
    return sample.main(
        [
            *("--env", "echo", "--policy", "openai:fake", "--openai.base-url", url),
            *("--out", str(out), "--options", '{"length": 6}', *quick, *flags),
        ]
    )


def events(out: Path) -> list[str]:
    lines = Path(out, "logs", "run.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


@contextmanager
def outage(
    server: FakeOpenAI, condition: Callable[[], bool], *, seconds: float
) -> Iterator[threading.Event]:
    """Take a server down once a condition holds; it is back after some time, or by the event."""
    back = threading.Event()

    def pause() -> None:
        deadline = time.monotonic() + 30
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.005)
        server.down = True
        back.wait(seconds)
        server.down = False

    thread = threading.Thread(target=pause)
    thread.start()
    try:
        yield back
    finally:
        back.set()
        thread.join()


def test_a_run_beside_a_hosted_server_loses_no_episode_and_wastes_next_to_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = Behaviour(
        quickest=0.001,
        slowest=0.01,
        retry_after=0.05,
        **{name: 3 * getattr(HOSTED, name) for name in ("refused", "failed", "truncated", "hung")},
    )
    server = FakeOpenAI(faults)
    with serving_in_thread(server) as url:
        flags = ("--episodes", "40", "--samples", "3", "--request-timeout", "0.5", "--json")
        # Where 9 % are spoiled or lost, one of these 720 fails four times in every twentieth run.
        assert play(tmp_path / "run", url, *flags, "--request-retry.sends", "8") == 0
    assert {"refused", "failed", "truncated", "hung"} <= set(server.answers)
    summary = json.loads(capsys.readouterr().out)
    assert (summary["finished"], summary["failed"]) == (120, 0)
    requests = summary["requests"]["openai:fake"]
    assert requests["answered"] == 720
    assert requests["wasted"] == server.answers["truncated"]
    with RunReader.open(tmp_path / "run") as reader:
        records = list(reader.episodes())
        assert {record.attempt for record in records} == {1}
        repeats = [call.repeats for record in records for call in record.generations]
    assert sum(sum(counts.values()) for counts in repeats) == sum(requests["resent"].values())


def test_a_server_that_is_away_for_a_while_costs_no_episode_and_restarts_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeOpenAI(QUICK)
    down = outage(server, lambda: server.answers["ok"] > 100, seconds=1.5)
    with serving_in_thread(server) as url, down:
        flags = ("--episodes", "40", "--samples", "3", "--concurrency", "20")
        assert play(tmp_path / "run", url, *flags) == 0
    with RunReader.open(tmp_path / "run") as reader:
        assert [record.attempt for record in reader.episodes()] == [1] * 120
    story = events(tmp_path / "run")
    assert story.count("model server is down") == story.count("model server is back") == 1
    # Those in flight when it went away, then one probe at a time.
    assert server.answers["cut"] < 20 + 60
    assert server.answers["ok"] == 720


@pytest.mark.slow
def test_no_episode_is_begun_while_the_server_is_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.3)
    server = FakeOpenAI(QUICK)
    server.down = True
    down = outage(server, lambda: server.answers["cut"] > 0, seconds=2.0)
    with serving_in_thread(server) as url, down:
        flags = ("--episodes", "30", "--policy", "expert,openai:fake", "--concurrency", "20")
        assert play(tmp_path / "run", url, *flags) == 0
    told = capsys.readouterr().out
    assert "waiting: http://127.0.0.1:" in told
    assert "has been down for" in told
    # The places of the experts' episodes stay free.
    live = re.findall(r"waiting: .*\n.* (\d+) live", told)
    assert min(map(int, live)) < 20


def test_a_server_that_stays_away_ends_the_run_which_can_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeOpenAI(QUICK)
    down = outage(server, lambda: server.answers["ok"] > 200, seconds=60.0)
    with serving_in_thread(server) as url, down as back:
        flags = ("--episodes", "40", "--samples", "3", "--concurrency", "20")
        assert play(tmp_path / "run", url, *flags, "--request-retry.seconds", "1") == 1
        told = capsys.readouterr().err
        assert "has been down for" in told
        assert "Traceback" not in told
        with RunReader.open(tmp_path / "run") as reader:
            assert 0 < reader.count() < 120
            assert not any(record.HasField("error") for record in reader.episodes())
        back.set()
        assert sample.main(["--resume", str(tmp_path / "run")]) == 0
    with RunReader.open(tmp_path / "run") as reader:
        assert [record.attempt for record in reader.episodes()] == [1] * 120


def test_an_answer_that_is_never_valid_fails_the_episode_in_the_servers_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeOpenAI(Behaviour(quickest=0, slowest=0.01, truncated=1.0))
    with serving_in_thread(server) as url:
        assert play(tmp_path / "run", url, "--episodes", "2") == 1
    with RunReader.open(tmp_path / "run") as reader:
        errors = [record.error for record in reader.episodes()]
    assert len(errors) == 2
    assert all("chatcmpl-fake" in error.message for error in errors)
    assert all("invalid 4" in error.message and not error.retriable for error in errors)
    assert server.answers["truncated"] == 8, "no episode was played anew"


def test_a_budget_without_an_end_can_be_asked_for(tmp_path: Path) -> None:
    with serving_in_thread(FakeOpenAI(QUICK)) as url:
        flags = ("--retry.budget", "inf", "--request-retry.budget", "inf")
        assert play(tmp_path / "run", url, "--episodes", "2", *flags) == 0
        assert sample.main(["--resume", str(tmp_path / "run"), "--retry.budget", "None"]) == 0
