"""Rollouts without a barrier on a cluster: by driver, workers and shards, and all but Ray."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_runtime.errors import PolicyUnavailable
from agentgym.episode.v1 import episode_pb2
from orchestrator.ray_cluster import workplace
from orchestrator.ray_cluster.worker import RolloutWorker
from orchestrator.run_folder import shard_names
from orchestrator.store import RunReader
from tests.agent_runtime.tiny_tokenizers import chatml
from tests.kit import servers
from tests.kit.fake_sglang import FakeModel, FakeSGLang, serving
from tests.kit.waiting import until
from tests.orchestrator.ray_cluster.local_host import LocalHost
from tests.orchestrator.ray_cluster.small_runs import records, shard_counts
from training.config.recipe import build
from training.data.trajectories import WeightVersions, newest_step
from training.rollouts import on_policy
from training.rollouts.groups import GroupOrder, TakenGroups
from training.rollouts.jobs import RolloutConfig
from training.rollouts.on_policy import Rollouts
from training.rollouts.stream import LEDGER_FILE, STREAM_FOLDER, RolloutStream, StreamSettings
from training.rollouts.tasks import EnvironmentTasks

BATCH, SAMPLES, STEPS = 2, 3, 5
NAMES = WeightVersions("ab", "00")


def bound_rounds(_step: int) -> int:
    """A function of a module, as plans have to have: workers are sent it."""
    return 2


class Training:
    """A learner of nothing: it takes steps, and gives the engine weights of another name."""

    def __init__(
        self, stream: RolloutStream, rollouts: Rollouts, names: WeightVersions, model: Path
    ) -> None:
        self.stream = stream
        self.rollouts = rollouts
        self._names = names
        self._model = model
        self.step = len(stream._ledger.steps)
        self.steps: dict[int, list[episode_pb2.Episode]] = {}

    async def learn(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.steps[self.step] = self.stream.read(await self.stream.take())
            self.step += 1
            await self.rollouts.update_weights(self._model, self._names.name(self.step))
            self.stream.advance()


class Setting:
    """Where trainings of one test play: an engine, environment servers, perhaps a cluster."""

    def __init__(self, folder: Path, engine: FakeSGLang, url: str, addresses: tuple) -> None:
        self.folder, self.engine = folder, engine
        self._url, self._addresses = url, addresses

    @property
    def run(self) -> Path:
        return self.folder / STREAM_FOLDER

    def ledger(self) -> TakenGroups:
        return TakenGroups(self.folder / LEDGER_FILE)

    @asynccontextmanager
    async def training(
        self, *, staleness: int = 1, cluster: bool = True, first: int = 0
    ) -> AsyncGenerator[Training]:
        values = {
            "engine": "sglang",
            "url": self._url,
            "max_new_tokens": 16,
            "concurrency": 6,
            "fleet": {"servers": self._addresses},
            "cluster": {"address": "local", "ray_workers": 1} if cluster else {},
        }
        options = {"observation_bytes": 90, "length": 2}
        echo = EnvironmentTasks(name="echo", conversation_start=("say", "yes"), options=options)
        settings = StreamSettings(
            batch=BATCH,
            staleness=staleness,
            steps=STEPS,
            versions=NAMES,
            max_rounds=bound_rounds,
        )
        order = GroupOrder(
            lambda step: [("echo", f"echo_{1000000 + BATCH * step + it}") for it in range(BATCH)],
            SAMPLES,
        )
        model, names = self.folder.parent / "model", replace(NAMES, session=f"{first:02x}")
        where = Rollouts(build(RolloutConfig, values), [echo], self.folder, temperature=1.0, seed=0)
        async with where as rollouts:
            await rollouts.start_policy(model, names.name(first))
            async with RolloutStream(rollouts, order, self.ledger(), settings) as stream:
                yield Training(stream, rollouts, names, model)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> LocalHost:
    host = LocalHost(2)
    monkeypatch.setattr(workplace, "open_cluster", host.open)
    monkeypatch.setattr(workplace, "_NODES_SECONDS", 0.05)
    monkeypatch.setattr(on_policy, "_LOOK_SECONDS", 0.05)
    return host


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting]:
    model = FakeModel(
        model_path=str(chatml(tmp_path / "model").resolve()), reply_tokens=12, step_seconds=0.002
    )
    engine = FakeSGLang(model)
    async with serving(engine) as url, servers.serving() as server:
        yield Setting(tmp_path / "rollouts", engine, url, tuple(server.addresses))


def versions_of(episode: episode_pb2.Episode) -> set[str]:
    return {name for segment in episode.token_segments for name in segment.policy_versions}


def check_each_group_was_learned_from_once(training: Training, setting: Setting) -> None:
    taken = [number for step in setting.ledger().steps for number in step]
    assert len(taken) == len(set(taken)) == STEPS * BATCH
    for step, episodes in training.steps.items():
        assert len(episodes) == BATCH * SAMPLES
        # By the rule a group is as old as its newest token: others may have overtaken the rest.
        newest: dict[str, int] = {}
        for it in episodes:
            newest[it.item_id] = max(newest_step(it, NAMES) or 0, newest.get(it.item_id, 0))
        assert len(newest) == BATCH and all(step - it <= 1 for it in newest.values())
    played = records(setting.run)
    learned = [(it.item_id, it.sample) for those in training.steps.values() for it in those]
    assert len(learned) == len(set(learned))
    assert set(learned) <= {(key.item_id, key.sample) for key in played}
    # A key is on record once, whoever held it in between.
    assert sum(shard_counts(setting.run)) == len(played)


async def test_a_step_learns_from_workers_whose_episodes_live_through_pushes(
    cluster: LocalHost, setting: Setting
) -> None:
    setting.engine.model = replace(setting.engine.model, step_seconds=0.005)
    async with setting.training() as training:
        await training.learn(STEPS)
    check_each_group_was_learned_from_once(training, setting)
    learned = [it for those in training.steps.values() for it in those]
    assert any(len(versions_of(it)) > 1 for it in learned), "no episode lived through a push"
    # The same processes from the first step to the last, and nothing that they record is doubled.
    assert len(cluster.workers()) == 2 and all(shard_counts(setting.run))
    with RunReader.open(setting.run) as reader:
        assert reader.stores()[""].count() == 0


@pytest.mark.parametrize("on_cluster", [True, False])
async def test_what_is_told_is_what_is_on_record(
    on_cluster: bool, cluster: LocalHost, setting: Setting
) -> None:
    async with setting.training(cluster=on_cluster) as training:
        await training.learn(STEPS)
    with RunReader.open(setting.run) as reader:
        recorded = {(it.item_id, it.sample): it for it in reader.episodes()}
    for episodes in training.steps.values():
        assert episodes == [recorded[it.item_id, it.sample] for it in episodes]


async def test_without_staleness_the_ledger_and_the_records_are_those_of_one_process(
    cluster: LocalHost, setting: Setting
) -> None:
    def texts(training: Training) -> dict[int, list[list[str]]]:
        return {
            step: [[message.text for message in it.messages] for it in episodes]
            for step, episodes in training.steps.items()
        }

    async with setting.training(staleness=0) as shared:
        await shared.learn(STEPS)
    steps = setting.ledger().steps
    assert steps == [(2 * step, 2 * step + 1) for step in range(STEPS)]
    setting.folder = setting.folder.with_name("alone")
    setting.engine.version = "default"
    async with setting.training(staleness=0, cluster=False) as alone:
        await alone.learn(STEPS)
    assert setting.ledger().steps == steps
    assert not shard_names(setting.run)
    assert texts(shared) == texts(alone)
    # All by the weights of their own step, as with a barrier.
    for step, episodes in shared.steps.items():
        assert {name for it in episodes for name in versions_of(it)} == {NAMES.name(step)}


async def until_holding(worker, least: int = 2) -> None:
    """Wait until a worker has something on record and holds some more."""
    made = worker.made
    await until(lambda: made._scheduler.finished and made._held >= least, pause=0)


async def test_what_a_killed_worker_held_is_played_by_others_and_learned_from_once(
    cluster: LocalHost, setting: Setting
) -> None:
    async with setting.training() as training:
        await training.learn()
        victim = cluster.workers()[0]
        await until_holding(victim)
        victim.kill()
        await training.learn(STEPS - 1)
    check_each_group_was_learned_from_once(training, setting)
    assert len(cluster.workers()) == 3


async def test_a_worker_that_finds_no_model_server_is_started_again(
    cluster: LocalHost, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be restarting: the training lasts longer than that."""
    original = RolloutWorker._start_policies

    async def start(self: RolloutWorker, *rest) -> None:
        if self._welcome.name == "s1-w3":
            raise PolicyUnavailable("nobody answers")
        await original(self, *rest)

    monkeypatch.setattr(RolloutWorker, "_start_policies", start)
    async with setting.training() as training:
        await training.learn()
        cluster.workers()[0].kill()
        await until(lambda: "s1-w4" in shard_names(setting.run))
        await training.learn(STEPS - 1)
    check_each_group_was_learned_from_once(training, setting)


