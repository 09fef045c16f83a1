from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

import numpy as np
import torch
from aiohttp import web
from anyio.from_thread import start_blocking_portal
from rich.console import Console
from safetensors.torch import load_file

from agent_runtime.engine.config import EmbeddedOptions
from orchestrator import audit
from orchestrator.client import connection_options
from orchestrator.command_line import run_loop
from orchestrator.configuration import dump_toml
from orchestrator.fleet import Fleet
from orchestrator.store import RunReader
from orchestrator.viewer.library import Library
from orchestrator.viewer.trainings import Trainings
from tests.kit import fake_sglang
from tests.kit.fake_sglang import FakeModel, FakeSGLang
from tests.training.makers import (
    stopped_in_branches,
    stopped_in_step,
    train_speaker,
    without_template,
    write_echo_recipe,
)
from training import grpo
from training.config.recipe import build
from training.config.start import Start
from training.data.contents import HeldOutContents, record_content
from training.data.sequences import Provenance, TokenSequence
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.errors import (
    CheckpointDamaged,
    Contaminated,
    DataError,
    ModelUnusable,
    NotEnoughMemory,
    RecipeError,
    TokenizerMismatch,
    TrainingError,
)
from training.grpo import GRPORecipe, TurnLimit, fit_engine, plan, step_tasks, train
from training.policy_gradient.scoring import Example
from training.policy_gradient.update import Learning, learn
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.progress import ProgressConfig
from training.rollouts.task_contents import read_contents
from training.rollouts.tasks import EnvironmentTasks
from training.runs.tracking import read_log
from training.trainer.batches import collate, target_logprobs
from training.trainer.critic import Critic
from training.trainer.distributed import distributed_context
from training.trainer.learner import Learner
from training.trainer.models import InitConfig, LoraSettings, create_base, load_for_training
from training.trainer.policy_loss import ClipConfig, Loss, SampledTokens

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

