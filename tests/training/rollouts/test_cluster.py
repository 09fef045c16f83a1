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

from rich.console import Console

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


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rollout": {"cluster": CLUSTER}}, r'set rollout\.engine = "sglang" and rollout\.url'),
        ({"asynchronous": True, "max_off_policy_steps": 1}, "leave out asynchronous"),
        ({"max_off_policy_steps": 1}, "leave out asynchronous and max_off_policy_steps"),
    ],
)
def test_what_no_weights_could_be_pushed_to_is_refused(changes, told, tmp_path) -> None:
    values = on_cluster(tmp_path, tmp_path / "run", "http://127.0.0.1:1", **changes)
    with pytest.raises(RecipeError, match=told):
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
