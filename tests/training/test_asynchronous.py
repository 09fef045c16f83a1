from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

import torch
from anyio.from_thread import BlockingPortal, start_blocking_portal
from rich.console import Console
from safetensors.torch import load_file

from agentgym.episode.v1 import episode_pb2
from orchestrator.configuration import dump_toml
from orchestrator.store import RunReader
from tests.kit.fake_sglang import FakeModel, FakeSGLang, serving
from tests.training.makers import (
    forget_learning,
    stopped_in_step,
    train_speaker,
    write_echo_recipe,
)
from training.config.recipe import build
from training.config.start import Start
from training.data.trajectories import WeightVersions
from training.errors import RecipeError, TrainingError
from training.grpo import GRPORecipe, train
from training.rollouts.groups import TakenGroups
from training.runs.tracking import read_log

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def speaker(tmp_path_factory) -> Path:
    return train_speaker(tmp_path_factory.mktemp("speaker"))


def recipe_of(model: Path, out: Path, **changes) -> GRPORecipe:
    values = {"asynchronous": True, "max_off_policy_steps": 2, "save_every": 2, **changes}
    return build(GRPORecipe, write_echo_recipe(out, model, **values))


def log_of(recipe: GRPORecipe) -> list[dict]:
    return read_log(recipe.out / "log.jsonl")


def taken_by(recipe: GRPORecipe) -> list[tuple[int, ...]]:
    return TakenGroups(recipe.out / "rollouts/taken.jsonl").steps


def episodes_of(recipe: GRPORecipe) -> list[episode_pb2.Episode]:
    with RunReader.open(recipe.out / "rollouts/stream") as reader:
        assert reader.verify() == []
        return list(reader.episodes())


def versions_of(episode: episode_pb2.Episode) -> list[str]:
    return [name for segment in episode.token_segments for name in segment.policy_versions]


def pushed(recipe: GRPORecipe) -> list[int]:
    """The steps of the weights that the policy got, in the order in which it got them."""
    run = json.loads((recipe.out / "recipe.json").read_text())["run_id"]
    lines = (recipe.out / "logs/train.jsonl").read_text().splitlines()
    names = [it["version"] for it in map(json.loads, lines) if it["event"] == "weights updated"]
    steps = [WeightVersions(run).step(name) for name in names]
    return [step for step in steps if step is not None]


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_equal_weights(one: Path, other: Path, atol: float) -> None:
    weights = weights_of(other)
    for name, tensor in weights_of(one).items():
        torch.testing.assert_close(tensor, weights[name], atol=atol, rtol=0)


def test_without_staleness_a_step_is_that_of_a_run_with_a_barrier(speaker, tmp_path):
    barrier = recipe_of(speaker, tmp_path / "barrier", asynchronous=False, max_off_policy_steps=0)
    stream = recipe_of(speaker, tmp_path / "stream", max_off_policy_steps=0)
    finals = [train(recipe, console=QUIET) for recipe in (barrier, stream)]
    curves = [log_of(recipe) for recipe in (barrier, stream)]
    assert any(row["informative_groups"] for row in curves[0])
    names = ("reward", "episodes", "groups", "informative_groups", "tokens", "token_age_max")
    for one, other in zip(*curves, strict=True):
        assert {name: one.get(name) for name in names} == {name: other.get(name) for name in names}
    assert taken_by(stream) == [(0, 1), (2, 3)]
    # Who shares a batch of the engine decides the last bits of recorded logprobs.
    assert_equal_weights(*finals, atol=1e-4)


@pytest.mark.slow
def test_a_run_that_was_cut_off_learns_from_every_group_once(speaker, tmp_path):
    recipe = recipe_of(speaker, tmp_path / "run", steps=5, clip={"importance_cap": 2.0})
    with stopped_in_step(4):
        train(recipe, console=QUIET)
    # The state is that after two steps; the third and the fourth are learned anew.
    before = taken_by(recipe)
    assert len(before) == 4
    final = train(recipe, start=Start.RESUME, console=QUIET)
    steps = taken_by(recipe)
    assert steps[:4] == before
    assert len({number for step in steps for number in step}) == 5 * recipe.tasks
    assert [row["step"] for row in log_of(recipe)] == [1, 2, 3, 4, 5]
    assert max(row["token_age_max"] for row in log_of(recipe)) in (1, 2)
    assert pushed(recipe) == sorted(pushed(recipe))
    keys = [(it.item_id, it.sample) for it in episodes_of(recipe)]
    assert len(keys) == len(set(keys)) == 5 * recipe.tasks * recipe.group
    # Learning once more from what the ledger says makes these very weights.
    again = forget_learning(recipe, tmp_path / "again")
    assert_equal_weights(final, train(again, start=Start.RESUME, console=QUIET), atol=0)
    assert len(episodes_of(again)) == len(keys)


