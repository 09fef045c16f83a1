"""Suites that are played by the command: what is not there is told and the rest goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import evaluate, show
from orchestrator.store import RunReader

SUITE = """
title = "Mine"

[environments.echo]
episodes = 3
samples = 2

[environments.unbuilt]

[environments.maze]
split = "official_train"
needs = "mazes.json"

[environments.wordle]
split = "official_eval"
episodes = 26
options = {}
"""


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a suite of which two environments cannot be played and one only in part."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "mine.toml").write_text(SUITE)
    (folder / "unbuilt.py").write_text("import no_such_engine\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        flags = ["--suite", "mine.toml", "--policy", "expert,noop", "--spawn", "1"]
        assert evaluate.main([*flags, "--out", "run"]) == 1
    return folder / "run"


@pytest.fixture
def results(evaluated: Path) -> dict[str, Any]:
    return json.loads((evaluated / "evaluation.json").read_text())


def test_what_cannot_be_played_is_told_with_what_it_needs(results: dict[str, Any]) -> None:
    told = results["not_played"]
    assert list(told) == ["unbuilt", "maze", "wordle"]
    assert "install no_such_engine" in told["unbuilt"]
    assert "official_train is not there: it needs mazes.json" in told["maze"]
    assert "--data, or AGENTGYM_DATA" in told["maze"]
    assert "has 25 of 26 tasks" in told["wordle"]


def test_the_rest_is_played_as_the_suite_says(evaluated: Path) -> None:
    with RunReader.open(evaluated) as reader:
        played = [(it.environment, it.policy) for it in reader.summaries()]
    assert played.count(("echo", "expert")) == 6
    assert played.count(("wordle", "expert")) == 25
    assert len(played) == 2 * (6 + 25)


def test_categories_and_several_samples_have_figures_of_their_own(results: dict[str, Any]) -> None:
    rates = [it for it in results["pass_rates"] if it["policy"] == "expert"]
    assert [(it["environment"], it["k"]) for it in rates] == [("echo", 1), ("echo", 2)]
    assert rates[1]["pass_all"]["value"] == 1.0
    planned = {"echo": 0, "wordle": 0}
    for row in results["categories"]:
        planned[row["environment"]] += row["planned"]
    assert planned == {"echo": 2 * 6, "wordle": 2 * 25}


def test_nothing_looks_complete_while_a_part_of_the_suite_is_missing(
    evaluated: Path, results: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert results["suite"] == "Mine"
    assert results["agentgym_complete"] is False
    assert results["means"] == {"expert": None, "noop": None}
    assert show.main([str(evaluated), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["agentgym_complete"] is False
    assert list(summary["gaps"]) == ["unbuilt", "maze", "wordle"]


def test_a_resume_needs_neither_the_suite_nor_what_was_not_there(
    evaluated: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--resume", str(evaluated), "--spawn", "1", "--format", "table3-csv"]
    assert evaluate.main(flags) == 1
    assert "policy,WS,ALF,TC,Sci,Baby,MZ,WD,WT,MV,TL,BD,mean" in capsys.readouterr().out
    results = json.loads((evaluated / "evaluation.json").read_text())
    assert list(results["not_played"]) == ["unbuilt", "maze", "wordle"]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("[environments.echo]\nsplit = 'nope'", "echo has no split 'nope' (valid: train, eval)"),
        ("[environments.echo]\nitems = ['echo_7']", "echo_7"),
        ("[environments.nowhere]", "nowhere"),
        ("[environments.maze]\nsplit = 'nope'\nneeds = 'a file'", "it needs a file"),
    ],
)
def test_a_suite_that_names_what_does_not_exist_is_a_usage_error(
    section: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_text(section)
    flags = ["--suite", str(tmp_path / "bad.toml"), "--spawn", "1", "--policy", "expert"]
    assert evaluate.main([*flags, "--out", str(tmp_path / "run")]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
