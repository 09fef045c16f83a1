"""Folders of trainings as they are found and read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import RunNotFound, TrainingUnreadable
from orchestrator.training_folder import (
    LOG_FILE,
    RECIPE_FILE,
    REPORT_FILE,
    RESULTS_FILE,
    STATE_FILE,
    TrainingState,
    find_trainings,
    hold_training,
    iterate_log,
    read_training,
)
from tests.orchestrator.trainings import (
    append_log,
    finish_stages,
    judged,
    write_agentevol,
    write_grpo,
    write_training,
)

HOLDING = """
import sys, pathlib, orchestrator.training_folder as it
with it.hold_training(pathlib.Path(sys.argv[1])):
    print("trains", flush=True)
    sys.stdin.read()
"""


def test_trainings_are_found_below_folders_and_other_recipes_are_not(tmp_path: Path) -> None:
    evol, grpo = write_agentevol(tmp_path / "b" / "evol"), write_grpo(tmp_path / "a")
    write_training(tmp_path / ".hidden", "bc", {})
    write_training(tmp_path / "cake", "baking", {})
    (tmp_path / "soup").mkdir()
    (tmp_path / "soup" / RECIPE_FILE).write_text("carrots")
    (tmp_path / "link").symlink_to(grpo)
    nested = [evol / f"seed-{seed}" / "iteration-1" for seed in (0, 1)]
    assert find_trainings([tmp_path, grpo]) == [grpo, evol, *nested]
    with pytest.raises(RunNotFound):
        find_trainings([tmp_path / "nowhere"])


def test_a_training_is_finished_when_its_last_part_is_there(tmp_path: Path) -> None:
    evol, grpo = write_agentevol(tmp_path / "evol"), write_grpo(tmp_path / "grpo")
    bc = write_training(tmp_path / "bc", "bc", {})
    assert {read_training(it).state for it in (evol, grpo, bc)} == {TrainingState.STOPPED}
    (evol / RESULTS_FILE).write_text("{}")
    finish_stages(grpo, {"judge-final": judged(1, 1)})
    (bc / REPORT_FILE).write_text('{"steps": 2}')
    assert {read_training(it).state for it in (evol, grpo, bc)} == {TrainingState.FINISHED}
    silent = write_training(tmp_path / "silent", "grpo", {"evaluate": False})
    finish_stages(silent, {"learn": {"steps": 3}})
    assert read_training(silent).complete


def test_a_training_is_live_while_any_of_its_processes_is(tmp_path: Path) -> None:
    folder = write_grpo(tmp_path)
    command = [sys.executable, "-c", HOLDING, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"trains\n"
        with hold_training(folder):
            assert read_training(folder).state is TrainingState.LIVE
        assert read_training(folder).state is TrainingState.LIVE
        process.kill()
    assert read_training(folder).state is TrainingState.STOPPED


def test_lines_of_a_log_that_were_cut_off_are_left_out(tmp_path: Path) -> None:
    assert list(iterate_log(tmp_path / LOG_FILE)) == []
    append_log(tmp_path, {"step": 1}, {"step": 2})
    with (tmp_path / LOG_FILE).open("a") as log:
        log.write('[3]\n{"step": 4, "lo')
    assert list(iterate_log(tmp_path / LOG_FILE)) == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (RECIPE_FILE, "{"),
        (RECIPE_FILE, '{"algorithm": "bc"}'),
        (STATE_FILE, "[]"),
        (STATE_FILE, '{"layout": 2}'),
        (STATE_FILE, '{"finished": {"learn": 7}}'),
        (STATE_FILE, "[" * 100_000),
        (REPORT_FILE, "\xff"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, content: str) -> None:
    write_grpo(tmp_path)
    (tmp_path / file).write_bytes(content.encode("latin-1"))
    with pytest.raises(TrainingUnreadable, match=r"damaged|cannot be read|is no object"):
        read_training(tmp_path)
