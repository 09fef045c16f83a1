"""What a run's report says of episodes that are missing and of attempts that failed."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator import show
from orchestrator.report import RunReport, as_data, print_report, read_report
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunReader, RunStore
from tests.orchestrator.records import build_episode, build_failed, build_manifest, build_session


def write_run(
    folder: Path,
    episodes: Iterable[episode_pb2.Episode],
    *,
    planned: int,
    end: SessionEnd | None = None,
) -> None:
    items = tuple(f"maze_{at}" for at in range(planned))
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.begin_playing(RunPlan(items={"maze": items}, samples=1, policies=("scripted",)))
        store.append_all(episodes)
        if end is not None:
            store.end_playing(end)


def read(folder: Path, **options) -> RunReport:
    with RunReader.open(folder) as run:
        return read_report(run, **options)


def text_of(report: RunReport) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    print_report(console, report)
    return console.export_text()


def test_a_complete_run_is_shown_without_any_warning(tmp_path):
    write_run(
        tmp_path / "run",
        [build_episode(f"maze_{at}", success=at < 6, reward=float(at < 6)) for at in range(8)],
        planned=8,
        end=SessionEnd(interrupted=False),
    )
    report = read(tmp_path / "run")
    assert as_data(report)["agentgym_complete"] is True
    shown = text_of(report)
    assert "75.0 [40.9, 92.9]" in shown
    for word in ("INCOMPLETE", "NOT FINISHED", "missing", "failed"):
        assert word not in shown


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (None, "NOT FINISHED, its last session was killed or ended by an error"),
        (SessionEnd(interrupted=True), "NOT FINISHED, it was interrupted"),
        (SessionEnd(interrupted=False), "INCOMPLETE"),
    ],
)
def test_a_run_that_lacks_episodes_says_so_with_n_of_planned(tmp_path, capsys, end, state):
    write_run(tmp_path / "run", [build_episode("maze_1")], planned=10, end=end)
    assert show.main([str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert f"{state}: 1 of 10 planned episodes finished, 0 were given up, 9 not played" in shown
    assert "10.0..100.0 [" in shown
    assert "short ones end first" in shown
    assert show.main([str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agentgym_complete"] is False


def test_figures_of_an_incomplete_run_can_be_refused(tmp_path, capsys):
    write_run(tmp_path / "run", [build_episode("maze_1")], planned=2)
    assert show.main([str(tmp_path / "run"), "--missing", "error"]) == 1
    told = capsys.readouterr()
    assert "100.0" not in told.out
    assert "1 episodes are missing" in told.err


def test_each_reason_is_shown_with_its_number_its_first_message_and_an_episode(tmp_path):
    first = build_failed("maze_0")
    again = build_episode("maze_0", attempt=2)
    refused = build_failed("maze_1", fault=types_pb2.FAULT_AGENT, retriable=False)
    refused.error.reason, refused.error.message = "UNKNOWN_OPTION", "no option \x1b[31m'sise'"
    write_run(
        tmp_path / "run",
        [first, again, refused],
        planned=2,
        end=SessionEnd(interrupted=False, given_up={"not_retriable": 1}),
    )
    shown = text_of(read(tmp_path / "run"))
    assert "1 failed attempts were played again; 1 episodes finished that way" in shown
    assert "1 x policy: POLICY_UNAVAILABLE (none given up)" in shown
    assert f"orchestrator.show {tmp_path / 'run'} --episode {first.episode_id[:12]}" in shown
    assert "1 x caller's request: UNKNOWN_OPTION (1 given up)" in shown
    assert "no option \\x1b[31m'sise'" in shown
    assert "AGENT" not in shown


def test_an_exhausted_retry_budget_is_said_with_what_was_not_retried(tmp_path):
    write_run(
        tmp_path / "run",
        [build_failed(f"maze_{at}") for at in range(3)],
        planned=3,
        end=SessionEnd(
            interrupted=False, given_up={"budget_exhausted": 2, "attempts_exhausted": 1}
        ),
    )
    shown = text_of(read(tmp_path / "run"))
    assert "2 episodes were given up: the retry budget of the run was used up" in shown
    assert "1 episodes were given up: they used all their attempts" in shown


def play_with_failures(seed: int, *, hazard: float, attempts: int):
    """Play 400 episodes, every other one long and a success, in which any round may fail.

    Returns all records in the order of their appending.
    """
    generator = random.Random(seed)
    records: list[episode_pb2.Episode] = []
    for at in range(400):
        rounds = 30 if at % 2 else 2
        for attempt in range(1, attempts + 1):
            failed_at = next((n for n in range(rounds) if generator.random() < hazard), None)
            if failed_at is None:
                replies = ("Action: go",) * rounds
                won = bool(at % 2)
                records.append(
                    build_episode(
                        f"maze_{at}",
                        attempt=attempt,
                        success=won,
                        reward=float(won),
                        replies=replies,
                        tokens=False,
                    )
                )
                break
            replies = ("Action: go",) * failed_at
            records.append(
                build_failed(f"maze_{at}", attempt=attempt, replies=replies, tokens=False)
            )
    return records


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_failures_of_long_episodes_are_noticed_and_the_interval_holds_the_truth(tmp_path, seed):
    records = play_with_failures(seed, hazard=0.03, attempts=2)
    write_run(tmp_path / "run", records, planned=400, end=SessionEnd(interrupted=False))
    [dropped] = read(tmp_path / "run", missing="drop").statistics
    assert dropped.success_interval.high < 0.5, "what finished is no fair sample"
    report = read(tmp_path / "run")
    [entry] = report.statistics
    low, high = entry.success_interval
    assert low < 0.5 < high
    assert report.missingness.depends_on_length
    assert "LONG EPISODES FAIL MORE" in text_of(report)


def test_failures_that_hit_anybody_are_not_blamed_on_length_or_item(tmp_path):
    generator = random.Random(5)
    records: list[episode_pb2.Episode] = []
    for at in range(300):
        attempt, replies = 1, ("Action: go",) * generator.randrange(1, 9)
        while generator.random() < 0.2 and attempt < 5:
            records.append(build_failed(f"maze_{at}", attempt=attempt, replies=()))
            attempt += 1
        records.append(build_episode(f"maze_{at}", attempt=attempt, replies=replies))
    write_run(tmp_path / "run", records, planned=300)
    missingness = read(tmp_path / "run").missingness
    assert missingness.failed_attempts > 40
    assert not missingness.depends_on_length
    assert not missingness.depends_on_item


def test_who_played_is_shown_however_wide_the_figures_are(tmp_path):
    write_run(tmp_path / "run", [build_episode("maze_1")], planned=10)
    console = Console(width=90, record=True, file=io.StringIO())
    print_report(console, read(tmp_path / "run"))
    shown = console.export_text()
    assert "policy" in shown
    assert "scripted" in shown
    assert "…" not in shown
