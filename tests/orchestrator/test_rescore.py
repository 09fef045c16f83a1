"""Judging a run anew: scores beside the records, which no scoring changes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import audit, export, rescore, sample, show
from orchestrator.manifest import EnvironmentIdentity
from orchestrator.run_folder import LOCK_FILE
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.scorings.judged import PLACEHOLDERS, load_rubric
from orchestrator.scorings.table import SCORES_FILE, ScoresReader, ScoresWriter, scoring_names
from orchestrator.store import RunReader, RunStore
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving_in_thread
from tests.orchestrator.judges import ASKED
from tests.orchestrator.records import (
    build_episode,
    build_failed,
    build_manifest,
    build_seeing,
    build_session,
)

REPOSITORY = Path(__file__).resolve().parents[2]
QUICK = Behaviour(quickest=0.001, slowest=0.01)
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


def test_a_report_of_a_scoring_has_its_figures_and_names_it(run, tmp_path):
    assert rescore.main([str(run), "--threshold", "0.7", "--name", "strict"]) == 0
    pages = {}
    for scores in ("", "strict"):
        out = tmp_path / f"report-{scores}.html"
        flags = ["--format", "html", "--out", str(out), "--scores", scores]
        assert export.main([str(run), *flags, "--only-success"]) == 0
        pages[scores] = out.read_text()
    assert "3 of 7 recorded episodes" not in pages["strict"]
    assert "of which 3 passed" in pages[""] and "of which 2 passed" in pages["strict"]
    assert "Scores and successes are those of strict." in pages["strict"]
    assert "those of" not in pages[""]


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
        ([], "say in one way how to judge"),
        (["--threshold", "nan"], "--threshold"),
        (["--threshold", "1", "--name", "../up"], "no name of a scoring"),
        (["--threshold", "1", "--env", "chess"], "valid: maze, wordle"),
        (["--threshold", "1", "--concurrency", "0"], "--concurrency"),
        (["--threshold", "1", "--max-tokens", "-1"], "max_tokens"),
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


# ---------------------------------------------------------------------------- a judge

RUBRIC = """
template = "Score: {{score}} {{transcript}}"
[grades.solved]
"""


@pytest.fixture
def rubric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ASKED, str(tmp_path / "asked"))
    path = tmp_path / "rubric.toml"
    path.write_text(RUBRIC)
    return path


def judge_by(words: str, rubric: Path, *flags: str) -> list[str]:
    return ["--judge", f"tests.orchestrator.judges:make:{words}", "--rubric", str(rubric), *flags]


def test_a_judge_grades_every_finished_episode_and_all_that_it_said_is_kept(run, rubric, capsys):
    before = stored_bytes(run)
    assert rescore.main([str(run), *judge_by("contrary", rubric), "--json"]) == 0
    told = summary(capsys)
    assert stored_bytes(run) == before
    (row,) = told["results"]
    assert (row["to_success"], row["to_failure"], row["compared"]) == (3, 3, 6)
    assert (told["calls"], told["cost_usd"]) == (6, pytest.approx(0.006))
    flags = ["--scores", "judge-rubric", "--item", "maze_1"]
    assert show.main([str(run), *flags]) == 0
    text = capsys.readouterr().out
    assert "vote 1: {'solved': 0.8}, seed " in text
    assert ", version v7, " in text
    assert show.main([str(run), *flags, "--json"]) == 0
    judgement = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (judgement["score"], judgement["success"]) == (0.8, True)
    detail = judgement["detail"]
    assert detail["judge"] == "judge contrary"
    assert "Score: 0.2" in detail["prompt"]
    assert "Action: move left" in detail["prompt"]
    (vote,) = detail["votes"]
    assert vote["answer"].startswith("It says so.")
    assert vote["policy_version"] == "v7"
    assert vote["prompt_tokens"] > 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("silent", "JUDGE_SILENT"),
        ("rambling", "JUDGE_OFF_FORMAT"),
        ("broken", "JUDGE_SILENT"),
    ],
)
def test_without_an_answer_there_is_no_verdict_and_a_second_call_goes_on(
    run, rubric, capsys, words, reason
):
    flags = [str(run), *judge_by(f"{words} until=0.5", rubric), "--name", "judged"]
    assert rescore.main([*flags, "--json"]) == 1
    told = summary(capsys)
    assert [(it["reason"], it["episodes"]) for it in told["unscored"]] == [(reason, 3)]
    (row,) = told["results"]
    # Three are missing by the judge, and two by the run: never a zero.
    assert (row["rescored"]["judged"], row["rescored"]["missing"]) == (3, 5)
    assert row["rescored"]["score_bounds"][1] > row["rescored"]["score_bounds"][0]
    assert rescore.main(flags) == 1
    assert f"3 x {reason}" in capsys.readouterr().out
    Path("mended").touch()
    assert rescore.main([*flags, "--json"]) == 0
    assert summary(capsys)["scored"] == 6
    # Those that had a verdict were asked once, the others until they had one.
    asked = Path("asked").read_text().split()
    assert [asked.count(str(score)) for score in SCORES] == [3, 3, 3, 1, 1, 1]


def test_votes_are_drawn_apart_and_averaged(run, rubric, capsys):
    flags = judge_by("moody", rubric, "--votes", "3")
    assert rescore.main([str(run), *flags]) == 2
    assert "--temperature" in capsys.readouterr().err
    assert rescore.main([str(run), *flags, "--temperature", "1"]) == 0
    with RunReader.open(run) as reader, ScoresReader.open(reader, "judge-rubric") as scores:
        for score in scores.latest().values():
            grades = [vote["grades"]["solved"] for vote in scores.detail(score)["votes"]]
            assert len(set(grades)) == 3
            assert score.score == pytest.approx(sum(grades) / 3)


@pytest.mark.slow
def test_a_scoring_killed_with_sigkill_goes_on_where_it_was(run, rubric):
    with RunStore.resume(run, build_manifest(), build_session()) as store:
        store.append_all(build_episode(f"maze_{at}", reward=0.3) for at in range(10, 50))
    flags = [str(run), *judge_by("slow", rubric), "--name", "killed", "--concurrency", "2"]
    command = [sys.executable, "-m", "orchestrator.rescore", *flags]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        while rows_of(run) < 5:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    kept = rows_of(run)
    assert 5 <= kept < 46
    already = len(Path("asked").read_text().split())
    assert rescore.main(flags) == 0
    assert rows_of(run) == 46
    assert len(Path("asked").read_text().split()) == already + 46 - kept


def rows_of(run: Path) -> int:
    with RunReader.open(run) as reader:
        if "killed" not in scoring_names(run):
            return 0
        with ScoresReader.open(reader, "killed") as scores:
            return len(scores.latest())


def test_a_judge_is_told_of_the_images_that_it_is_not_shown(tmp_path, rubric, capsys):
    folder = tmp_path / "seeing"
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.append_all([build_seeing()])
    assert rescore.main([str(folder), *judge_by("fair", rubric)]) == 0
    assert show.main([str(folder), "--scores", "judge-rubric", "--item", "maze_1", "--json"]) == 0
    judgement = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "[1 images, which are not shown here]" in judgement["detail"]["prompt"]


def test_a_limit_ends_a_scoring_in_order_and_a_higher_one_goes_on(run, rubric, capsys):
    flags = [str(run), *judge_by("fair", rubric, "--concurrency", "1"), "--json"]
    assert rescore.main([*flags, "--max-cost", "1"]) == 2
    assert "--max-tokens" in capsys.readouterr().err
    assert rescore.main([*flags, "--max-tokens", "300"]) == 3
    told = summary(capsys)
    assert "--max-tokens" in told["limit"]
    assert 0 < told["scored"] < 6
    assert told["agentgym_complete"] is False
    assert rescore.main([*flags, "--max-tokens", "300"]) == 3
    assert summary(capsys)["scored"] == told["scored"]
    assert rescore.main([*flags, "--max-tokens", "300000"]) == 0
    assert len(Path("asked").read_text().split()) == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('template = "{{transkript}}"', "there is nothing for {{transkript}} (valid: instruction"),
        ('template = "How was {{task}}?"', "no place for what the agent did"),
        ('template = "{{answer}}"\nvotes = 3', "votes: unknown key"),
        ('template = "{{answer}}"\nsuccess_score = 7.0', "success_score is from 0 to 1"),
        ('template = "{{answer}}"\n[grades.a]\nlowest = 2.0', "lowest is below highest"),
        ("template =", "is no TOML"),
    ],
)
def test_a_rubric_that_asks_nothing_is_refused(run, rubric, capsys, text, expected):
    rubric.write_text(text)
    assert rescore.main([str(run), *judge_by("fair", rubric)]) == 2
    assert expected in " ".join(capsys.readouterr().err.split())
    assert not (run / "scores").exists()


def test_the_rubric_of_the_examples_can_be_judged_by():
    rubric = load_rubric(REPOSITORY / "examples" / "rubric.toml")
    assert rubric.placeholders < set(PLACEHOLDERS)
    assert rubric.score({"solved": 1, "directness": 3}) == (3 * 1 + 0.5) / 4


def test_one_process_judges_at_a_time(run, capsys):
    assert rescore.main([str(run), "--threshold", "0.7"]) == 0
    with RunReader.open(run) as reader:
        settings = {"threshold": 0.7, "environments": ["maze", "wordle"]}
        with ScoresWriter.begin(reader, "threshold-0.7", settings, build_session()):
            assert rescore.main([str(run), "--threshold", "0.7"]) == 1
            assert show.main([str(run), "--scores", "threshold-0.7"]) == 0
    assert f"process {os.getpid()}" in " ".join(capsys.readouterr().err.split())


def test_another_rubric_is_another_scoring(run, rubric, capsys):
    flags = [str(run), *judge_by("fair", rubric), "--name", "judged"]
    assert rescore.main(flags) == 0
    rubric.write_text(RUBRIC.replace("[grades", "success_score = 0.9\n[grades"))
    assert rescore.main(flags) == 2
    assert "rubric.success_score: 0.5 -> 0.9" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--judge", "openai:m"], "--judge needs a --rubric"),
        (["--rubric", "rubric.toml"], "say in one way"),
        (["--judge", "nobody", "--rubric", "rubric.toml"], "unknown policy"),
        (["--judge", "expert", "--rubric", "rubric.toml"], "cannot judge"),
        (["--judge", "openai:m", "--rubric", "none.toml"], "none.toml"),
        (["--judge", "sglang:http://me:s3cr3t@host", "--rubric", "rubric.toml"], "a password"),
        (["--threshold", "1", "--profile", "fixed"], "say in one way"),
        (["--threshold", "1", "--rubric", "rubric.toml"], "--judge needs"),
        (["--judge", "openai:m", "--rubric", "rubric.toml", "--votes", "0"], "--votes"),
        (
            ["--judge", "openai:m", "--rubric", "rubric.toml", "--openai.system-prompt", "Hi"],
            "leave out --openai.system-prompt",
        ),
    ],
)
def test_a_judge_that_cannot_be_meant_is_refused(run, rubric, capsys, flags, expected):
    assert rescore.main([str(run), *flags]) == 2
    assert expected in " ".join(capsys.readouterr().err.split())


# ---------------------------------------------------------------------------- a model server

KEY = "sk-a-key-that-nobody-may-see"


def asked_of(url: str, *flags: str) -> list[str]:
    server = ["--openai.base-url", url, "--request-retry.first-delay", "0.02"]
    return ["--judge", "openai:m", "--rubric", "rubric.toml", "--name", "judged", *server, *flags]


def test_a_judge_behind_an_api_is_recorded_without_its_key(run, rubric, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = FakeOpenAI(QUICK, reply=lambda _: f'Your key is {KEY}.\n{{"solved": 1}}')
    with serving_in_thread(server) as url:
        assert rescore.main([str(run), *asked_of(url)]) == 0
    with RunReader.open(run) as reader, ScoresReader.open(reader, "judged") as scores:
        (session,) = scores.sessions()
        assert scores.settings["judge"] == "openai:m"
        assert session["settings"]["agent"]["openai"]["base_url"] == url
        assert KEY not in json.dumps([scores.settings, session])
        for score in scores.latest().values():
            detail = scores.detail(score)
            assert detail["votes"][0]["policy_version"] == "m"
            assert KEY not in json.dumps(detail)


def test_a_judge_that_never_answers_is_given_up_and_named(run, rubric, capsys):
    with serving_in_thread(FakeOpenAI(Behaviour(hung=1))) as url:
        flags = ["--request-timeout", "0.2", "--request-retry.seconds", "0"]
        assert rescore.main([str(run), *asked_of(url, *flags)]) == 1
    text = capsys.readouterr().out
    assert "6 x JUDGE_SILENT: POLICY_UNAVAILABLE" in text
    assert "INCOMPLETE: 0 of 6 finished episodes have a score of judged" in text


def test_a_judge_that_is_down_ends_the_scoring_and_what_is_judged_stays(run, rubric, capsys):
    flags = ["--request-retry.seconds", "0.5", "--concurrency", "2"]

    def reply(_: object) -> str:
        server.down = server.answers["ok"] > 2 and not Path("mended").exists()
        return '{"solved": 1}'

    server = FakeOpenAI(QUICK, reply=reply)
    with serving_in_thread(server) as url:
        assert rescore.main([str(run), *asked_of(url, *flags)]) == 1
        told = capsys.readouterr()
        assert "the same command goes on" in " ".join(told.err.split())
        server.down = False
        Path("mended").touch()
        assert rescore.main([str(run), *asked_of(url, *flags)]) == 0
    with RunReader.open(run) as reader, ScoresReader.open(reader, "judged") as scores:
        assert len(scores.latest()) == 6
        assert server.answers["ok"] <= 6 + 2


# ---------------------------------------------------------------------------- another profile


@pytest.fixture(scope="module")
def mazes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mazes walked by the expert, who never meets a wall, and at random, where profiles differ."""
    run = tmp_path_factory.mktemp("mazes") / "run"
    flags = ["--env", "maze", "--policy", "expert,random", "--episodes", "3", "--spawn", "1"]
    assert sample.main([*flags, "--out", str(run)]) == 0
    return run


