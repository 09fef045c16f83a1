"""Run folders that an earlier program wrote are read, checked, replayed and gone on with."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator import audit, export, replay, rescore, sample, show
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.store import RunReader

RECORDED = Path(__file__).parent / "recorded_runs"
RUNS = ("two_environments", "options", "killed", "shipped_agent")
PLANNED = {"options": 3, "killed": 8}
"""Episodes of the runs whose environments are still those of the recording."""


@pytest.fixture(params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of a recorded run, in the working folder that its paths are relative to."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(RECORDED / "wording.json", tmp_path)
    folder = tmp_path / "runs" / name
    folder.mkdir(parents=True)
    shutil.copy(RECORDED / name / "manifest.json", folder)
    database = gzip.decompress((RECORDED / name / f"{DATABASE_FILE}.gz").read_bytes())
    (folder / DATABASE_FILE).write_bytes(database)
    return folder


@pytest.fixture
def expected(name: str) -> dict[str, Any]:
    return json.loads((RECORDED / name / "expected.json").read_text())


def test_show_sums_it_up_as_then(
    folder: Path, expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert show.main([str(folder), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    for row, then in zip(summary["results"], expected["statistics"], strict=True):
        assert {name: row[name] for name in then} == then
    assert (summary["agentgym_complete"], summary["planned"]) == (False, None)
    assert show.main([str(folder)]) == 0
    assert "how many episodes were planned is not recorded" in capsys.readouterr().out


def test_it_is_judged_anew_and_stays_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / DATABASE_FILE).read_bytes()
    assert rescore.main([str(folder), "--threshold", "0.5"]) == 0
    assert "how many episodes were planned is not recorded" in capsys.readouterr().out
    assert (folder / DATABASE_FILE).read_bytes() == before
    assert not (folder / "episodes.tally").exists()


def test_export_writes_the_same_bytes(folder: Path, expected: dict[str, Any]) -> None:
    out = folder.parent / "messages.jsonl"
    assert export.main([str(folder), "--format", "messages", "--out", str(out)]) == 0
    assert hashlib.sha256(out.read_bytes()).hexdigest() == expected["messages_sha256"]


def test_audit_finds_nothing_and_gives_the_same_digest(
    folder: Path, expected: dict[str, Any]
) -> None:
    assert audit.main([str(folder)]) == 0
    certificate = json.loads((folder / "audit.json").read_text())
    for field in ("records_sha256", "episodes", "rendering"):
        assert certificate[field] == expected[field]


def test_replay_gives_identical_observations(folder: Path) -> None:
    assert replay.main([str(folder), "--spawn", "1"]) == 0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("two_environments", 'environments.textcraft.version: "1.0.0" -> "2.0.0"'),
        ("shipped_agent", 'policies.agent.weights: "weights-97acd7ac42f0" -> "weights-'),
    ],
    indirect=["name"],
)
def test_a_resume_under_another_environment_or_agent_is_refused(
    folder: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "manifest.json").read_bytes()
    assert sample.main(["--resume", str(folder)]) == 2
    assert change in capsys.readouterr().err
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("name", PLANNED, indirect=True)
def test_a_resume_goes_on_with_it_and_keeps_every_record(
    folder: Path, name: str, expected: dict[str, Any]
) -> None:
    with RunReader.open(folder) as reader:
        before = {episode.episode_id: episode for episode in reader.episodes()}
        sessions = len(reader.manifest.sessions)
    assert len(before) == expected["episodes"]
    assert sample.main(["--resume", str(folder)]) == 0
    with RunReader.open(folder) as reader:
        assert reader.verify() == []
        after = {episode.episode_id: episode for episode in reader.episodes()}
        assert len(reader.manifest.sessions) == sessions + 1
    assert len(after) == PLANNED[name]
    assert {key: after[key] for key in before} == before
    assert audit.main([str(folder)]) == 0


def test_a_resume_with_another_seed_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "manifest.json").read_bytes()
    assert sample.main(["--resume", str(folder), "--seed", "7"]) == 2
    assert "seed: " in capsys.readouterr().err
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("name", ["options"], indirect=True)
def test_a_run_whose_wording_is_gone_is_read_and_a_resume_names_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent.parent / "wording.json").unlink()
    assert show.main([str(folder)]) == 0
    assert audit.main([str(folder)]) == 0
    assert sample.main(["--resume", str(folder)]) == 2
    assert "wording.json" in capsys.readouterr().err