@pytest.mark.slow
def test_groups_that_agree_are_replaced_by_those_to_come_and_a_resume_reads_them_again(
    speaker, tmp_path
):
    changes = {"dynamic_sampling": 2, "steps": 4, "save_every": 3}
    recipe = recipe_of(speaker, tmp_path / "run", **changes)
    final = train(recipe, console=QUIET)
    rows = log_of(recipe)
    assert any(row["replacements"] for row in rows)
    full = False
    for row in rows:
        assert row["groups"] == recipe.tasks + row["replacements"]
        # What agrees counts only when so many were replaced as may be, perhaps for a later step.
        full = full or row["replacements"] == 2 * recipe.tasks
        assert full or row["informative_groups"] == recipe.tasks
    # The log's reward is of all that was played, not of what teaches alone.
    assert [row["episodes"] for row in rows] == [row["groups"] * recipe.group for row in rows]
    again = forget_learning(recipe, tmp_path / "again")
    assert_equal_weights(final, train(again, start=Start.RESUME, console=QUIET), atol=0)
    assert [row["reward"] for row in log_of(again)] == [row["reward"] for row in rows]
    assert [row["replacements"] for row in log_of(again)] == [row["replacements"] for row in rows]


def test_recorded_runs_are_a_step_with_a_barrier(speaker, tmp_path):
    with pytest.raises(RecipeError, match="leave out asynchronous"):
        recipe_of(speaker, tmp_path, replay=["somewhere"])


def test_replacing_groups_does_not_run_ahead_of_a_curriculum(speaker, tmp_path):
    curriculum = [{"from_step": 0, "rounds": 2}]
    with pytest.raises(RecipeError, match="runs ahead of without a barrier"):
        recipe_of(speaker, tmp_path, dynamic_sampling=1, turn_curriculum=curriculum)


# Beside a model server --------------------------------------------------------


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def engine(speaker, portal) -> Iterator[FakeSGLang]:
    engine = FakeSGLang(FakeModel(model_path=str(speaker), reply_tokens=12, step_seconds=0.005))
    with portal.wrap_async_context_manager(serving(engine)) as engine.url:
        yield engine


def on_server(model: Path, out: Path, engine: FakeSGLang, **changes) -> GRPORecipe:
    rollout = {
        "max_new_tokens": 16,
        "fleet": {"spawn": 1},
        "engine": "sglang",
        "url": engine.url,
        "concurrency": 8,
    }
    return recipe_of(model, out, rollout=rollout, clip={"importance_cap": 2.0}, **changes)


def test_episodes_on_a_server_get_new_weights_while_they_are_played(speaker, engine, tmp_path):
    recipe = on_server(speaker, tmp_path / "run", engine, steps=5)
    train(recipe, console=QUIET)
    assert [row["step"] for row in log_of(recipe)] == [1, 2, 3, 4, 5]
    assert all(row["token_age_max"] <= 2 for row in log_of(recipe))
    assert pushed(recipe) == sorted(pushed(recipe)) and set(pushed(recipe)) == set(range(6))
    mixed = [it for it in episodes_of(recipe) if len(set(versions_of(it))) > 1]
    assert mixed, "no episode lived through an update"


def test_a_server_whose_every_answer_is_useless_ends_the_run(speaker, engine, tmp_path):
    engine.edit = lambda _answer: {}
    with pytest.raises(TrainingError, match="2 groups in a row were lost"):
        train(on_server(speaker, tmp_path / "run", engine), console=QUIET)


# Several processes -------------------------------------------------------------


def launch(recipe: GRPORecipe, file: Path) -> None:
    """Two processes of torchrun."""
    file.write_text(dump_toml(recipe))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "training.grpo", str(file)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_two_processes_take_the_same_groups_and_learn_what_one_learns(speaker, tmp_path):
    changes = {"max_off_policy_steps": 0, "clip": {"importance_cap": 2.0}}
    # Without a bound that is reached: who ends first then decides nothing.
    changes["dynamic_sampling"] = 10
    alone = recipe_of(speaker, tmp_path / "alone", **changes)
    train(alone, console=QUIET)
    shared = recipe_of(speaker, tmp_path / "shared", **changes)
    launch(shared, tmp_path / "recipe.toml")
    assert taken_by(alone) == taken_by(shared)
    for one, other in zip(log_of(alone), log_of(shared), strict=True):
        assert one["reward"] == other["reward"]
        assert one["replacements"] == other["replacements"]
        assert one.get("loss") == pytest.approx(other.get("loss"), abs=1e-5)
    # Who shares a batch of the engine decides the last bits of recorded logprobs.
    assert_equal_weights(alone.out / "final", shared.out / "final", atol=1e-4)


@pytest.mark.slow
def test_two_processes_learn_beside_a_server_whose_episodes_live_on(speaker, engine, tmp_path):
    recipe = on_server(speaker, tmp_path / "run", engine, steps=4)
    launch(recipe, tmp_path / "recipe.toml")
    assert [row["step"] for row in log_of(recipe)] == [1, 2, 3, 4]
    assert all(row["token_age_max"] <= 2 for row in log_of(recipe))
    assert pushed(recipe) == sorted(pushed(recipe)) and set(pushed(recipe)) == set(range(5))
    numbers = [number for step in taken_by(recipe) for number in step]
    assert len(numbers) == len(set(numbers)) == 4 * recipe.tasks