async def test_nodes_leave_and_join_between_steps_and_in_the_middle_of_them(
    cluster: LocalHost, setting: Setting
) -> None:
    async with setting.training() as training:
        await training.learn()
        leaving = cluster.workers()[0]
        await until_holding(leaving)
        cluster.alive[0] = replace(cluster.alive[0], draining=True)
        await training.learn(2)
        await until(lambda: leaving.dead)
        assert leaving.made._problem is None
        cluster.alive.append(cluster.node(2))
        await until(lambda: len(shard_names(setting.run)) >= 3)
        await training.learn(STEPS - 3)
    check_each_group_was_learned_from_once(training, setting)
    with RunReader.open(setting.run) as reader:
        assert {it.attempt for it in reader.summaries()} == {1}


async def test_a_learner_that_was_cut_off_finds_what_its_workers_recorded(
    cluster: LocalHost, setting: Setting
) -> None:
    async with setting.training() as training:
        await training.learn(2)
        await training.stream.take()  # in the ledger, and then never learned from
        for worker in cluster.workers():
            worker.kill()
    before = records(setting.run)
    steps = setting.ledger().steps
    assert len(steps) == 3
    # Its first weights are those after the ledger's steps, which it has learned from again.
    async with setting.training(first=3) as resumed:
        await resumed.learn(STEPS - 3)
    assert setting.ledger().steps[:3] == steps
    resumed.steps |= {step: training.steps[step] for step in range(2)}
    check_each_group_was_learned_from_once(resumed, setting)
    assert before.items() <= records(setting.run).items()


