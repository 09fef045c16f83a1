"""Judging a run anew: scores beside the records, which no scoring changes."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from orchestrator import audit, export, rescore, show
from orchestrator.run_folder import LOCK_FILE
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.scorings.table import SCORES_FILE
from orchestrator.store import RunStore
from tests.orchestrator.records import build_episode, build_failed, build_manifest, build_session

PLANNED = tuple(f"maze_{at}" for at in range(8))
SCORES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Eight planned: six with scores, successes from 0.5 on; one failed, one not played."""
    folder = tmp_path / "run"
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.begin_playing(RunPlan(items={"maze": PLANNED}, samples=1, policies=("scripted",)))
        store.append_all(
            build_episode(item_id, reward=score, success=score >= 0.5)
            for item_id, score in zip(PLANNED, SCORES, strict=False)
        )
        store.append_all([build_failed("maze_6")])
        store.end_playing(SessionEnd(interrupted=True))
    return folder


def stored_bytes(run: Path) -> dict[str, bytes]:
    """The run's own files, without what SQLite keeps beside a database that is being read."""
    files = [path for path in run.iterdir() if path.is_file()]
    return {path.name: path.read_bytes() for path in files if "sqlite-" not in path.name}


def summary(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_another_threshold_changes_verdicts_and_no_record(run, capsys):
    before = stored_bytes(run)
    assert rescore.main([str(run), "--threshold", "0.7", "--json"]) == 0
    told = summary(capsys)
    assert stored_bytes(run) == before
    (row,) = told["results"]
    assert (row["to_success"], row["to_failure"], row["compared"]) == (0, 1, 6)
    assert (row["recorded"]["successes"], row["rescored"]["successes"]) == (3, 2)
    # One failed and one was not played: both sides have eight planned and two missing ones.
    for side in ("recorded", "rescored"):
        assert (row[side]["planned"], row[side]["judged"], row[side]["missing"]) == (8, 6, 2)
    assert row["rescored"]["success_bounds"] == [2 / 8, 4 / 8]
    assert told["agentgym_complete"] is False


def test_both_sides_stand_below_each_other_with_what_changed(run, capsys):
    assert rescore.main([str(run), "--threshold", "0.7"]) == 0
    text = capsys.readouterr().out
    assert "recorded" in text
    assert "+0 -1" in text
    assert "1 of 6 verdicts that both sides have changed" in text
    assert "INCOMPLETE: 6 of 6 finished episodes have a score of threshold-0.7" in text
    assert rescore.main([str(run), "--threshold", "0.7", "--missing", "error"]) == 1


def test_a_run_has_several_scorings_and_each_name_one_way_to_judge(run, capsys):
    assert rescore.main([str(run), "--threshold", "0.7"]) == 0
    assert rescore.main([str(run), "--threshold", "0.1", "--name", "lenient"]) == 0
    capsys.readouterr()
    assert rescore.main([str(run), "--threshold", "0.3", "--name", "lenient"]) == 2
    assert "threshold: 0.1 -> 0.3" in capsys.readouterr().err
    assert show.main([str(run)]) == 0
    assert "lenient, threshold-0.7" in capsys.readouterr().out
    assert show.main([str(run), "--scores", "strict"]) == 2
    assert "valid: lenient, threshold-0.7" in capsys.readouterr().err


def test_episodes_are_listed_and_shown_by_a_scoring(run, capsys):
    assert rescore.main([str(run), "--threshold", "0.7"]) == 0
    capsys.readouterr()
    by_scores = [str(run), "--scores", "threshold-0.7"]
    assert show.main([*by_scores, "--outcome", "success", "--json"]) == 0
    listed = [json.loads(line)["item_id"] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["maze_4", "maze_5"]
    assert show.main([*by_scores, "--item", "maze_3", "--plain"]) == 0
    assert "threshold-0.7: score 0.6, no success" in capsys.readouterr().out
    assert show.main([*by_scores, "--json"]) == 0
    assert summary(capsys)["changed"] == 1


def test_an_export_takes_the_scores_of_a_scoring(run, tmp_path):
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 0
    out = tmp_path / "out.jsonl"
    flags = ["--format", "messages", "--out", str(out), "--scores", "strict", "--only-success"]
    assert export.main([str(run), *flags]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["item_id"] for row in rows] == ["maze_4", "maze_5"]
    assert all(row["success"] for row in rows)


def test_an_audit_names_what_a_scoring_lacks_after_the_run_went_on(run, capsys):
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 0
    with RunStore.resume(run, build_manifest(), build_session()) as store:
        store.append_all([build_episode("maze_6", attempt=2)])
    capsys.readouterr()
    assert audit.main([str(run)]) == 0
    late = build_episode("maze_6", attempt=2).episode_id
    told = capsys.readouterr().out
    assert f"scoring strict: 6 of 7 finished episodes have a score; without: {late[:12]}" in told
    assert json.loads((run / "audit.json").read_text())["scorings"]["strict"]["lacking"] == [late]
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 0
    capsys.readouterr()
    assert audit.main([str(run)]) == 0
    assert "scoring strict: 7 of 7" in capsys.readouterr().out


def change_score(run: Path, sql: str) -> None:
    with sqlite3.connect(run / "scores" / "strict" / SCORES_FILE) as connection:
        connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE scores SET success = 1 WHERE item_id = 'maze_0'",
        "UPDATE scores SET record_digest = x'00' WHERE item_id = 'maze_0'",
        "UPDATE scores SET detail = x'00' WHERE item_id = 'maze_0'",
        "UPDATE scores SET score = 'much' WHERE item_id = 'maze_0'",
    ],
)
def test_a_changed_score_is_found_by_an_audit(run, capsys, sql):
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 0
    change_score(run, sql)
    assert audit.main([str(run)]) == 1
    ident = build_episode("maze_0").episode_id
    assert f"scores: store: strict: the score of episode {ident}" in capsys.readouterr().out


