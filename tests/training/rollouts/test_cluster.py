"""Rollouts on a cluster: by driver, workers and shards as on Ray, and by everything but Ray."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

import torch
from rich.console import Console
from safetensors.torch import load_file

from orchestrator.configuration import dump_toml
from orchestrator.ray_cluster import workplace
from orchestrator.run_folder import shard_names
from orchestrator.store import RunReader
from tests.orchestrator.ray_cluster.local_host import LocalHost
from tests.training.makers import stopped_in_step, train_speaker, write_echo_recipe
from training.config.recipe import build, load_recipe, recipe_differences, to_plain
from training.config.start import Start
from training.errors import RecipeError
from training.grpo import GRPORecipe, train
from training.rollouts.groups import TakenGroups
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.on_policy import Rollouts
from training.rollouts.tasks import EnvironmentTasks
from training.runs.tracking import read_log

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]
QUIET = Console(quiet=True)
CLUSTER = {"address": "local", "ray_workers": 1}


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_speaker(tmp_path_factory.mktemp("speaker"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> LocalHost:
    """Two nodes; the servers' token is in the environment, as they would put it there."""
    monkeypatch.setenv("AGENTGYM_TOKEN", "of-a-test")
    host = LocalHost(2)
    monkeypatch.setattr(workplace, "open_cluster", host.open)
    return host


def on_cluster(speaker: Path, out: Path, url: str, **changes: Any) -> dict[str, Any]:
    rollout = {"max_new_tokens": 16, "engine": "sglang", "url": url, "cluster": CLUSTER}
    return write_echo_recipe(out, speaker, **{"rollout": rollout, "save_every": 1, **changes})


def records(folder: Path) -> dict[tuple[str, int], list[str]]:
    with RunReader.open(folder) as reader:
        assert reader.verify() == []
        return {
            (it.item_id, it.sample): [message.text for message in it.messages]
            for it in reader.episodes()
        }


def test_exploration_by_workers_is_what_it_is_in_one_process(
    cluster: LocalHost, speaker: Path, tmp_path: Path
) -> None:
    echo = EnvironmentTasks(
        name="echo", conversation_start=("say", "yes"), options={"observation_bytes": 90}
    )
    items = [f"echo_{1000000 + number}" for number in range(4)]
    embedded = {"context_length": 512, "max_slots": 4, "threads": 1}
    values = {"max_new_tokens": 4, "fleet": {"spawn": 1}, "embedded": embedded}
    for policy in ("expert", str(speaker)):
        name = Path(policy).name
        for folder, more in (("alone", {}), ("shared", {"cluster": CLUSTER})):
            job = RolloutJob(echo, items, tmp_path / folder / name)
            rollout = build(RolloutConfig, {**values, **more})
            play(rollout, RolloutPolicy(policy=policy, samples=2), [job], console=QUIET)
        shared = tmp_path / "shared" / name
        assert records(shared) == records(tmp_path / "alone" / name)
        assert shard_names(shared) and not shard_names(tmp_path / "alone" / name)


def test_grpo_learns_from_workers_that_play_the_pushed_weights(
    cluster: LocalHost, speaker: Path, server: str, tmp_path: Path
) -> None:
    optimizer = {"lr": 0.05, "schedule": "constant", "warmup": 0.0}
    values = on_cluster(speaker, tmp_path / "run", server, steps=3, optimizer=optimizer)
    recipe = build(GRPORecipe, values)
    with stopped_in_step(2):
        train(recipe, console=QUIET)
    train(recipe, start=Start.RESUME, console=QUIET)
    found = read_log(recipe.out / "log.jsonl")
    assert [it["episodes"] for it in found] == [8, 8, 8]
    # By weights of another step the tokens would have other probabilities.
    gaps = [it["logprob_gap"] for it in found if "logprob_gap" in it]
    assert gaps and max(gaps) < 1e-3
    steps = sorted((recipe.out / "rollouts").glob("step-*"))
    assert [len(records(step)) for step in steps] == [8, 8, 8]
    assert all(shard_names(step) for step in steps)
    # One on each node, before and after the interruption: they stay from step to step.
    assert len(cluster.workers()) == 4


async def test_a_worker_that_is_lost_between_steps_is_replaced_and_one_that_drains_is_not(
    cluster: LocalHost, speaker: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workplace, "_NODES_SECONDS", 0.05)
    values = {"max_new_tokens": 4, "engine": "sglang", "url": server, "cluster": CLUSTER}
    tasks = [("echo", f"echo_{1000000 + number}") for number in range(4)]
    rollout = build(RolloutConfig, {**values, "fleet": {"spawn": 1}})
    options = {"observation_bytes": 90, "length": 2}
    echo = EnvironmentTasks(name="echo", conversation_start=("say", "yes"), options=options)
    where = Rollouts(rollout, [echo], tmp_path / "run", temperature=1.0, seed=0)
    async with where as rollouts:
        await rollouts.start_policy(speaker, "first")
        assert len(await rollouts.play(0, tasks, samples=2)) == 8
        first, second = cluster.workers()
        first.kill()
        assert len(await rollouts.play(1, tasks, samples=2)) == 8
        assert cluster.workers()[:2] == [first, second] and len(cluster.workers()) == 3
        cluster.alive[1] = replace(cluster.alive[1], draining=True)
        while not second.dead:
            await asyncio.sleep(0.05)
        assert len(await rollouts.play(2, tasks, samples=2)) == 8
        third = cluster.workers()[2]
        assert len(cluster.workers()) == 3 and not third.dead
    assert third.dead