@pytest.mark.slow
def test_recorded_actions_get_the_scores_of_another_profile_as_far_as_they_fit(mazes, capsys):
    assert rescore.main([str(mazes), "--profile", "fixed", "--spawn", "1", "--json"]) == 1
    told = summary(capsys)
    expert, random = told["results"]
    assert (expert["rescored"]["judged"], expert["rescored"]["successes"]) == (3, 3)
    assert random["rescored"]["judged"] == 0
    assert random["rescored"]["success_bounds"] == [0.0, 1.0]
    (unscored,) = told["unscored"]
    assert (unscored["reason"], unscored["episodes"]) == ("DIVERGED", 3)
    assert "the agent would have been shown" in unscored["message"]
    # Both profiles are deterministic: what diverged is not played again.
    assert rescore.main([str(mazes), "--profile", "fixed", "--spawn", "1"]) == 1
    with RunReader.open(mazes) as reader, ScoresReader.open(reader, "profile-fixed") as scores:
        assert {row.attempt for row in scores.rows()} == {1}
        assert scores.settings["served"]["maze"]["digest"]


@pytest.mark.slow
def test_a_profile_that_is_not_there_is_said(mazes, capsys):
    assert rescore.main([str(mazes), "--profile", "mended", "--spawn", "1"]) == 2
    assert "maze has no profile 'mended'" in capsys.readouterr().err


