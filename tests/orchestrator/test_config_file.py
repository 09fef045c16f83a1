"""`--config`: a file has the keys of the flags, flags go before it, and its mistakes are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator import evaluate, sample
from orchestrator.config import RunConfig
from orchestrator.config_file import dump_flags, lay_file
from orchestrator.sample import Sample
from orchestrator.store import RunReader

FILE = """\
env = ["maze"]
policy = "expert,openai:a-model"
max_rounds = 20
episodes = 3
stop = ["Observation:"]
temperature = 0.5

[options]
size = 7

[openai]
base-url = "http://127.0.0.1:9/v1"
api-key-env = "MY_KEY"

[retry]
budget = inf
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    return path


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert sample.main([*argv, "--print-config"]) == 0
    return capsys.readouterr().out


def test_a_file_is_the_flags_and_flags_go_before_it(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (
        *("--env", "maze", "--policy", "expert,openai:a-model", "--max-rounds", "20"),
        *("--stop", "Observation:", "--temperature", "0.5", "--options", '{"size": 7}'),
        *("--openai.base-url", "http://127.0.0.1:9/v1", "--openai.api-key-env", "MY_KEY"),
        *("--retry.budget", "inf"),
    )
    by_file = printed(capsys, "--config", str(config), "--episodes", "5")
    assert by_file == printed(capsys, *flags, "--episodes", "5")
    assert "episodes = 5" in by_file


def test_what_is_printed_is_a_file_that_says_the_same(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again.toml"
    again.write_text(printed(capsys, "--config", str(config)))
    assert printed(capsys, f"--config={again}") == again.read_text()
    own = Sample(run=RunConfig())
    again.write_text(dump_flags(own))
    assert lay_file(own, again) == own


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epsiodes = 3", "epsiodes: unknown key; did you mean episodes?"),
        ("[openai]\nbase-ulr = 'x'", "openai.base-ulr: unknown key; did you mean openai.base-url?"),
        ("[retry]\nx = 1", "retry.x: unknown key (valid: retry.budget, "),
        ("episodes = '3'", "episodes: expected int, got '3'"),
        ("openai = 3", "openai: expected a table, got 3"),
        ("env = 3", "env: expected a text or a list, got 3"),
        ("policy = 'gpt:'", "policy: unknown policy 'gpt:'"),
        ("missing = 'maybe'", "missing: cannot be 'maybe' (valid: bounds, fail, drop, error)"),
        ("[retry]\nmax-attempts = 0", "retry.max-attempts: max_attempts is at least 1"),
        ("[openai]\nbase-url = 'http://me:password@h/v1'", "openai.base-url: holds a secret"),
        ("[options]\napi_key = 'a-secret'", "options: holds a secret"),
        ("trust-run = true", "trust-run: only the command line may say it"),
        ("env = [", "is no TOML"),
        (None, "cannot read"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(
    tmp_path: Path, text: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.toml"
    if text is not None:
        path.write_text(text)
    for command in (sample, evaluate):
        assert command.main(["--config", str(path), "--out", str(tmp_path / "run")]) == 2
        told = capsys.readouterr().err
        assert str(path) in told and said in told
        assert "Traceback" not in told and "a-secret" not in told and "password" not in told


def test_a_run_of_a_file_records_resolved_values_and_can_be_printed_and_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = tmp_path / "run.toml", tmp_path / "run"
    path.write_text(f"env = 'echo'\npolicy = ['expert']\nepisodes = 3\nout = '{run}'\n")
    assert evaluate.main(["--config", str(path), "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["planned"] == 2
    with RunReader.open(run) as reader:
        recorded = reader.manifest.config
    assert (recorded["environments"], recorded["episodes"]) == (["echo"], 2)
    path.write_text(printed(capsys, "--resume", str(run)))
    assert evaluate.main(["--config", str(path), "--resume", str(run)]) == 0
    assert evaluate.main(["--config", str(path), "--resume", str(run), "--seed", "3"]) != 0
    assert "seed" in capsys.readouterr().err


def test_evaluate_describes_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: python -m orchestrator.evaluate")
    assert "one figure per environment" in told
    assert sample.main(["--help"]) == 0
    assert "one figure per environment" not in capsys.readouterr().out