TEXTS = ["say yes", "say no", "thought action", "user assistant system\n"]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A model of random weights that knows 300 ids."""
    folder = tmp_path_factory.mktemp("base")
    train_tokenizer(TEXTS, folder / "tokenizer", TokenizerConfig(vocab_size=300))
    init = InitConfig(hidden_size=32, layers=2, heads=2, context=512)
    return create_base(init, folder / "tokenizer", folder / "model", seed=1)


# One update -------------------------------------------------------------------


def example(ids: list[int], first: int, advantage: float) -> Example:
    """A sequence whose tokens from `first` on were sampled; logprobs are filled in later."""
    mask = np.arange(len(ids)) >= first
    sequence = TokenSequence(
        ids=np.array(ids, np.uint32),
        mask=mask,
        logprobs=np.zeros(len(ids), np.float32),
        origin=Provenance(source="test", name="e"),
    )
    return Example(sequence, np.full(sequence.targets, advantage, np.float32))


def recorded_by(model: torch.nn.Module, it: Example, temperature: float) -> Example:
    batch = collate([it.sequence], torch.device("cpu"))
    with torch.no_grad():
        found = target_logprobs(model, batch, temperature=temperature)
    assert it.sequence.logprobs is not None
    it.sequence.logprobs[it.sequence.mask] = found.numpy()
    return it


def likelihood(model: torch.nn.Module, it: Example) -> float:
    with torch.no_grad():
        return float(target_logprobs(model, collate([it.sequence], torch.device("cpu"))).sum())


def recipe_of(base: Path, out: Path, **changes) -> GRPORecipe:
    values = {
        "model": {"path": str(base), "precision": "float32"},
        "environments": [{"name": "echo", "explore": 8, "evaluate": 8}],
        "out": str(out),
        "device": "cpu",
        "optimizer": {"lr": 1e-3, "schedule": "constant", "warmup": 0.0},
        **changes,
    }
    return build(GRPORecipe, values)


@pytest.mark.parametrize(
    ("average", "changes"),
    [
        ("tokens", {}),
        ("sequences", {"clip": {"ratio": "sequence"}}),
        (
            "constant",
            {"average_tokens": 10, "clip": {"importance_cap": 2.0}, "tasks": 1, "group": 2},
        ),
    ],
)
def test_an_update_moves_probability_to_what_was_better_than_its_group(
    base, tmp_path, average, changes
):
    recipe = recipe_of(base, tmp_path, average=average, temperature=0.7, micro_tokens=8, **changes)
    with distributed_context("cpu") as dist:
        model = load_for_training(base, recipe.model, dist)
        good = recorded_by(model, example([5, 6, 7, 8, 9], 2, 1.0), 0.7)
        bad = recorded_by(model, example([5, 6, 17, 18], 2, -1.0), 0.7)
        before = likelihood(model, good), likelihood(model, bad)
        learner = Learner(model, recipe.optimizer, dist, seed=0, total=1)
        metrics_of_step = learn(learner, [good, bad], Learning(recipe=recipe, dist=dist))
        assert likelihood(model, good) > before[0]
        assert likelihood(model, bad) < before[1]
        # What was recorded at 0.7 is what is computed at 0.7: nothing had moved.
        assert metrics_of_step["ratio_dev"] == pytest.approx(0.0, abs=1e-5)
        assert metrics_of_step["logprob_gap"] == pytest.approx(0.0, abs=1e-5)
        assert metrics_of_step["tokens"] == 5
        # Three tokens of advantage 1 and two of -1, at a ratio of 1.
        loss = {"tokens": -1 / 5, "sequences": 0.0, "constant": -1 / 20}[average]
        assert metrics_of_step["loss"] == pytest.approx(loss, abs=1e-5)


def test_below_adapters_is_the_reference(base, tmp_path):
    """A second model gives the same divergence, and takes as much memory again."""
    clip, lora = {"kl_coef": 0.5}, {"rank": 4, "dropout": 0.5}
    changes = {"clip": clip, "ppo_epochs": 3, "minibatches": 2}
    recipe = recipe_of(base, tmp_path, **changes)
    recipe = replace(recipe, model=replace(recipe.model, lora=build(LoraSettings, lora)))
    found = []
    with distributed_context("cpu") as dist:
        for own in (True, False):
            model = load_for_training(base, recipe.model, dist)
            reference = model if own else load_for_training(base, recipe.model, dist, frozen=True)
            learner = Learner(model, recipe.optimizer, dist, seed=0, total=6)
            torch.manual_seed(0)
            parts = [example([5, 6, 7, 8, 9], 2, 1.0), example([5, 6, 17, 18], 1, -1.0)]
            model.eval()
            parts = [recorded_by(model, it, 1.0) for it in parts]
            model.train()
            torch.manual_seed(0)
            learning = Learning(recipe=recipe, dist=dist, reference=reference)
            found.append(learn(learner, parts, learning))
            assert model.training and any(it.requires_grad for it in model.parameters())
    assert found[0]["kl"] > 0
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    plans = [plan(it, console=Console(quiet=True)) for it in (recipe, without_kl(recipe))]
    assert plans[0].total == plans[1].total


def without_kl(recipe: GRPORecipe) -> GRPORecipe:
    return replace(recipe, clip=replace(recipe.clip, kl_coef=0.0))


@pytest.mark.parametrize("minibatches", [1, 2])
def test_a_constant_average_counts_a_token_alike_however_few_groups_teach(
    base, tmp_path, minibatches
):
    changes = {"average": "constant", "average_tokens": 10, "tasks": 4, "group": 2}
    changes |= {"optimizer": {"lr": 1e-9, "schedule": "constant", "warmup": 0.0}}
    recipe = recipe_of(base, tmp_path, minibatches=minibatches, normalise=False, **changes)
    losses: list[float] = []
    for teach in (1, 2, 4):
        with distributed_context("cpu") as dist:
            model = load_for_training(base, recipe.model, dist)
            it = recorded_by(model, example([5, 6, 7, 8, 9], 2, 1.0), 1.0)
            learner = Learner(model, recipe.optimizer, dist, seed=0, total=2)
            learned = learn(learner, [it] * teach, Learning(recipe=recipe, dist=dist))
            losses.append(learned["loss"] * learner.step / teach)
    # Of an update's share of eight planned episodes of ten tokens, three of each that teaches.
    assert losses == pytest.approx([-3 / (80 / minibatches)] * 3, rel=1e-5)


def test_micro_batches_decide_memory_and_never_the_result(base, tmp_path):
    after: list[float] = []
    for micro in (4, 4096):
        recipe = recipe_of(base, tmp_path, micro_tokens=micro)
        with distributed_context("cpu") as dist:
            model = load_for_training(base, recipe.model, dist)
            parts = [example([5, 6, 7, 8, 9], 2, 1.0), example([5, 6, 17, 18], 1, -1.0)]
            parts = [recorded_by(model, it, 1.0) for it in parts]
            learner = Learner(model, recipe.optimizer, dist, seed=0, total=1)
            learn(learner, parts, Learning(recipe=recipe, dist=dist))
            after.append(likelihood(model, parts[0]))
    assert after[0] == pytest.approx(after[1], abs=1e-5)


def test_a_value_head_comes_to_expect_what_episodes_earn(base, tmp_path):
    recipe = recipe_of(
        base,
        tmp_path,
        advantages={"baseline": "value"},
        group=1,
        ppo_epochs=2,
        optimizer={"lr": 1e-6, "schedule": "constant", "warmup": 0.0},
        value={"lr": 0.05, "clip": 0.5, "trunk_share": 0.5},
    )
    with distributed_context("cpu") as dist:
        model = load_for_training(base, recipe.model, dist)
        parts = [example([5, 6, 7, 8, 9], 2, 0.0), example([9, 10, 17, 18], 2, 0.0)]
        parts = [
            replace(recorded_by(model, it, 1.0), episode=number, reward=1.0 - number)
            for number, it in enumerate(parts)
        ]
        learner = Learner(model, recipe.optimizer, dist, seed=0, total=100)
        critic = Critic(model, recipe.value, dist)
        learning = Learning(recipe=recipe, dist=dist, critic=critic)
        found = [learn(learner, parts, learning) for _ in range(25)]
        # At first every value is 0, and explains nothing.
        assert (found[0]["value"], found[0]["explained_variance"]) == (0.0, 0.0)
        assert found[-1]["value_loss"] < 0.1 * found[0]["value_loss"]
        assert found[-1]["explained_variance"] > 0.8
        assert found[-1]["value"] == pytest.approx(3 / 5, abs=0.1)
        # Another one that goes on from what was saved does what this one does.
        critic.save(tmp_path)
        again = Critic(model, recipe.value, dist)
        again.load(tmp_path)
        hidden = torch.randn(4, 32)
        for it in (critic, again):
            it.loss(it.values(hidden), *torch.zeros(3, 4).unbind()[:2], torch.ones(4)).backward()
            it.update()
        assert torch.equal(critic.values(hidden), again.values(hidden))
        (tmp_path / "critic.safetensors").unlink()
        with pytest.raises(CheckpointDamaged, match="cannot be used"):
            again.load(tmp_path)


# The recipe and the plan of steps ------------------------------------------------


def test_the_number_of_turns_grows_with_the_steps(base, tmp_path):
    stages = [{"from_step": 10, "rounds": 13}, {"from_step": 0, "rounds": 6}]
    recipe = recipe_of(base, tmp_path, turn_curriculum=stages)
    assert [recipe.max_rounds(step) for step in (0, 9, 10, 99)] == [6, 6, 13, 13]
    assert recipe_of(base, tmp_path).max_rounds(5) == 0
    with pytest.raises(ValueError, match="rounds at least 1"):
        TurnLimit(from_step=0, rounds=0)


def test_groups_that_teach_are_not_replaced(base, tmp_path):
    with pytest.raises(RecipeError, match="leave one of them out"):
        recipe_of(base, tmp_path, dynamic_sampling=1, advantages={"baseline": "batch"})


def test_a_group_of_one_is_refused(base, tmp_path):
    with pytest.raises(RecipeError, match="group is at least 2"):
        recipe_of(base, tmp_path, group=1)


def test_what_only_an_imitation_reads_is_refused(base, tmp_path):
    with pytest.raises(RecipeError, match="unknown key") as refused:
        recipe_of(base, tmp_path, environments=[{"name": "maze", "samples": 4}])
    assert refused.value.field == "environments.0.samples"


def test_tasks_take_turns_and_each_is_played_once_a_round():
    tasks = {"maze": ["m1", "m2", "m3"], "echo": ["e1", "e2", "e3"]}
    played = [task for step in range(3) for task in step_tasks(tasks, step, 2, seed=0)]
    assert sorted(played) == sorted((name, it) for name in tasks for it in tasks[name])
    assert step_tasks(tasks, 1, 2, seed=0) == step_tasks(tasks, 1, 2, seed=0)


# The whole loop ---------------------------------------------------------------


@pytest.fixture(scope="module")
def speaker(tmp_path_factory) -> Path:
    return train_speaker(tmp_path_factory.mktemp("speaker"))


def whole(base: Path, out: Path, **changes) -> GRPORecipe:
    return build(GRPORecipe, write_echo_recipe(out, base, **{"save_every": 1, **changes}))


def validated(base: Path, out: Path, progress: dict) -> GRPORecipe:
    """Some tasks are set apart, and the weights of each step are evaluated on them."""
    recipe = whole(base, out)
    apart = tuple(replace(it, validate=4) for it in recipe.environments)
    return replace(recipe, environments=apart, progress=build(ProgressConfig, progress))


def metrics(out: Path) -> list[dict]:
    return read_log(out / "log.jsonl")


def test_a_run_plays_learns_and_goes_on_where_it_was_cut_off(speaker, tmp_path):
    console = Console(quiet=True)
    progress = {"validate_every": 1, "table_every": 2, "choose": "validation"}
    straight = train(validated(speaker, tmp_path / "straight", progress), console=console)
    cut = validated(speaker, tmp_path / "cut", progress)
    with stopped_in_step(2):
        train(cut, console=console)
    resumed = train(cut, start=Start.RESUME, console=console)
    assert [it["step"] for it in metrics(tmp_path / "cut")] == [1, 2]
    for one, other in zip(metrics(tmp_path / "straight"), metrics(tmp_path / "cut"), strict=True):
        assert one["reward"] == other["reward"]
        assert one["episodes"] == other["episodes"] == 8
        assert one["validate/mean"] == other["validate/mean"] == one["validate/echo"]
    for it in (tmp_path / "straight", tmp_path / "cut"):
        assert sorted(step.name for step in (it / "checkpoints").iterdir()) == [
            "step-000001",
            "step-000002",
        ]
        means = [row["validate/mean"] for row in metrics(it)]
        chosen = json.loads((it / "state.json").read_text())["finished"]["learn"]["result"]
        assert chosen["chosen"] == 1 + means.index(max(means))
        best = it / "checkpoints" / f"step-{chosen['chosen']:06d}" / "model.safetensors"
        assert best.read_bytes() == (it / "final" / "model.safetensors").read_bytes()
        rows = (it / "tables" / "step-000002.jsonl").read_text().splitlines()
        assert len(rows) == 8
    library = Library([tmp_path / "cut"])
    agents = Trainings(library).training({"training": "cut"})["agents"]
    library.close()
    assert [agent["agent"] for agent in agents] == ["step 1", "step 2"]
    assert agents[1]["scores"]["echo"]["run"] == "cut/evaluation/validate-000002/echo"
    assert any(it["informative_groups"] for it in metrics(tmp_path / "cut"))
    one, other = (load_file(it / "model.safetensors") for it in (straight, resumed))
    for name, weights in one.items():
        # Who shares a batch of the engine decides the last bits of recorded logprobs.
        torch.testing.assert_close(weights, other[name], atol=1e-4, rtol=0)


def branched(base: Path, out: Path) -> GRPORecipe:
    """Episodes of four turns, each played on from two states, three times."""
    recipe = whole(base, out, branches={"states": 2, "per_state": 3}, progress={"table_every": 1})
    longer = tuple(replace(it, options={**it.options, "length": 4}) for it in recipe.environments)
    return replace(recipe, environments=longer)


@pytest.fixture(scope="module")
def straight(speaker, tmp_path_factory) -> Path:
    """A run with branches, from its begin to its end."""
    folder = tmp_path_factory.mktemp("branches") / "straight"
    train(branched(speaker, folder), console=Console(quiet=True))
    return folder


def test_turns_get_credit_from_branches_and_a_run_that_was_cut_off_plays_the_same(
    speaker, straight, tmp_path
):
    console = Console(quiet=True)
    cut = branched(speaker, tmp_path / "cut")
    with stopped_in_branches(1, after=7):
        train(cut, console=console)
    train(cut, start=Start.RESUME, console=console)
    for step in range(2):
        one, other = (branches_of(it, step) for it in (straight, tmp_path / "cut"))
        assert len(one) == 8 * 2 * 3
        assert said(one) == said(other)
    tables = [it / "tables" / "step-000002.jsonl" for it in (straight, tmp_path / "cut")]
    rows = [[json.loads(line) for line in it.read_text().splitlines()] for it in tables]
    assert [it["advantages"] for it in rows[0]] == [it["advantages"] for it in rows[1]]
    assert any(len(set(it["advantages"])) > 1 for it in rows[0])
    assert metrics(tmp_path / "cut")[1]["branch_states"] == 16
    # What is on disk proves itself, and says what every value was made from.
    folder = tmp_path / "cut" / "rollouts"
    for run in (folder / "step-000001", folder / "branches" / "step-000001"):
        assert not audit.main([str(run)])
    rewards = {it["episode_id"]: it["reward"] for it in rows[1]}
    values = defaultdict(list)
    for branch in branches_of(tmp_path / "cut", 1):
        values[branch.parent.episode_id, branch.parent.turn].append(branch.score)
    for row in rows[1]:
        mine = {turn: ends for (name, turn), ends in values.items() if name == row["episode_id"]}
        last = max(mine)
        rise = rewards[row["episode_id"]] - sum(mine[last]) / 3
        assert np.sign(row["advantages"][last]) == np.sign(rise)


def test_a_branch_goes_on_from_the_very_tokens_that_its_parent_sampled(straight):
    with RunReader.open(straight / "rollouts" / "step-000000") as reader:
        parents = {it.episode_id: it for it in reader.episodes()}
    for branch in branches_of(straight, 0):
        parent = parents[branch.parent.episode_id]
        (ours,), (theirs,) = branch.token_segments, parent.token_segments
        calls = np.array(ours.generations)
        begin = int(np.flatnonzero(calls)[0])
        assert list(ours.ids[:begin]) == list(theirs.ids[:begin])
        assert theirs.generations[begin] == branch.parent.turn + 1
        assert branch.generations[0].turn == branch.parent.turn
        assert branch.steps[branch.parent.turn].state_hash == (
            parent.steps[branch.parent.turn].state_hash
        )
        assert branch.generations[0].sampling_seed not in {
            call.sampling_seed for call in parent.generations
        }


def branches_of(run: Path, step: int) -> list:
    with RunReader.open(run / "rollouts" / "branches" / f"step-{step:06}") as reader:
        return list(reader.episodes())


def said(branches) -> dict:
    return {(it.item_id, it.sample): [message.text for message in it.messages] for it in branches}


@pytest.mark.parametrize(
    "changes",
    [
        {"asynchronous": True},
        {"max_off_policy_steps": 1},
        {"replay": ["runs/other"]},
        {"advantages": {"turn_weight": 0.5}},
        {"advantages": {"baseline": "value"}},
        {"advantages": {"baseline": "batch"}},
        {"branches": {"states": 1, "per_state": 0}},
    ],
)
def test_branches_are_refused_where_their_values_would_be_of_something_else(
    base, tmp_path, changes
):
    with pytest.raises(RecipeError, match=r"branches\.states|per_state"):
        recipe_of(base, tmp_path, **{"branches": {"states": 1}, **changes})


def test_the_engine_leaves_what_the_learner_and_its_reference_need(base, tmp_path):
    quiet = Console(quiet=True)
    plain = whole(base, tmp_path / "plain")
    held = whole(base, tmp_path / "held", clip={"kl_coef": 0.1})
    memory, more = plan(plain, console=quiet), plan(held, console=quiet)
    assert memory.engine > 0 == memory.reference
    assert more.total > memory.total and more.reference > 0
    cpu, available = torch.device("cpu"), memory.total + 2**20
    engine = fit_engine(plain, memory, cpu, available)
    # Half of what is free would be the engine's alone.
    assert engine.cache_gib is not None
    assert engine.cache_gib * 2**30 + memory.total <= available + memory.engine
    assert engine.cache_gib * 2**30 < available / 2
    own = replace(plain, rollout=replace(plain.rollout, embedded=EmbeddedOptions(cache_gib=1)))
    assert fit_engine(own, memory, cpu, available) == own.rollout.embedded


def on_server(model: Path, out: Path, address: str, **changes) -> GRPORecipe:
    rollout = {"max_new_tokens": 16, "fleet": {"spawn": 1}, "engine": "sglang", "url": address}
    return whole(model, out, rollout=rollout, **changes)


def test_two_trainings_on_one_server_learn_from_what_their_own_weights_sampled(
    speaker, server, tmp_path
):
    for number, lr in enumerate((0.05, 0.002)):
        optimizer = {"lr": lr, "schedule": "constant", "warmup": 0.0}
        recipe = on_server(speaker, tmp_path / str(number), server, optimizer=optimizer, steps=3)
        train(recipe, console=Console(quiet=True))
        found = metrics(recipe.out)
        assert [it["episodes"] for it in found] == [8, 8, 8]
        gaps = [it["logprob_gap"] for it in found if "logprob_gap" in it]
        # Keys of the other training's weights in the server's cache would make it larger.
        assert gaps and max(gaps) < 1e-3


def test_a_training_goes_on_beside_a_server_that_was_not_restarted(speaker, server, tmp_path):
    recipe = on_server(speaker, tmp_path / "run", server)
    with stopped_in_step(2):
        train(recipe, console=Console(quiet=True))
    train(recipe, start=Start.RESUME, console=Console(quiet=True))
    found = metrics(recipe.out)
    assert [it["step"] for it in found] == [1, 2]
    assert all(it.get("logprob_gap", 0.0) < 1e-3 for it in found)


def test_a_server_with_another_tokenizer_is_refused_before_anything_is_played(
    base, server, tmp_path
):
    recipe = on_server(base, tmp_path / "run", server)
    with pytest.raises(TokenizerMismatch, match=r"rollout.url: .* makes \[.*serve") as refused:
        train(recipe, console=Console(quiet=True))
    assert refused.value.field == "rollout.url"
    assert not list((tmp_path / "run" / "rollouts").glob("step-*"))


class MuteSGLang(FakeSGLang):
    """A server of a release that cannot say how it tokenises."""

    async def _tokenize(self, request: web.Request) -> web.Response:
        raise web.HTTPNotFound


def test_prompts_of_another_tokenizer_are_refused_where_the_server_cannot_tell(
    base, speaker, tmp_path
):
    engine = MuteSGLang(FakeModel(model_path=str(speaker), reply_tokens=4))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_sglang.serving(engine)) as address,
    ):
        recipe = on_server(base, tmp_path / "run", address)
        with pytest.raises(TokenizerMismatch, match=r"prompts for .* would be \[") as refused:
            train(recipe, console=Console(quiet=True))
    assert refused.value.field == "rollout.sglang.tokenizer"
    assert not list((tmp_path / "run" / "rollouts").glob("step-*"))


def test_a_step_whose_logprobs_are_no_numbers_is_no_step(speaker, tmp_path):
    engine = FakeSGLang(FakeModel(model_path=str(speaker), reply_tokens=4))

    def spoil(reply: dict) -> dict:
        rows = reply["meta_info"]["output_token_logprobs"]
        rows[-1] = [None, *rows[-1][1:]]
        return reply

    engine.edit = spoil
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_sglang.serving(engine)) as address,
    ):
        recipe = on_server(speaker, tmp_path / "run", address)
        with pytest.raises(TrainingError, match=r"were lost .* has no logprob\), so there is"):
            train(recipe, console=Console(quiet=True))
    assert metrics(tmp_path / "run") == []


def test_tasks_that_begin_as_held_out_ones_are_not_explored(base, tmp_path):
    wordle = EnvironmentTasks(
        name="wordle", explore=5, evaluate=3, options={"instructions": "guess"}
    )
    recipe = replace(whole(base, tmp_path / "run"), environments=(wordle,))
    console = Console(quiet=True)
    chosen = run_loop(grpo._choose_tasks(recipe, console))["wordle"]["explore"]
    contents = run_loop(contents_of(recipe, chosen[:2]))
    held_out = tmp_path / "held-out-contents.json"
    HeldOutContents({"wordle": dict.fromkeys(contents.values(), "judged")}).write(held_out)
    clean = replace(recipe, held_out_contents=str(held_out))
    found = run_loop(grpo._choose_tasks(clean, console))["wordle"]
    assert found["left_out"] == dict.fromkeys(chosen[:2], "judged")
    assert list(found["explore"]) == list(chosen[2:])
    fewer = replace(wordle, explore=2)
    with pytest.raises(Contaminated, match="name another split") as refused:
        run_loop(grpo._choose_tasks(replace(clean, environments=(fewer,)), console))
    assert refused.value.field == "environments.wordle.explore"
    missing = replace(recipe, held_out_contents="none.json")
    with pytest.raises(DataError, match=r"held_out_contents: none\.json cannot be read"):
        run_loop(grpo._choose_tasks(missing, console))


async def contents_of(recipe: GRPORecipe, items: list[str]) -> dict[str, str]:
    rollout, tasks = recipe.rollout, recipe.environments[0]
    async with Fleet([tasks.name], rollout.fleet, connection_options(rollout.client)) as fleet:
        return await read_contents(fleet, tasks, items)


@pytest.mark.slow
def test_reward_rises(speaker, tmp_path):
    recipe = whole(
        speaker,
        tmp_path / "run",
        steps=30,
        tasks=4,
        group=8,
        save_every=0,
        evaluate=True,
        clip={"kl_coef": 0.001},
        optimizer={"lr": 3e-3, "schedule": "constant", "warmup": 0.0},
    )
    train(recipe, console=Console(quiet=True))
    rewards = [it["reward"] for it in metrics(tmp_path / "run")]
    first, last = sum(rewards[:3]) / 3, sum(rewards[-3:]) / 3
    assert first < 0.6
    assert last > first + 0.4, rewards


def test_the_next_step_may_be_played_while_this_one_is_learned_from(speaker, tmp_path):
    recipe = whole(speaker, tmp_path / "run", max_off_policy_steps=1, steps=3)
    train(recipe, console=Console(quiet=True))
    found = metrics(tmp_path / "run")
    assert [it["episodes"] for it in found] == [8, 8, 8]
    assert all(it["off_policy_tokens"] == 0 for it in found)
    assert all(it["entropy"] > 0 for it in found)
    library = Library([tmp_path / "run"])
    shown = Trainings(library).training({"training": "run"})
    library.close()
    assert (shown["state"], shown["progress"]) == ("finished", "step 3 of 3")
    assert shown["curves"]["entropy"]["values"] == [it["entropy"] for it in found]
    assert shown["curves"]["env/echo/turns"]["values"] == [2.0, 2.0, 2.0]
    parts = {"seconds/wait", "seconds/rollout", "seconds/push"}
    assert all(parts <= it.keys() and it["env/echo/reward"] == it["reward"] for it in found)
    assert [row["run"] for row in shown["rows"]] == [
        f"run/rollouts/step-{step:06d}" for step in (2, 1, 0)
    ]


def test_recorded_runs_without_logprobs_are_refused(base, tmp_path):
    from training.errors import LogprobsMissing

    wanted = EnvironmentTasks(name="echo", options={"length": 2})
    config = build(RolloutConfig, {"fleet": {"spawn": 1}})
    folder = tmp_path / "expert"
    job = RolloutJob(wanted, ["echo_1000000"], folder)
    play(config, RolloutPolicy(policy="expert"), [job], console=Console(quiet=True))
    recipe = whole(base, tmp_path / "run", replay=[str(folder)])
    with pytest.raises(LogprobsMissing, match="sample it with embedded, sglang"):
        train(recipe, console=Console(quiet=True))
    # Nor are they learned from where somebody is judged on their tasks.
    with RunReader.open(folder) as reader:
        judged = {record_content(it): "judged" for it in reader.episodes(lambda _: True)}
    held_out = tmp_path / "held-out-contents.json"
    HeldOutContents({"echo": judged}).write(held_out)
    with pytest.raises(Contaminated, match=r"replay: 1 tasks .* echo_1000000 \(as judged\)"):
        grpo._read_replay(replace(recipe, held_out_contents=str(held_out)))


def test_a_model_without_chat_template_is_refused_before_anything_is_started(base, tmp_path):
    folder = without_template(shutil.copytree(base, tmp_path / "model"))
    for act in (plan, train):
        with pytest.raises(ModelUnusable, match="put the model's own there") as refused:
            act(whole(folder, tmp_path / "run"), console=Console(quiet=True))
        assert refused.value.field == "model.path"
    assert not (tmp_path / "run").exists()
    own = tmp_path / "own.jinja"
    own.write_text("{% for message in messages %}{{ message.content }}\n{% endfor %}")
    embedded = {"chat_template": str(own), "context_length": 512}
    recipe = whole(folder, tmp_path / "run", rollout={"embedded": embedded})
    assert plan(recipe, console=Console(quiet=True)).total > 0


def test_too_little_memory_is_known_before_anything_is_loaded(base, tmp_path, monkeypatch):
    monkeypatch.setattr("training.trainer.memory.available_bytes", lambda _: 1 << 20)
    with pytest.raises(NotEnoughMemory, match=r"micro_tokens"):
        train(whole(base, tmp_path / "run"), console=Console(quiet=True))
    assert not (tmp_path / "run").exists()


def test_a_loss_of_ones_own_is_what_is_learned_by(speaker, tmp_path):
    recipe = whole(speaker, tmp_path / "run", objective=f"{__name__}:no_loss")
    final = load_file(train(recipe, console=Console(quiet=True)) / "model.safetensors")
    learned = [it for it in metrics(recipe.out) if "loss" in it]
    assert learned and all(it["clip_frac"] == 1.0 and it["grad_norm"] == 0.0 for it in learned)
    for name, weights in load_file(speaker / "model.safetensors").items():
        assert torch.equal(weights, final[name]), name


def no_loss(tokens: SampledTokens, _: ClipConfig) -> Loss:
    return Loss(0.0 * tokens.logprobs.sum(), clipped=float(len(tokens.logprobs)))


# Several processes -------------------------------------------------------------


def launch(recipe: GRPORecipe, file: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Two processes of torchrun."""
    file.write_text(dump_toml(recipe))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "training.grpo", str(file), *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_two_processes_play_once_and_learn_what_one_learns(speaker, tmp_path):
    changes = {
        # An odd number of small micro-batches: one process has less to do than the other.
        "micro_tokens": 160,
        "ppo_epochs": 2,
        "minibatches": 2,
        "clip": {"kl_coef": 0.01, "importance_cap": 2.0, "ratio": "sequence"},
        "advantages": {"turn_weight": 0.5, "baseline": "leave_one_out"},
        "dynamic_sampling": 2,
        "optimizer": {"lr": 1e-4, "schedule": "constant", "warmup": 0.0},
        "evaluate": True,
    }
    alone = whole(speaker, tmp_path / "alone", **changes)
    train(alone, console=Console(quiet=True))
    shared = whole(speaker, tmp_path / "shared", **changes)
    done = launch(shared, tmp_path / "recipe.toml")
    assert done.returncode == 0, done.stderr
    names = ("reward", "episodes", "informative_groups", "replacements", "tokens", "clip_frac")
    close = ("kl", "loss", "entropy", "ratio_dev", "logprob_gap", "cap_frac", "grad_norm", "lr")
    curves = [metrics(it.out) for it in (alone, shared)]
    assert len(curves[0]) == len(curves[1]) == 2
    assert any(it["informative_groups"] for it in curves[0])
    assert any(it["replacements"] for it in curves[0])
    assert all(it["groups"] == 2 + it["replacements"] for it in curves[0])
    for one, other in zip(*curves, strict=True):
        assert {name: one.get(name) for name in names} == {name: other.get(name) for name in names}
        for name in close:
            assert one.get(name) == pytest.approx(other.get(name), abs=1e-5)
    first, second = (load_file(it.out / "final/model.safetensors") for it in (alone, shared))
    for name, weights in first.items():
        torch.testing.assert_close(weights, second[name], atol=1e-5, rtol=0)
    stages = [json.loads((it.out / "state.json").read_text())["finished"] for it in (alone, shared)]
    assert list(stages[0]) == list(stages[1])
    assert stages[0]["judge-final"]["result"] == stages[1]["judge-final"]["result"]