@pytest.mark.slow
def test_an_end_that_comes_earlier_counts_and_one_that_does_not_come_is_no_score(tmp_path, capsys):
    """Records of an episode of four steps, edited: as if it had been longer or shorter."""
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "4", "--spawn", "1"]
    options = ["--options", json.dumps({"length": 4}), "--out", str(tmp_path / "played")]
    assert sample.main([*flags, *options]) == 0
    with RunReader.open(tmp_path / "played") as reader:
        whole, longer, shorter, cut = reader.episodes()
        manifest = reader.manifest
    longer.steps[-1].terminated = False
    longer.steps.add(seq=5, observation="More.").input.reply = "Action: more"
    for record in (shorter, cut):
        del record.steps[-1]
    shorter.steps[-1].terminated = True
    run = tmp_path / "edited"
    with RunStore.create(run, replace(manifest, sessions=()), build_session()) as store:
        store.append_all([whole, longer, shorter, cut])
    capsys.readouterr()
    assert rescore.main([str(run), "--profile", "agentgym", "--spawn", "1", "--json"]) == 1
    told = summary(capsys)
    assert told["scored"] == 2
    assert told["notes"] == {"ended earlier than they were recorded": 1}
    assert {it["reason"]: it["episode_id"] for it in told["unscored"]} == {
        "WENT_ON": shorter.episode_id,
        "NO_SCORE": cut.episode_id,
    }


@pytest.mark.slow
def test_an_environment_that_is_not_installed_is_named(tmp_path, capsys):
    manifest = build_manifest(
        environments=(EnvironmentIdentity(name="chess", version="1", digest="d"),)
    )
    with RunStore.create(tmp_path / "run", manifest, build_session()) as store:
        store.append_all([build_episode("chess_1", environment="chess")])
    assert rescore.main([str(tmp_path / "run"), "--profile", "fixed", "--spawn", "1"]) in (1, 2)
    told = capsys.readouterr().err
    assert "chess" in told
    assert "Traceback" not in told
    assert not (tmp_path / "run" / "scores").exists()
