"""The programs of examples/, run as a reader would run them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
CLIENT_LINES = 30
OWN_POLICY_LINES = 20


def run_example(name: str, *arguments: str) -> str:
    """Return what the program printed; it must end with status 0."""
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "gen"), str(EXAMPLES)])
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


class _Model(BaseHTTPRequestHandler):
    """Answers every chat completion with the same move."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "Thought:\nDown.\n\nAction:\nmove down"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"model": "tiny", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def model_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_example_is_named_in_their_readme() -> None:
    listing = (EXAMPLES / "README.md").read_text()
    for program in EXAMPLES.glob("*.py"):
        assert f"[{program.name}]({program.name})" in listing


def test_an_episode_is_played_by_hand_in_a_few_lines() -> None:
    source = (EXAMPLES / "client_episode.py").read_text()
    assert len(source.splitlines()) <= CLIENT_LINES
    printed = run_example("client_episode.py")
    assert "position 1, 1" in printed
    assert printed.count("\n> ") == 3
    assert "(reward 0.0)" in printed


def test_a_hundred_experts_play_at_once() -> None:
    assert run_example("async_many_episodes.py") == "100 episodes, mean reward 1.00\n"


def test_the_environment_of_one_file_keeps_the_contract() -> None:
    assert " passed, 0 failed" in run_example("own_environment.py")


@pytest.mark.slow
def test_the_policy_of_twenty_lines_plays_from_its_folder(tmp_path: Path) -> None:
    source = (EXAMPLES / "own_policy.py").read_text().partition("WALLS =")[2]
    assert sum(bool(line.strip()) for line in source.splitlines()) <= OWN_POLICY_LINES
    flags = ("--env", "maze", "--episodes", "2", "--spawn", "1", "--out", str(tmp_path / "run"))
    command = [sys.executable, "-m", "orchestrator.sample", *flags, "--policy"]
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "gen")])
    played = subprocess.run(
        [*command, "own_policy:make,own_policy:make:right"],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert "4/4 episodes" in played.stdout


def test_a_model_is_evaluated_from_a_program(model_url: str, tmp_path: Path) -> None:
    printed = run_example("evaluate_openai_model.py", "tiny", model_url, str(tmp_path / "run"))
    assert "4 of 4 episodes" in printed
    assert printed.count("3 rounds") == 4
    assert "maze: 0 of 4 episodes succeeded" in printed


@pytest.mark.torch
def test_a_tiny_model_is_trained_and_plays(tmp_path: Path) -> None:
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip("the extra `train` is not installed")
    run_example("train_tiny.py", str(tmp_path))
    assert (tmp_path / "bc" / "final" / "config.json").is_file()
    assert (tmp_path / "trained" / "manifest.json").is_file()


def test_the_tasks_of_a_split_are_written_as_verl_reads_them(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    run_example("verl_tasks.py", "maze", "eval", str(tmp_path / "tasks.parquet"))
    rows = parquet.read_table(tmp_path / "tasks.parquet").to_pylist()
    assert len(rows) == 200 and {row["agent_name"] for row in rows} == {"agentgym"}
    assert rows[3]["extra_info"] == {"index": 3, "item_id": rows[3]["prompt"][0]["content"]}


@pytest.mark.torch
@pytest.mark.slow
def test_trl_learns_for_twenty_steps_and_tells_the_reward_of_each(tmp_path: Path) -> None:
    if importlib.util.find_spec("trl") is None:
        pytest.skip("the extra `trl` is not installed")
    lines = run_example("train_trl.py", str(tmp_path)).splitlines()
    told = [line.split(": reward ") for line in lines if line.startswith("step ")]
    assert [step for step, _ in told] == [f"step {number}" for number in range(1, 21)]
    rewards = [float(reward) for _, reward in told]
    assert all(0 <= reward <= 1 for reward in rewards) and len(set(rewards)) > 1
    assert (tmp_path / "final" / "model.safetensors").is_file()
