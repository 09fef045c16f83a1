"""What a run or a training writes is its owner's alone, whatever the umask; exports follow it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator import export, sample
from orchestrator.audit import main as audit
from training.config.cli import run_recipe
from training.config.start import Start
from training.runs.run_dir import RunDir


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in sorted([folder, *folder.rglob("*")])
    }


def must_be_private(folder: Path) -> None:
    for name, mode in modes(folder).items():
        assert mode == (0o700 if (folder / name).is_dir() else 0o600), (name, oct(mode))


def test_a_run_is_its_owners_alone_and_its_export_is_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--env", "maze", "--policy", "expert", "--episodes", "1", "--spawn", "1"]
    assert sample.main([*flags, "--out", str(run)]) == 0
    assert sample.main(["--resume", str(run)]) == 0
    assert audit([str(run)]) == 0
    assert {"manifest.json", "episodes.sqlite", "logs/run.jsonl", "logs/server-0.log"} <= set(
        modes(run)
    )
    must_be_private(run)
    out = tmp_path / "episodes.jsonl"
    assert export.main([str(run), "--format", "messages", "--out", str(out)]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o666


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    out: Path


def test_what_a_training_command_writes_is_its_owners_alone(tmp_path: Path) -> None:
    def train(recipe: Recipe, *, start: Start, console: object) -> None:
        run_dir = RunDir.open(recipe.out, {"a": 1}, algorithm="bc", start=start)
        run_dir.stage("one", dict)
        (run_dir.checkpoints / "step-1").mkdir(parents=True)
        (run_dir.checkpoints / "step-1" / "model.safetensors").write_text("weights")

    out = tmp_path / "trainings" / "one"
    assert run_recipe(Recipe, train, train, ["--out", str(out)], program="train") == 0
    must_be_private(out)
    assert os.umask(0) == 0, "the umask of the process is as it was"