def without_barrier(speaker: Path, out: Path, url: str, **changes: Any) -> GRPORecipe:
    values = {"asynchronous": True, "max_off_policy_steps": 2, "steps": 4, **changes}
    values = {"clip": {"importance_cap": 2.0}, "save_every": 2, **values}
    return build(GRPORecipe, on_cluster(speaker, out, url, **values))


def taken_by(recipe: GRPORecipe) -> list[tuple[int, ...]]:
    return TakenGroups(recipe.out / "rollouts/taken.jsonl").steps


def test_grpo_without_a_barrier_learns_from_workers_and_a_resume_learns_again_what_it_took(
    cluster: LocalHost, speaker: Path, server: str, tmp_path: Path
) -> None:
    optimizer = {"lr": 0.05, "schedule": "constant", "warmup": 0.0}
    recipe = without_barrier(speaker, tmp_path / "run", server, optimizer=optimizer)
    with stopped_in_step(3):
        train(recipe, console=QUIET)
    # The state is that after two steps; the third is learned again from what workers recorded.
    before = taken_by(recipe)
    assert len(before) == 3
    train(recipe, start=Start.RESUME, console=QUIET)
    assert taken_by(recipe)[:3] == before
    assert len({number for step in taken_by(recipe) for number in step}) == 4 * recipe.tasks
    found = read_log(recipe.out / "log.jsonl")
    assert [it["step"] for it in found] == [1, 2, 3, 4]
    assert [it["episodes"] for it in found] == [8, 8, 8, 8]
    assert all(it["token_age_max"] <= 2 for it in found)
    assert any(it.get("live_episodes") for it in found)
    # By weights of another name the tokens would have other probabilities.
    fresh = [it["logprob_gap"] for it in found if it["token_age_max"] == 0 and "logprob_gap" in it]
    assert max(fresh, default=0.0) < 1e-3
    stream = recipe.out / "rollouts/stream"
    assert shard_names(stream) and len(records(stream)) == 4 * recipe.tasks * recipe.group
    assert len(cluster.workers()) == 4


def test_without_staleness_a_step_on_the_cluster_is_that_of_a_run_with_a_barrier(
    cluster: LocalHost, speaker: Path, server: str, tmp_path: Path
) -> None:
    changes = {"max_off_policy_steps": 0, "steps": 3}
    stream = without_barrier(speaker, tmp_path / "stream", server, **changes)
    barrier = without_barrier(speaker, tmp_path / "barrier", server, asynchronous=False, **changes)
    finals = [train(recipe, console=QUIET) for recipe in (barrier, stream)]
    curves = [read_log(recipe.out / "log.jsonl") for recipe in (barrier, stream)]
    assert any(row["informative_groups"] for row in curves[0])
    names = ("reward", "episodes", "groups", "informative_groups", "tokens", "token_age_max")
    for one, other in zip(*curves, strict=True):
        assert {name: one.get(name) for name in names} == {name: other.get(name) for name in names}
    assert taken_by(stream) == [(0, 1), (2, 3), (4, 5)]
    weights = [load_file(final / "model.safetensors") for final in finals]
    for name, tensor in weights[0].items():
        # Who shares a batch of the engine decides the last bits of recorded logprobs.
        torch.testing.assert_close(tensor, weights[1][name], atol=1e-4, rtol=0)


def test_the_next_step_is_played_on_the_cluster_while_this_one_is_learned_and_validated(
    cluster: LocalHost, speaker: Path, server: str, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"max_off_policy_steps": 1, "steps": 3}
    changes |= {"progress": {"validate_every": 1}}
    (echo,) = write_echo_recipe(tmp_path, speaker)["environments"]
    changes |= {"environments": [{**echo, "validate": 3}]}
    changes["clip"] = {"importance_cap": 2.0}
    recipe = build(GRPORecipe, on_cluster(speaker, tmp_path / "run", server, **changes))
    train(recipe, console=QUIET)
    found = read_log(recipe.out / "log.jsonl")
    assert [it["episodes"] for it in found] == [8, 8, 8]
    assert all(it["token_age_max"] <= 1 for it in found)
    steps = sorted((recipe.out / "rollouts").glob("step-*"))
    assert [len(records(step)) for step in steps] == [8, 8, 8]
    assert all(shard_names(step) for step in steps)
    assert len([it for it in found if "validate/echo" in it]) == 3


def test_what_no_weights_could_be_pushed_to_is_refused(tmp_path: Path) -> None:
    values = on_cluster(tmp_path, tmp_path / "run", "", rollout={"cluster": CLUSTER})
    with pytest.raises(RecipeError, match=r'set rollout\.engine = "sglang" and rollout\.url'):
        build(GRPORecipe, values)
    values = on_cluster(tmp_path, tmp_path / "run", "http://127.0.0.1:1", asynchronous=True)
    values["rollout"] |= {"push_adapter": True}
    values["model"] |= {"lora": {}}
    with pytest.raises(RecipeError, match=r"rollout\.push_adapter names the adapter"):
        build(GRPORecipe, values)


def test_the_flags_are_those_of_sample_and_an_older_run_goes_on(tmp_path: Path) -> None:
    plain = write_echo_recipe(tmp_path / "run", tmp_path)
    recipe = build(GRPORecipe, plain)
    recorded: dict[str, Any] = to_plain(recipe)
    del recorded["rollout"]["cluster"]
    assert recipe_differences(recorded, to_plain(recipe)) == []
    (tmp_path / "recipe.toml").write_text(dump_toml(plain))
    overrides = {"ray": "HOST:6379", "ray_workers": "2"}
    overrides |= {"rollout.engine": "sglang", "rollout.url": "http://h:1"}
    recipe = load_recipe(GRPORecipe, tmp_path / "recipe.toml", overrides)
    assert (recipe.rollout.cluster.address, recipe.rollout.cluster.ray_workers) == ("HOST:6379", 2)
