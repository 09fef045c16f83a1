from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from training.config.start import Start
from training.errors import CheckpointDamaged, OutputOccupied, RecipeChanged
from training.runs.run_dir import RunDir


def open_run(folder: Path, recipe: dict[str, Any], start: Start = Start.NEW, **options) -> RunDir:
    return RunDir.open(folder, recipe, algorithm="agentevol", start=start, **options)


def test_a_finished_stage_is_not_done_again(tmp_path: Path):
    calls: list[int] = []

    def work() -> dict:
        calls.append(1)
        return {"answer": 42}

    first = open_run(tmp_path / "run", {"a": 1})
    assert first.stage("think", work) == {"answer": 42}
    again = open_run(tmp_path / "run", {"a": 1}, Start.RESUME)
    assert again.stage("think", work) == {"answer": 42}
    assert again.finished == ("think",)
    assert calls == [1]


def test_a_training_keeps_its_id_and_no_other_one_has_it(tmp_path: Path):
    first = open_run(tmp_path / "run", {"a": 1})
    assert open_run(tmp_path / "run", {"a": 1}, Start.RESUME).run_id == first.run_id != ""
    assert open_run(tmp_path / "other", {"a": 1}).run_id != first.run_id
    assert (
        open_run(tmp_path / "run", {"a": 1}, Start.OVERWRITE).run_id
        != RunDir.read(tmp_path / "other").run_id
    )


def test_a_stage_that_was_cut_off_is_done_again(tmp_path: Path):
    run_dir = open_run(tmp_path / "run", {})
    with pytest.raises(KeyboardInterrupt):
        run_dir.stage("think", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    again = open_run(tmp_path / "run", {}, Start.RESUME)
    assert again.stage("think", lambda: {"answer": 1}) == {"answer": 1}


def test_results_are_the_same_from_memory_and_from_disk(tmp_path: Path):
    run_dir = open_run(tmp_path / "run", {})
    fresh = run_dir.stage("think", lambda: {"pair": (1, 2)})
    assert fresh == {"pair": [1, 2]}
    again = open_run(tmp_path / "run", {}, Start.RESUME)
    assert again.stage("think", dict) == fresh


def test_stages_of_several_processes_are_all_kept(tmp_path: Path):
    open_run(tmp_path / "run", {}).stage("common", dict)
    one, other = (open_run(tmp_path / "run", {}, Start.RESUME) for _ in range(2))
    one.stage("one", dict)
    other.stage("other", dict)
    assert one.stage("other", lambda: pytest.fail("it is finished")) == {}
    assert set(RunDir.read(tmp_path / "run").finished) == {"common", "one", "other"}


def test_a_folder_in_use_needs_resume_or_overwrite(tmp_path: Path):
    open_run(tmp_path / "run", {}).stage("think", lambda: {"answer": 1})
    with pytest.raises(OutputOccupied):
        open_run(tmp_path / "run", {})
    anew = open_run(tmp_path / "run", {}, Start.OVERWRITE)
    assert anew.finished == ()


def test_an_overwrite_removes_what_a_training_wrote_and_nothing_else(tmp_path: Path):
    run_dir = open_run(tmp_path / "run", {})
    run_dir.stage("think", dict)
    run_dir.write_report({"steps": 1})
    (run_dir.folder / "seed-0" / "base").mkdir(parents=True)
    (run_dir.folder / "thesis.txt").write_text("precious")
    open_run(tmp_path / "run", {}, Start.OVERWRITE)
    assert sorted(path.name for path in run_dir.folder.iterdir()) == ["recipe.json", "thesis.txt"]


def test_a_folder_of_something_else_is_never_removed(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("precious")
    for start in (Start.NEW, Start.OVERWRITE):
        with pytest.raises(OutputOccupied):
            open_run(tmp_path, {}, start)
    assert (tmp_path / "thesis.txt").exists()


def test_another_algorithms_run_is_refused(tmp_path: Path):
    open_run(tmp_path / "run", {})
    with pytest.raises(OutputOccupied, match="a training by agentevol is here"):
        RunDir.open(tmp_path / "run", {}, algorithm="grpo", start=Start.OVERWRITE)


def test_another_recipe_is_refused_with_what_differs(tmp_path: Path):
    open_run(tmp_path / "run", {"seed": 1, "same": True})
    with pytest.raises(RecipeChanged, match="seed: 1 -> 2"):
        open_run(tmp_path / "run", {"seed": 2, "same": True}, Start.RESUME)


def test_free_keys_may_change(tmp_path: Path):
    first = open_run(tmp_path / "run", {"iterations": 1, "seed": 0, "tracking": {"wandb": ""}})
    first.stage("one", lambda: {"answer": 1})
    more = {"iterations": 2, "seed": 0, "tracking": {"wandb": "project"}}
    free = ("iterations", "tracking")
    again = open_run(tmp_path / "run", more, Start.RESUME, free=free)
    assert again.finished == ("one",)
    with pytest.raises(RecipeChanged, match="seed"):
        open_run(tmp_path / "run", more | {"seed": 1}, Start.RESUME, free=free)


def test_a_damaged_state_is_named(tmp_path: Path):
    open_run(tmp_path / "run", {}).stage("think", dict)
    (tmp_path / "run" / "state.json").write_text(json.dumps({"layout": 99}))
    with pytest.raises(CheckpointDamaged, match="layout 99"):
        open_run(tmp_path / "run", {}, Start.RESUME)


def test_a_run_of_layout_1_goes_on(tmp_path: Path):
    """Its recipe was in state.json, under keys that have other names now."""
    finished = {"think": {"result": {"answer": 1}, "seconds": 0.5}}
    recipe = {"at_once": 2, "players": {"engine": "embedded"}, "environments": [{"read": 3}]}
    state = {"layout": 1, "recipe": recipe, "finished": finished}
    (tmp_path / "state.json").write_text(json.dumps(state))
    today = {
        "max_workers": 2,
        "rollout": {"engine": "embedded"},
        "environments": [{"pretrain_tasks": 3}],
    }
    with pytest.raises(RecipeChanged, match="max_workers: 2 -> 3"):
        open_run(tmp_path, today | {"max_workers": 3}, Start.RESUME)
    run_dir = open_run(tmp_path, today, Start.RESUME)
    assert run_dir.stage("think", dict) == {"answer": 1}
    run_dir.stage("more", dict)
    again = open_run(tmp_path, today, Start.RESUME)
    assert again.finished == ("think", "more")
    assert again.recipe == today
    assert again.run_id == run_dir.run_id != ""


def test_events_of_a_run_are_in_its_folder(tmp_path: Path):
    run_dir = open_run(tmp_path / "run", {})
    with run_dir.logging():
        run_dir.stage("think", dict)
    events = [json.loads(line) for line in run_dir.event_log.read_text().splitlines()]
    assert [event["event"] for event in events] == ["stage begins", "stage ended"]
    assert {(event["run_id"], event["stage"]) for event in events} == {("run", "think")}
