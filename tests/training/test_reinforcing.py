from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

from rich.console import Console

from orchestrator.configuration import to_plain
from orchestrator.store import RunReader
from tests.training.makers import write_echo_recipe
from tests.training.test_agentevol import recipe
from training.agentevol import evolve
from training.config.recipe import build, recipe_differences
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.errors import RecipeError
from training.grpo import GRPORecipe
from training.reinforcing import Reinforcing, reinforce
from training.trainer.models import InitConfig, create_base

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

QUIET = Console(quiet=True)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_tasks_that_a_program_divided_are_those_that_are_played(tmp_path, asynchronous):
    train_tokenizer(["say yes", "Step"], tmp_path / "tokenizer", TokenizerConfig(vocab_size=300))
    init = InitConfig(hidden_size=32, layers=1, heads=2, context=512)
    base = create_base(init, tmp_path / "tokenizer", tmp_path / "model", seed=1)
    like = build(GRPORecipe, write_echo_recipe(tmp_path / "unused", base))
    items = {"echo": ["echo_1000003", "echo_1000001"]}
    found = reinforce(
        Reinforcing(steps=2, tasks=2, group=2, asynchronous=asynchronous),
        like.environments,
        items,
        tmp_path / "run",
        model=like.model,
        rollout=like.rollout,
        device="cpu",
        tracking=like.tracking,
        console=QUIET,
    )
    assert found["episodes"] == 8
    assert len(found["rewards"]) == 2
    played: set[str] = set()
    for step in (tmp_path / "run" / "rollouts").glob("stream" if asynchronous else "step-*"):
        with RunReader.open(step) as reader:
            played |= {summary.item_id for summary in reader.summaries()}
    assert played == set(items["echo"])


def test_tasks_that_were_divided_elsewhere_are_not_held_out_here(tmp_path):
    values = write_echo_recipe(tmp_path, Path("model"), items={"echo": ["echo_1000001"]})
    assert build(GRPORecipe, values).items == {"echo": ("echo_1000001",)}
    for wrong in ({"evaluate": True}, {"items": {"maze": ["maze_1000001"]}}):
        with pytest.raises(RecipeError, match="items are of every environment, and go with"):
            build(GRPORecipe, {**values, **wrong})


def test_the_control_learns_in_every_way_that_grpo_does():
    """A clean comparison is the only place where an option can show what it is worth."""
    of_its_own = {"model", "environments", "items", "out", "rollout", "device", "tracking", "seed"}
    of_its_own |= {"replay", "held_out_contents", "keep_states", "evaluate", "progress"}
    keys = {it.name for it in fields(GRPORecipe)} - {it.name for it in fields(Reinforcing)}
    assert keys == of_its_own


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({"group": 1}, "group is at least 2"),
        ({"branches": {"states": 2}, "asynchronous": True}, "leave out asynchronous"),
        ({"dynamic_sampling": 1, "advantages": {"baseline": "batch"}}, "leave one of them out"),
    ],
)
def test_a_section_that_cannot_be_is_refused_before_anything_is_cloned(tmp_path, section, why):
    with pytest.raises(RecipeError, match=why) as refused:
        recipe(tmp_path, controls=["grpo"], grpo=section)
    assert refused.value.field == "grpo"


def test_a_run_that_was_recorded_without_the_newer_keys_goes_on():
    today = to_plain(Reinforcing())
    newer = ("objective", "branches", "value", "dynamic_sampling", "turn_curriculum")
    earlier = {key: value for key, value in today.items() if key not in newer}
    assert recipe_differences({"grpo": earlier}, {"grpo": today}) == []


def test_the_control_and_its_section_go_together(tmp_path):
    for wrong in ({"controls": ["grpo"]}, {"grpo": {"steps": 1}}):
        with pytest.raises(RecipeError, match=r"grpo and the section \[grpo\] go together"):
            recipe(tmp_path, **wrong)


def test_without_iterations_there_is_nothing_to_vary(tmp_path):
    for wrong in ({"controls": ["one-iteration"]}, {"matrix": {"samples": [2]}}):
        with pytest.raises(RecipeError, match="without iterations there is no matrix"):
            recipe(tmp_path, iterations=0, **wrong)


def test_cloning_and_grpo_are_a_run_without_iterations(tmp_path):
    out = tmp_path / "run"
    grpo = {"steps": 2, "tasks": 2, "group": 2}
    report = evolve(
        recipe(out, iterations=0, large=False, controls=["grpo"], grpo=grpo), console=QUIET
    )
    assert [row.name for row in report.rows] == ["random", "BC_base", "BC_base + GRPO"]
    assert report.rows[-1].note == "6 expert episodes, then 8 own ones by GRPO"
    assert report.checkpoints == (out / "seed-0" / "grpo" / "final",)
    results = json.loads((out / "results.json").read_text())
    assert len(results["grpo_rewards"]["seed 0"]) == 2
    # What GRPO learned from is what may be explored, and nothing that evaluates.
    split = json.loads((out / "state.json").read_text())["finished"]["tasks"]["result"]["wordle"]
    learned = json.loads((out / "seed-0" / "grpo" / "recipe.json").read_text())["recipe"]["items"]
    assert learned == {"wordle": split["explore"]}
    assert not set(learned["wordle"]) & set(split["evaluate"])