@pytest.mark.slow
def test_two_processes_with_a_value_head_learn_what_one_learns_and_go_on(speaker, tmp_path):
    changes = {
        "micro_tokens": 160,
        "minibatches": 2,
        "group": 1,
        "tasks": 5,
        "steps": 3,
        "advantages": {"baseline": "value"},
        "optimizer": {"lr": 1e-4, "schedule": "constant", "warmup": 0.0},
    }
    alone, shared = (whole(speaker, tmp_path / it, **changes) for it in ("alone", "shared"))
    train(alone, console=Console(quiet=True))
    done = launch(shared, tmp_path / "recipe.toml")
    assert done.returncode == 0, done.stderr
    close = ("value", "value_loss", "explained_variance", "loss", "grad_norm")
    straight = metrics(alone.out)
    for one, other in zip(straight, metrics(shared.out), strict=True):
        for name in close:
            assert one[name] == pytest.approx(other[name], abs=1e-4)
    forget_step_three(alone)
    train(alone, start=Start.RESUME, console=Console(quiet=True))
    for one, other in zip(straight, metrics(alone.out), strict=True):
        assert {name: one[name] for name in close} == {name: other[name] for name in close}


@pytest.mark.slow
def test_two_processes_with_adapters_measure_the_divergence_from_what_is_below(speaker, tmp_path):
    changes = {
        "micro_tokens": 160,
        "minibatches": 2,
        "ppo_epochs": 2,
        "clip": {"kl_coef": 0.1},
        "optimizer": {"lr": 1e-2, "schedule": "constant", "warmup": 0.0},
        "model": {"path": str(speaker), "precision": "float32", "lora": {"rank": 4}},
    }
    alone, shared = (whole(speaker, tmp_path / it, **changes) for it in ("alone", "shared"))
    train(alone, console=Console(quiet=True))
    done = launch(shared, tmp_path / "recipe.toml")
    assert done.returncode == 0, done.stderr
    curves = [metrics(it.out) for it in (alone, shared)]
    assert any(it.get("kl", 0.0) > 0 for it in curves[0])
    for one, other in zip(*curves, strict=True):
        for name in ("reward", "kl", "loss", "grad_norm", "ratio_dev"):
            assert one.get(name) == pytest.approx(other.get(name), abs=1e-4), name


def forget_step_three(recipe: GRPORecipe) -> None:
    """Leave a run as if its processes had been killed in their third step."""
    state = json.loads((recipe.out / "state.json").read_text())
    del state["finished"]["learn"]
    (recipe.out / "state.json").write_text(json.dumps(state))
    shutil.rmtree(max((recipe.out / "states").iterdir()))
    shutil.rmtree(recipe.out / "final")


@pytest.mark.slow
def test_two_processes_go_on_where_they_were_cut_off(speaker, tmp_path):
    straight, cut = (whole(speaker, tmp_path / name, steps=3) for name in ("straight", "cut"))
    for recipe in (straight, cut):
        done = launch(recipe, tmp_path / "recipe.toml")
        assert done.returncode == 0, done.stderr
    forget_step_three(cut)
    done = launch(cut, tmp_path / "recipe.toml", "--resume")
    assert done.returncode == 0, done.stderr
    assert [it["step"] for it in metrics(cut.out)] == [1, 2, 3]
    first, second = (load_file(it.out / "final/model.safetensors") for it in (straight, cut))
    for name, weights in first.items():
        torch.testing.assert_close(weights, second[name], atol=1e-5, rtol=0)
