from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.errors import CheckpointDamaged, OutputOccupied, RecipeChanged
from training.runs.stages import STATE_FILE, Stages


def test_a_finished_stage_is_not_done_again(tmp_path: Path):
    calls: list[int] = []

    def work() -> dict:
        calls.append(1)
        return {"answer": 42}

    first = Stages.begin(tmp_path / "run", {"a": 1})
    assert first.do("think", work) == {"answer": 42}
    again = Stages.begin(tmp_path / "run", {"a": 1}, resume=True)
    assert again.do("think", work) == {"answer": 42}
    assert again.finished == ("think",)
    assert calls == [1]


def test_a_stage_that_was_cut_off_is_done_again(tmp_path: Path):
    stages = Stages.begin(tmp_path / "run", {})
    with pytest.raises(KeyboardInterrupt):
        stages.do("think", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    again = Stages.begin(tmp_path / "run", {}, resume=True)
    assert again.do("think", lambda: {"answer": 1}) == {"answer": 1}


def test_results_are_the_same_from_memory_and_from_disk(tmp_path: Path):
    stages = Stages.begin(tmp_path / "run", {})
    fresh = stages.do("think", lambda: {"pair": (1, 2)})
    assert fresh == {"pair": [1, 2]}
    again = Stages.begin(tmp_path / "run", {}, resume=True)
    assert again.do("think", dict) == fresh


def test_a_folder_in_use_needs_resume_or_overwrite(tmp_path: Path):
    Stages.begin(tmp_path / "run", {}).do("think", lambda: {"answer": 1})
    with pytest.raises(OutputOccupied):
        Stages.begin(tmp_path / "run", {})
    anew = Stages.begin(tmp_path / "run", {}, overwrite=True)
    assert anew.finished == ()


def test_a_folder_of_something_else_is_never_removed(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("precious")
    for overwrite in (False, True):
        with pytest.raises(OutputOccupied):
            Stages.begin(tmp_path, {}, overwrite=overwrite)
    assert (tmp_path / "thesis.txt").exists()


def test_another_recipe_is_refused_with_what_differs(tmp_path: Path):
    Stages.begin(tmp_path / "run", {"seed": 1, "same": True})
    with pytest.raises(RecipeChanged, match="seed: 1 -> 2"):
        Stages.begin(tmp_path / "run", {"seed": 2, "same": True}, resume=True)


def test_what_only_adds_stages_may_change(tmp_path: Path):
    first = Stages.begin(tmp_path / "run", {"iterations": 1, "seed": 0})
    first.do("one", lambda: {"answer": 1})
    more = {"iterations": 2, "seed": 0}
    again = Stages.begin(tmp_path / "run", more, resume=True, free=("iterations",))
    assert again.finished == ("one",)
    with pytest.raises(RecipeChanged, match="seed"):
        other = {"iterations": 2, "seed": 1}
        Stages.begin(tmp_path / "run", other, resume=True, free=("iterations",))


def test_a_damaged_state_is_named(tmp_path: Path):
    Stages.begin(tmp_path / "run", {})
    (tmp_path / "run" / STATE_FILE).write_text(json.dumps({"layout": 99}))
    with pytest.raises(CheckpointDamaged, match="layout 99"):
        Stages.begin(tmp_path / "run", {}, resume=True)
