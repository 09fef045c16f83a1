"""The commands that play: real servers are spawned, real episodes are recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from orchestrator import evaluate, replay, sample, show
from orchestrator.records import episode_key
from orchestrator.store import RunReader

ECHO = ["--env", "echo", "--policy", "expert"]


def play(out: Path, *flags: str) -> int:
    return sample.main([*ECHO, "--out", str(out), *flags])


def transcripts(run: Path) -> dict[object, list[tuple[str, bytes]]]:
    with RunReader.open(run) as reader:
        assert reader.verify() == []
        return {
            episode_key(record): [(step.observation, step.state_hash) for step in record.steps]
            for record in reader.episodes()
        }


def start_sample(out: Path, *flags: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "orchestrator.sample", *ECHO, "--out", str(out), *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for_records(run: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "manifest.json").exists():
            with RunReader.open(run) as reader:
                if reader.count() >= count:
                    return
        time.sleep(0.05)
    raise AssertionError(f"the run never had {count} records")


def test_a_run_records_every_planned_episode_and_sums_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(tmp_path / "run", "--episodes", "5", "--samples", "2", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["planned"], summary["finished"], summary["failed"]) == (10, 10, 0)
    assert summary["results"][0]["success_rate"] == 1.0
    assert len(transcripts(tmp_path / "run")) == 10


def test_a_finished_run_replays_with_identical_observations(tmp_path: Path) -> None:
    assert play(tmp_path / "run", "--episodes", "5") == 0
    assert replay.main([str(tmp_path / "run")]) == 0


def test_replay_finds_an_environment_that_answers_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = json.dumps({"diverge": True, "length": 2})
    assert play(tmp_path / "run", "--episodes", "3", "--options", options) == 0
    capsys.readouterr()
    assert replay.main([str(tmp_path / "run"), "--concurrency", "1", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["exact"]
    assert report["mismatches"] > 0


def test_evaluation_gives_one_figure_per_environment_and_stores_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--env", "echo", "--episodes", "4", "--policy", "expert,noop", "--out", str(run)]
    assert evaluate.main(flags) == 0
    results = json.loads((run / "evaluation.json").read_text())
    assert results["means"] == {"expert": 1.0, "noop": 0.0}
    assert results["complete"]


def test_an_interrupted_run_keeps_what_is_finished_and_resumes_to_the_same_set(
    tmp_path: Path,
) -> None:
    slow = ["--options", json.dumps({"sleep_ms": 3}), "--concurrency", "2", "--episodes", "60"]
    process = start_sample(tmp_path / "stopped", *slow)
    wait_for_records(tmp_path / "stopped", 3, process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"--resume" in output
    kept = transcripts(tmp_path / "stopped")
    assert 3 <= len(kept) < 60
    assert sample.main(["--resume", str(tmp_path / "stopped")]) == 0
    assert play(tmp_path / "whole", *slow, "--concurrency", "16") == 0
    assert transcripts(tmp_path / "stopped") == transcripts(tmp_path / "whole")


def test_a_run_killed_with_sigkill_resumes_to_the_same_set(tmp_path: Path) -> None:
    slow = ["--options", json.dumps({"sleep_ms": 3}), "--concurrency", "4", "--episodes", "60"]
    process = start_sample(tmp_path / "killed", *slow)
    wait_for_records(tmp_path / "killed", 5, process)
    process.kill()
    process.communicate()
    assert sample.main(["--resume", str(tmp_path / "killed")]) == 0
    assert play(tmp_path / "whole", *slow, "--concurrency", "16") == 0
    assert transcripts(tmp_path / "killed") == transcripts(tmp_path / "whole")


def test_a_resume_with_another_configuration_is_refused_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert play(run, "--episodes", "2") == 0
    before = (run / "manifest.json").read_bytes()
    assert sample.main(["--resume", str(run), "--seed", "7"]) == 2
    assert "seed" in capsys.readouterr().err
    assert (run / "manifest.json").read_bytes() == before


def test_failed_episodes_are_no_rewards_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = json.dumps({"crash_at": 2})
    status = play(tmp_path / "run", "--episodes", "3", "--options", options, "--json")
    assert status == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["finished"] == 0
    assert summary["results"][0]["success_rate"] is None
    with RunReader.open(tmp_path / "run") as reader:
        for record in reader.episodes():
            assert record.error.reason == "ENVIRONMENT_CRASHED"
            assert not record.HasField("reward")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--env", "nowhere"], "textcraft"),
        (["--env", "echo", "--split", "nope"], "train, eval"),
        (["--env", "echo", "--policy", "nobody"], "expert"),
        (["--env", "echo", "--profile", "nope"], "agentgym"),
        (["--env", "echo", "--items", "echo_1000000,echo_5"], "echo_5"),
        (["--suite", "nope"], "demo"),
        (["--env", "echo", "--prompts-from", "no-such-file"], "no-such-file"),
        (["--prompts-from", "x.json"], "exactly one environment"),
        (["--env", "echo", "--episodes", "-1"], "--episodes"),
        (["--resume", "no-such-run"], "no-such-run"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(
    flags: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [] if "--resume" in flags else ["--out", str(tmp_path / "run")]
    assert sample.main([*flags, *out]) == 2
    assert expected in capsys.readouterr().err


def test_conversations_open_in_the_words_of_a_given_file(tmp_path: Path) -> None:
    turns = [{"from": "human", "loss": None, "value": "Original words."}]
    turns.append({"from": "gpt", "loss": False, "value": "Fine."})
    (tmp_path / "traj.json").write_text(json.dumps([{"conversations": turns, "item_id": "echo_1"}]))
    flags = ["--episodes", "1", "--prompts-from", str(tmp_path / "traj.json")]
    assert play(tmp_path / "run", *flags) == 0
    with RunReader.open(tmp_path / "run") as reader:
        (record,) = reader.episodes()
    assert [message.text for message in record.messages[:2]] == ["Original words.", "Fine."]


def test_a_server_that_is_down_is_named_with_the_time_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--servers", "127.0.0.1:9", "--client.connect-deadline", "0.5"]
    assert play(tmp_path / "run", *flags) == 1
    message = capsys.readouterr().err
    assert "127.0.0.1:9" in message
    assert "0.5 s" in message
    assert not (tmp_path / "run").exists()


def test_help_needs_neither_torch_nor_an_environment() -> None:
    code = (
        "import sys, orchestrator.sample, orchestrator.evaluate, orchestrator.replay\n"
        "heavy = {'torch', 'numpy', 'transformers', 'pyarrow', 'minigrid', 'sglang'}\n"
        "heavy.add('env_servers')\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "[]"


def test_spawned_servers_do_not_outlive_a_killed_run(tmp_path: Path) -> None:
    slow = ["--options", json.dumps({"sleep_ms": 5}), "--concurrency", "2", "--episodes", "200"]
    process = start_sample(tmp_path / "run", *slow)
    wait_for_records(tmp_path / "run", 1, process)
    (server,) = psutil.Process(process.pid).children()
    process.kill()
    process.communicate()
    assert server.wait(timeout=20) is None or not server.is_running()


def test_a_server_whose_parent_was_killed_before_it_was_up_ends_too() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait()
    command = [sys.executable, "-m", "env_servers", "serve", "echo", "--bind", "127.0.0.1:0"]
    command += ["--exit-with-parent", str(parent.pid)]
    assert subprocess.run(command, timeout=60, capture_output=True).returncode == 0


def test_a_dead_model_server_is_named_while_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--env", "echo", "--episodes", "4", "--out", str(tmp_path / "run")]
    flags += ["--policy", "openai:m", "--openai.base-url", "http://127.0.0.1:9/v1"]
    assert sample.main([*flags, "--request-retry.seconds", "7"]) == 1
    told = capsys.readouterr()
    waiting, counts, *_ = told.out.splitlines()[2:]
    assert waiting.startswith("waiting: http://127.0.0.1:9/v1 has been down for ")
    assert counts.startswith("0/4 episodes, 4 live, ")
    assert "http://127.0.0.1:9/v1 has been down for " in told.err


def test_a_reason_of_failures_is_named_once_while_the_run_goes_on_and_counted_in_its_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = json.dumps({"crash_at": 2})
    assert play(tmp_path / "run", "--episodes", "4", "--options", options) == 1
    lines = capsys.readouterr().out.splitlines()
    named = [line for line in lines if line.startswith("an attempt failed: ")]
    said = "environment echo raised RuntimeError: echo was asked to crash at step 2"
    assert named == [f"an attempt failed: environment, ENVIRONMENT_CRASHED: {said}"]
    assert "  4 x environment: ENVIRONMENT_CRASHED (4 given up)" in lines
    assert f"      {said}" in lines
    assert "INCOMPLETE: 0 of 4 planned episodes finished, 4 were given up, 0 not played" in lines


def test_a_killed_run_is_shown_as_unfinished_with_n_of_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = ["--options", json.dumps({"sleep_ms": 3}), "--concurrency", "2", "--episodes", "60"]
    process = start_sample(tmp_path / "killed", *slow)
    wait_for_records(tmp_path / "killed", 2, process)
    assert show.main([str(tmp_path / "killed")]) == 0
    assert f"process {process.pid} is playing it" in capsys.readouterr().out
    process.kill()
    process.communicate()
    assert show.main([str(tmp_path / "killed")]) == 0
    shown = capsys.readouterr().out
    assert "NOT FINISHED, its last session was killed" in shown
    assert "of 60 planned episodes finished" in shown


def test_progress_begins_with_the_servers_and_has_one_line_a_time_of_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = "expert,random,noop"
    flags = ["--env", "echo,maze,textcraft", "--policy", policies, "--episodes", "2"]
    assert sample.main([*flags, "--out", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "starting environment servers for echo, maze, textcraft"
    progress = [line for line in lines if "/18 episodes" in line]
    assert progress[-1].startswith("18/18 episodes, 0 live, ")
    assert max(map(len, progress)) <= 80


def test_steps_are_counted_before_an_episode_ends(tmp_path: Path) -> None:
    slow = ["--options", json.dumps({"sleep_ms": 1000}), "--concurrency", "1", "--episodes", "1"]
    process = start_sample(tmp_path / "run", *slow)
    assert process.stdout is not None
    try:
        shown = next(line for line in process.stdout if b"0/1 episodes" in line)
    finally:
        process.kill()
        process.communicate()
    assert b" 0 steps" not in shown
