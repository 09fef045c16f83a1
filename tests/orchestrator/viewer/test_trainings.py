"""Trainings, as the viewer answers them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.training_folder import STATE_FILE, hold_training
from orchestrator.viewer.training_log import read_curves
from tests.kit.viewer import RunningViewer, run_viewer
from tests.orchestrator.trainings import (
    append_log,
    finish_stages,
    judged,
    write_agentevol,
    write_grpo,
    write_training,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("trainings") / "runs"
    write_agentevol(runs / "evol")
    write_grpo(runs / "grpo")
    damaged = write_grpo(runs / "damaged")
    (damaged / STATE_FILE).write_text('{"finished": {"judge-first": {"result": {"maze": {}}}}}')
    strange = write_agentevol(runs / "strange")
    finish_stages(strange, {"seed-0/judge-iteration-1": {"maze": {"values": [["a"]]}}})
    return runs


@pytest.fixture(scope="module")
def viewer(runs: Path) -> Iterator[RunningViewer]:
    with run_viewer(runs) as running:
        yield running


def test_trainings_are_listed_with_their_newest_figures(viewer: RunningViewer) -> None:
    lines = {it["training"]: it for it in viewer.ask("runs")["trainings"]}
    assert list(lines) == [f"runs/{name}" for name in ("damaged", "evol", "grpo", "strange")]
    evol = lines["runs/evol"]
    assert (evol["algorithm"], evol["state"], evol["runs"]) == ("agentevol", "stopped", 3)
    assert evol["progress"] == "2 of 4 iterations"
    assert evol["figures"] == {"BC_base": 0.25, "iteration 1": 0.625}
    grpo = lines["runs/grpo"]
    assert (grpo["progress"], grpo["figures"]["reward"]) == ("step 2 of 4", 0.5)
    for name in ("damaged", "strange"):
        assert lines[f"runs/{name}"]["state"] == "unreadable"
        assert "damaged" in lines[f"runs/{name}"]["problem"]
        assert "damaged" in viewer.ask("training", training=f"runs/{name}")["error"]


def test_an_iteration_has_scores_what_was_kept_and_the_runs_of_both(viewer: RunningViewer) -> None:
    data = viewer.ask("training", training="runs/evol")
    agents = {(it["seed"], it["agent"]): it for it in data["agents"]}
    names = ["BC_base", "iteration 1"]
    assert list(agents) == [
        (None, "random"),
        *((0, it) for it in [*names, "iteration 2"]),
        *((1, it) for it in names),
    ]
    first = agents[0, "iteration 1"]
    assert first["explored"] == {"maze": "runs/evol/seed-0/explore-1/maze"}
    assert first["kept"]["maze"]["kept"] == 3
    assert first["training"] == "runs/evol/seed-0/iteration-1"
    assert first["scores"]["maze"]["run"] == "runs/evol/seed-0/evaluation/iteration-1/maze"
    low, high = first["scores"]["maze"]["interval"]
    assert low < first["scores"]["maze"]["value"] == 0.5 < high
    # What goes on is there before its stage has ended.
    assert agents[0, "iteration 2"]["explored"] == {"maze": "runs/evol/seed-0/explore-2/maze"}
    pooled = data["pooled"][-1]
    assert (pooled["agent"], pooled["seeds"]) == ("iteration 1", 2)
    assert pooled["kept"]["maze"] == {"kept": 6, "confirmed": 10, "episodes": 17}
    nested = viewer.ask("training", training="runs/evol/seed-0/iteration-1")
    assert nested["curves"]["loss"] == {"steps": [1, 2], "values": [2.0, 0.25]}


def test_grpo_has_curves_scores_and_the_runs_of_its_steps(viewer: RunningViewer) -> None:
    data = viewer.ask("training", training="runs/grpo")
    assert data["curves"]["kl"]["values"] == [0.01, 0.02]
    assert [row["run"] for row in data["rows"]] == ["runs/grpo/rollouts/step-000001", None]
    (first,) = data["agents"]
    assert (first["agent"], first["scores"]["maze"]["value"]) == ("first weights", 0.5)


def test_grpo_without_a_barrier_has_one_run_for_all_steps(tmp_path: Path) -> None:
    folder = write_grpo(tmp_path / "grpo")
    (folder / "rollouts" / "step-000001").rename(folder / "rollouts" / "stream")
    with run_viewer(folder) as viewer:
        rows = viewer.ask("training", training="grpo")["rows"]
    assert [row["run"] for row in rows] == ["grpo/rollouts/stream"] * 2


def test_a_live_training_is_followed(tmp_path: Path) -> None:
    folder = write_grpo(tmp_path / "grpo")
    with run_viewer(folder) as viewer:
        asked = {"training": "grpo"}
        known = viewer.ask("training", **asked)
        assert viewer.ask("training", **asked, revision=known["revision"]) == {
            "revision": known["revision"]
        }
        with hold_training(folder):
            live = viewer.ask("training", **asked, revision=known["revision"])
            assert live["state"] == "live"
            append_log(folder, {"step": 3, "reward": 0.75})
            later = viewer.ask("training", **asked, revision=live["revision"])
            assert later["figures"]["reward"] == 0.75
            finish_stages(folder, {"judge-final": judged(1, 1)})
        assert viewer.ask("training", **asked)["state"] == "finished"


@pytest.mark.parametrize("name", ["", "../etc", "/etc", "grpo/rollouts"])
def test_only_trainings_that_were_found_can_be_reached(viewer: RunningViewer, name: str) -> None:
    assert "there is no training" in viewer.ask("training", training=name)["error"]


def test_a_long_log_becomes_few_points_that_are_means(tmp_path: Path) -> None:
    folder = write_training(tmp_path, "bc", {})
    rows = [{"step": step, "loss": float(step % 2), "odd": float("nan")} for step in range(1, 4001)]
    append_log(folder, *rows, {"step": 4001, "held_out_loss": 3, "note": "text", "flag": True})
    curves = read_curves(folder / "log.jsonl")
    assert curves.last_step == 4001
    assert set(curves.curves) == {"loss", "held_out_loss"}
    loss = curves.curves["loss"]
    assert 100 <= len(loss["values"]) <= 200
    assert loss["steps"] == sorted(loss["steps"])
    assert loss["steps"][-1] == 4000
    assert all(0.4 < value < 0.6 for value in loss["values"])
    assert curves.newest["loss"] == 0.0
    assert curves.last_rows[0]["note"] == "text"