@pytest.mark.parametrize("on_cluster", [True, False])
async def test_a_run_goes_on_where_a_resume_has_it_played(
    on_cluster: bool, cluster: LocalHost, setting: Setting
) -> None:
    async with setting.training(cluster=on_cluster) as training:
        await training.learn(2)
    before = records(setting.run)
    async with setting.training(cluster=not on_cluster, first=2) as resumed:
        await resumed.learn(STEPS - 2)
    taken = [number for step in setting.ledger().steps for number in step]
    assert len(taken) == len(set(taken)) == STEPS * BATCH
    assert all(len(it) == BATCH * SAMPLES for it in resumed.steps.values())
    assert before.items() <= records(setting.run).items()


async def test_an_engine_that_restarted_is_given_its_weights_though_only_workers_ask_it(
    cluster: LocalHost, setting: Setting
) -> None:
    async with setting.training() as training:
        await training.learn()
        await until_holding(cluster.workers()[0])
        setting.engine._startup += 1.0
        setting.engine.version = "default"
        await training.learn(STEPS - 1)
    check_each_group_was_learned_from_once(training, setting)
    assert setting.engine.version == NAMES.name(STEPS)


async def test_an_evaluation_beside_the_stream_is_played_here(
    cluster: LocalHost, setting: Setting
) -> None:
    async with setting.training() as training:
        await training.learn()
        folder = setting.folder.with_name("validate-000001")
        metrics = await training.rollouts.evaluate(folder, 1, {"echo": ["echo_1000077"]})
        assert [item for item, _ in metrics["echo"].values] == ["echo_1000077"]
        await training.learn(STEPS - 1)
    assert not shard_names(folder / "echo")
    check_each_group_was_learned_from_once(training, setting)