def test_scores_of_another_run_are_no_scores_of_this_one(run, tmp_path, capsys):
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 0
    other = tmp_path / "other"
    with RunStore.create(other, build_manifest(run_id="run-2"), build_session()) as store:
        store.append_all([build_episode(run_id="run-2")])
    shutil.copytree(run / "scores", other / "scores")
    assert audit.main([str(other)]) == 1
    assert rescore.main([str(other), "--threshold", "0.7", "--name", "strict"]) == 1
    assert "belongs to another run" in capsys.readouterr().err


def test_scores_are_their_owners_alone_and_a_link_leads_nowhere(run, tmp_path):
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 0
    folder = run / "scores" / "strict"
    assert [path.stat().st_mode & 0o077 for path in (folder.parent, folder, *folder.iterdir())] == [
        0
    ] * (2 + len(list(folder.iterdir())))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (folder / LOCK_FILE).unlink()
    (folder / LOCK_FILE).symlink_to(victim)
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 1
    shutil.move(run / "scores", tmp_path / "elsewhere")
    (run / "scores").symlink_to(tmp_path / "elsewhere")
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 1
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], "say how to judge"),
        (["--threshold", "nan"], "--threshold"),
        (["--threshold", "1", "--name", "../up"], "no name of a scoring"),
        (["--threshold", "1", "--env", "chess"], "valid: maze, wordle"),
        (["--threshold", "1", "--concurrency", "0"], "--concurrency"),
    ],
)
def test_what_cannot_be_meant_ends_with_2_and_writes_nothing(run, capsys, flags, expected):
    assert rescore.main([str(run), *flags]) == 2
    assert expected in " ".join(capsys.readouterr().err.split())
    assert not (run / "scores").exists()


def test_what_is_no_run_is_said(tmp_path, capsys):
    assert rescore.main([str(tmp_path / "none"), "--threshold", "1"]) == 2
    assert rescore.main([str(tmp_path), "--threshold", "1"]) == 1
    assert "not a run folder" in " ".join(capsys.readouterr().err.split())
