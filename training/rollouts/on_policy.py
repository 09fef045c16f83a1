"""Episodes by the weights of the moment: servers and a policy that stay open from step to step.

There is one run folder per training step; `training.rollouts.stream` has one for all of them. An
episode is played by the policy's current weights, whose version every sampled token carries; a step
whose run was cut off is completed, never played twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, Self

from agent_runtime.agent import EpisodePlan
from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.errors import PolicyUnavailable
from agent_runtime.logs import bind_context, get_logger
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling, make_policy
from agent_runtime.policies.base import Policy, TrainablePolicy
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.spawned_server import LogFolder
from agent_runtime.supervision import cancel_tasks, supervise
from agent_runtime.weights import AdapterWeights, Weights
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.broadcast import Broadcast
from orchestrator.client import connection_options
from orchestrator.config import RunConfig
from orchestrator.dispatcher import Dispatcher
from orchestrator.episode_plans import EnvironmentPlay
from orchestrator.fleet import Fleet
from orchestrator.manifest import (
    MANIFEST_FILE,
    EnvironmentIdentity,
    Manifest,
    begin_session,
    read_manifest,
    utc_now,
)
from orchestrator.ray_cluster.driver import RolloutDriver
from orchestrator.ray_cluster.messages import Outcome, RunPart
from orchestrator.ray_cluster.workplace import Workplace, open_workplace, wait_for_workers
from orchestrator.records import EpisodeKey, decode
from orchestrator.retry import RetryBudget, RetryPolicy
from orchestrator.run_limits import RunAccount, RunLimits
from orchestrator.scheduler import Assignment, Limits, Scheduler
from orchestrator.store import RunReader, RunStore
from orchestrator.training_folder import Metric
from training.errors import RecipeError, TrainingError
from training.rollouts.engine_checks import require_same_tokenizer
from training.rollouts.jobs import EvalRun, RolloutConfig, checkpoint_weights
from training.rollouts.results import read_metric
from training.rollouts.step_plans import Branch, StepPlans, StreamPlans, limit_rounds
from training.rollouts.tasks import EnvironmentTasks

__all__ = [
    "POLICY_NAME",
    "Branch",
    "Player",
    "Rollouts",
    "Task",
    "finished_episodes",
    "read_branches",
    "read_rollouts",
]

log = get_logger(__name__)

POLICY_NAME = "agent"
"""Name of the learning policy in records: it stays while its weights change."""

Task = tuple[str, str]
"""Environment and item id."""

RecordListener = Callable[[episode_pb2.Episode, bytes], None]
"""Sees a stored record, and as stores keep it where it was told: it cannot be read then."""

_LOOK_SECONDS: Final = 2.0
"""Between two looks at engines that only workers ask."""


class Player(Protocol):
    """Has episodes played that come by and by: `Dispatcher` here, `RolloutDriver` elsewhere."""

    async def run(self) -> None:
        """Play until it is stopped; raises what nothing can be played after."""
        ...

    def wake(self) -> None:
        """Look at the scheduler now: keys were added."""
        ...

    def stop(self) -> None:
        """Start nothing more and give up what is live."""
        ...


class Rollouts:
    """Where a learning policy plays."""

    def __init__(
        self,
        rollout: RolloutConfig,
        environments: Sequence[EnvironmentTasks],
        folder: Path,
        *,
        temperature: float,
        seed: int,
    ) -> None:
        """Name the servers and the policy; entering the context starts the servers.

        Args:
            rollout: How episodes are played.
            environments: What is played.
            folder: Gets one run folder per step.
            temperature: Of sampling.
            seed: Of everything that is drawn.
        """
        self.fleet: Fleet
        """The environment servers; there is none before the context is entered."""
        self._workplace: Workplace | None = None
        """The cluster that plays; None = this process does."""
        self._rollout = rollout
        self._environments = {tasks.name: tasks for tasks in environments}
        self._folder = folder
        self._seed = seed
        self._config = PolicyConfig(
            sampling=Sampling(temperature=temperature, max_new_tokens=rollout.max_new_tokens),
            embedded=rollout.embedded,
            sglang=rollout.sglang,
        )
        self._policy: TrainablePolicy | None = None
        self._version = ""
        """Of the weights that the policy was given."""
        self._driving = asyncio.Lock()
        """Held while the cluster plays: it plays one run at a time."""
        self._driver: RolloutDriver | None = None
        """What has a run played there now."""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        (self._folder / "logs").mkdir(parents=True, exist_ok=True)  # of spawned servers
        rollout, names = self._rollout, list(self._environments)
        options = connection_options(rollout.client)
        async with AsyncExitStack() as stack:
            if rollout.cluster.address:
                self._workplace = await stack.enter_async_context(
                    open_workplace(self._run_config(), names, skip_unavailable=False)
                )
                options = self._workplace.options(options)
            fleet = Fleet(
                names,
                rollout.fleet,
                options,
                logs=LogFolder(self._folder / "logs"),
                source=self._workplace.source if self._workplace else None,
            )
            self.fleet = await stack.enter_async_context(fleet)
            self._stack = stack.pop_all()
        return self

    def _run_config(self, sampling: Sampling | None = None) -> RunConfig:
        """Return what workers of a cluster have to know of how episodes are played."""
        rollout = self._rollout
        return RunConfig(
            environments=tuple(self._environments),
            agent=replace(self._config, sampling=sampling or self._config.sampling),
            concurrency=rollout.concurrency,
            fleet=rollout.fleet,
            client=rollout.client,
            cluster=rollout.cluster,
        )

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start_policy(self, checkpoint: Path, version: str) -> None:
        """Start the policy with a checkpoint's weights, under a version that the caller names.

        Without a version it keeps the weights that it has until they are replaced.

        Raises:
            RecipeError: SGLang is asked for without the address of a running server.
            TokenizerMismatch: The server's tokenizer is not the checkpoint's.
            PolicyError: The weights cannot be loaded.
        """
        rollout = self._rollout
        if rollout.engine == "sglang" and not rollout.url:
            raise RecipeError("is needed: the server must outlast the steps", field="rollout.url")
        spec = f"sglang:{rollout.url}" if rollout.url else f"embedded:{checkpoint}"
        policy = make_policy(spec, self._config)
        if not isinstance(policy, TrainablePolicy):
            raise RuntimeError(f"the weights of {spec} cannot be replaced")
        await policy.start()
        self._stack.push_async_callback(policy.close)
        if isinstance(policy, SGLangPolicy):
            await require_same_tokenizer(policy, checkpoint, rollout.url)
        self._policy = policy
        if version:
            weights = await asyncio.to_thread(checkpoint_weights, rollout, checkpoint)
            await policy.update_weights(weights, version=version)
            self._version = version
        elif rollout.push_adapter and isinstance(policy, SGLangPolicy):
            await self._require_base(policy, checkpoint)

    async def _require_base(self, policy: SGLangPolicy, checkpoint: Path) -> None:
        """Give a server the weights below adapters, unless it serves those of their digest."""
        digest = await asyncio.to_thread(weights_digest, checkpoint)
        if policy.engines.health.versions != frozenset({digest}):
            await policy.update_weights(checkpoint, version=digest)

    @property
    def folder(self) -> Path:
        """Holds the run folders."""
        return self._folder

    @property
    def concurrency(self) -> int:
        """Episodes that are live at once, at most."""
        return self._rollout.concurrency

    @property
    def seed(self) -> int:
        """Of everything that is drawn."""
        return self._seed

    async def update_weights(self, weights: Weights, version: str) -> None:
        """Replace the weights, as `TrainablePolicy.update_weights` does.

        An engine that is down gets them from their folder when it is back: until then episodes
        wait, for as long as requests do, and then they fail. Raises PolicyError.
        """
        assert self._policy is not None, "start_policy comes first"
        self._version = version
        try:
            await self._policy.update_weights(weights, version=version)
        except PolicyUnavailable as error:
            on_disk = weights.adapter if isinstance(weights, AdapterWeights) else weights
            if not isinstance(on_disk, Path):
                raise
            log.warning("weights wait for the engine", version=version, error=str(error))
        else:
            log.info("weights updated", version=version)
        if self._driver is not None:
            self._driver.tell_weights(version)

    async def play(
        self, step: int, tasks: Sequence[Task], *, samples: int, max_rounds: int = 0
    ) -> list[episode_pb2.Episode]:
        """Play the episodes of a step, or complete them where an earlier process was cut off.

        Args:
            step: The training step, from 0.
            tasks: What is played.
            samples: Episodes per task.
            max_rounds: Bounds the replies below each environment's own number; 0 = not further.

        Returns:
            The episodes in the order of tasks, then samples; failed ones are left out.
        """
        assert self._policy is not None, "start_policy comes first"
        manifest = self._manifest(step, samples, max_rounds)
        keys = _episode_keys(tasks, samples)
        plans = self._plans(manifest.run_id, step, max_rounds)
        return await self._record(_step_folder(self._folder, step), manifest, keys, plans)

    async def play_branches(
        self, step: int, branches: Mapping[EpisodeKey, Branch], *, max_rounds: int = 0
    ) -> list[episode_pb2.Episode]:
        """Play on from turns of a step's episodes, or complete what was begun.

        Args:
            step: The training step, from 0.
            branches: Of each key the parent, and the turn after which the branch goes off.
            max_rounds: As it was for the parents, whose turns count.

        Returns:
            The branches in the order of their keys; failed ones are left out.
        """
        assert self._policy is not None, "start_policy comes first"
        manifest = replace(
            self._manifest(step, 1, max_rounds),
            run_id=f"branches-{step:06}-{seeds.derive('branches', self._seed, step):016x}",
            config={"step": step, "branches": True, "max_rounds": max_rounds},
        )
        plans = replace(self._plans(manifest.run_id, step, max_rounds), branches=branches)
        folder = _branches_folder(self._folder, step)
        folder.parent.mkdir(exist_ok=True)
        return await self._record(folder, manifest, list(branches), plans)

    def explain_loss(self, step: int, *, of_branches: bool = False) -> TrainingError:
        """Return the error of a step of which no episode is left, with the most frequent reason."""
        folder = (_branches_folder if of_branches else _step_folder)(self._folder, step)
        with RunReader.open(folder) as reader:
            errors = [it.error for it in reader.episodes(lambda summary: summary.failed)]
        reasons = Counter(f"{error.reason}: {error.message}" for error in errors)
        why = reasons.most_common(1)[0][0] if reasons else "none was recorded"
        return TrainingError(
            f"all episodes of {folder} were lost ({why}), so there is nothing to learn from; "
            f"`python -m orchestrator.show {folder}` tells more. Mend it and --resume",
            field="rollout",
        )

    async def evaluate(
        self, folder: Path, step: int, tasks: Mapping[str, Sequence[str]]
    ) -> dict[str, Metric]:
        """Play tasks once each, greedily, by the weights of the moment.

        Args:
            folder: Gets a run folder per environment; what is finished there is not played again.
            step: How many steps the weights have made.
            tasks: Item ids by environment.
        """
        assert self._policy is not None, "start_policy comes first"
        greedy = replace(self._config.sampling, temperature=0.0)
        metrics: dict[str, Metric] = {}
        for name, items in tasks.items():
            manifest = self._manifest(step, 1, 0)
            manifest = replace(
                manifest,
                run_id=f"{folder.name}-{name}-{seeds.derive('evaluation', self._seed, step):016x}",
                sampling={"temperature": 0.0},
            )
            keys = _episode_keys([(name, item) for item in items], 1)
            plans = self._plans(manifest.run_id, step, 0)
            await self._record(folder / name, manifest, keys, plans, greedy)
            metrics[name] = read_metric(EvalRun.of(folder / name, self.fleet.described[name]))
        return metrics

    async def _record(
        self,
        folder: Path,
        manifest: Manifest,
        keys: Sequence[EpisodeKey],
        plans: StepPlans,
        sampling: Sampling | None = None,
    ) -> list[episode_pb2.Episode]:
        """Play into a run folder what it does not have yet; returns what of the keys it has."""
        resume = _is_begun(folder)
        with _open_store(folder, manifest) as store, bind_context(step=plans.step):
            log.info("rollouts begin", episodes=len(keys), resume=resume)
            await self._dispatch(keys, store, plans, sampling)
            episodes = finished_episodes(store, keys)
            if len(episodes) < len(keys):
                log.warning("episodes lost", lost=len(keys) - len(episodes), planned=len(keys))
            log.info("rollouts end", episodes=len(episodes))
            return episodes

    def _plans(self, run_id: str, step: int, max_rounds: int) -> StepPlans:
        """Return how the episodes of a run are planned that begin with their reset."""
        plays = {name: limit_rounds(it, max_rounds) for name, it in self._plays().items()}
        return StepPlans(plays=plays, run_id=run_id, seed=self._seed, step=step)

    def stream_plans(
        self, run_id: str, samples: int, max_rounds: Callable[[int], int]
    ) -> StreamPlans:
        """Return how the episodes of all steps are planned, in one run."""
        return StreamPlans(
            plays=self._plays(),
            run_id=run_id,
            seed=self._seed,
            samples=samples,
            max_rounds=max_rounds,
        )

    async def _dispatch(
        self,
        keys: Sequence[EpisodeKey],
        store: RunStore,
        plans: StepPlans,
        sampling: Sampling | None,
    ) -> None:
        """Play what the store does not have yet, here or on the cluster.

        With settings of its own for sampling it is an evaluation. Where the cluster plays the next
        steps meanwhile, which may take until the training ends, it is played here.
        """
        await self.wait_for_workers(store)
        scheduler = Scheduler(
            keys,
            limits=Limits(total=self._rollout.concurrency),
            retries=RetryBudget(RetryPolicy(), seed=plans.step),
            finished=store.finished_keys(),
            failed=store.failed_keys(),
        )
        beside = sampling is not None and self._driving.locked()
        if self._workplace is not None and not beside:
            async with self._drive(self._workplace, scheduler, store, plans, sampling) as driver:
                await driver.run()
            return
        assert self._policy is not None, "start_policy comes first"
        policy = self._policy if sampling is None else self._policy.with_sampling(sampling)
        broadcast = Broadcast(store.folder)
        dispatcher = self.dispatcher(scheduler, store, plans, broadcast, policy=policy)
        async with broadcast.open():
            await dispatcher.run()

    async def wait_for_workers(self, store: RunReader) -> None:
        """Wait until a former session's workers have ended, which still may record.

        Raises RunLocked where one goes on.
        """
        await wait_for_workers(store, self._rollout.cluster.ray_lease)

    @property
    def on_cluster(self) -> bool:
        """Whether others play, who tell this process of their records."""
        return self._workplace is not None

    @asynccontextmanager
    async def play_on(
        self,
        scheduler: Scheduler,
        store: RunStore,
        plans: StreamPlans,
        *,
        on_record: RecordListener,
        on_live: Callable[[int], None],
    ) -> AsyncGenerator[Player]:
        """Give what plays a scheduler's episodes that come by and by, here or on the cluster.

        Args:
            scheduler: An endless one.
            store: Of the run; on the cluster workers record in shards of it.
            plans: Say what is played.
            on_record: Sees every stored record.
            on_live: Is told how many episodes are live.
        """
        if self._workplace is not None:

            def tell(outcome: Outcome) -> None:
                on_record(decode(outcome.record), outcome.record)

            async with self._drive(self._workplace, scheduler, store, plans, None, tell) as driver:
                driver.on_live = on_live
                yield driver
            return

        def plan(assignment: Assignment) -> EpisodePlan:
            on_live(scheduler.running)
            return plans(assignment)

        def note(record: episode_pb2.Episode) -> None:
            on_live(scheduler.running)
            on_record(record, b"")

        broadcast = Broadcast(store.folder)
        async with broadcast.open():
            yield self.dispatcher(scheduler, store, plan, broadcast, on_record=note)

    @asynccontextmanager
    async def _drive(
        self,
        workplace: Workplace,
        scheduler: Scheduler,
        store: RunStore,
        plans: StepPlans | StreamPlans,
        sampling: Sampling | None,
        on_outcome: Callable[[Outcome], None] | None = None,
    ) -> AsyncGenerator[RolloutDriver]:
        """Give what has workers play, which begin with this run, in processes that stay.

        Where there is somebody to be told of outcomes, whole records are among them.
        """
        part = RunPart(
            config=self._run_config(sampling),
            folder=store.folder.resolve(),
            manifest=store.manifest,
            tasks={name: [] for name in self._environments},
            planner=plans,
            tells_records=on_outcome is not None,
        )
        async with self._driving:
            driver = workplace.drive(
                [part],
                [store],
                self.fleet,
                {POLICY_NAME: PolicySpec("sglang", self._rollout.url)},
                scheduler,
                account=RunAccount(RunLimits()),
                on_outcome=on_outcome or (lambda _outcome: None),
                on_limit=lambda _limit: None,
                tell=lambda event: log.info("cluster", happened=event),
            )
            driver.tell_weights(self._version)
            self._driver = driver
            looking = supervise(self._look_after_engines(), "look after engines")
            try:
                yield driver
            finally:
                self._driver = None
                await cancel_tasks(looking)

    async def _look_after_engines(self) -> None:
        """Notice engines that were restarted: nothing is asked of them here, where weights are."""
        if not isinstance(self._policy, SGLangPolicy):
            return
        engines = self._policy.engines
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await engines.probe()
            if not engines.health.may_serve:
                engines.report_failure("engines that workers ask do not serve")

    def dispatcher(
        self,
        scheduler: Scheduler,
        store: RunStore,
        plan: Callable[[Assignment], EpisodePlan],
        broadcast: Broadcast,
        *,
        policy: Policy | None = None,
        on_record: Callable[[episode_pb2.Episode], None] = lambda _record: None,
    ) -> Dispatcher:
        """Return what plays a scheduler's episodes, and records them; None = with the policy."""
        played = policy or self._policy
        assert played is not None, "start_policy comes first"
        return Dispatcher(
            scheduler,
            self.fleet,
            {POLICY_NAME: played},
            lambda _environment: store,
            plan,
            on_record,
            account=RunAccount(RunLimits()),
            on_limit=lambda _limit: None,
            show=lambda plan: broadcast.episode(plan.episode_id),
        )

    def open_stream(self, folder: Path, samples: int) -> RunStore:
        """Begin, or go on with, the one run folder of all steps."""
        manifest = replace(
            self._manifest(0, samples, 0),
            run_id=f"stream-{seeds.derive('rollouts', self._seed, 'stream'):016x}",
            config={"samples": samples},
        )
        return _open_store(folder, manifest)

    def _manifest(self, step: int, samples: int, max_rounds: int) -> Manifest:
        return Manifest(
            run_id=f"step-{step:06}-{seeds.derive('rollouts', self._seed, step):016x}",
            created=utc_now(),
            environments=tuple(
                EnvironmentIdentity(
                    name=name, version=environment.version, digest=environment.digest
                )
                for name, environment in sorted(self.fleet.described.items())
            ),
            policy=POLICY_NAME,
            run_seed=self._seed,
            sampling={"temperature": self._config.sampling.temperature},
            config={"step": step, "samples": samples, "max_rounds": max_rounds},
            step=step,
        )

    def _plays(self) -> dict[str, EnvironmentPlay]:
        """Return how each environment is played in as many replies as it allows."""
        plays: dict[str, EnvironmentPlay] = {}
        for name, tasks in self._environments.items():
            described = self.fleet.described[name]
            play = EnvironmentPlay.from_settings(described, tasks.settings())
            plays[name] = replace(play, max_rounds=play.max_rounds or described.max_rounds)
        return plays


def read_rollouts(
    folder: Path, step: int, tasks: Sequence[Task], *, samples: int
) -> list[episode_pb2.Episode]:
    """Return what `Rollouts.play` returned for a step, read from its folder by another process."""
    with RunReader.open(_step_folder(folder, step)) as reader:
        return finished_episodes(reader, _episode_keys(tasks, samples))


def read_branches(folder: Path, step: int, keys: Sequence[EpisodeKey]) -> list[episode_pb2.Episode]:
    """Return what `Rollouts.play_branches` returned for a step."""
    with RunReader.open(_branches_folder(folder, step)) as reader:
        return finished_episodes(reader, keys)


def finished_episodes(run: RunReader, keys: Sequence[EpisodeKey]) -> list[episode_pb2.Episode]:
    """Return the episodes of keys, in order; those that were lost are left out."""
    episodes = (run.get(key) for key in keys)
    return [
        episode for episode in episodes if episode is not None and not episode.HasField("error")
    ]


def _is_begun(folder: Path) -> bool:
    return (folder / MANIFEST_FILE).is_file()


def _open_store(folder: Path, manifest: Manifest) -> RunStore:
    """Begin a run folder, or go on with it."""
    if not _is_begun(folder):
        return RunStore.create(folder, manifest, begin_session({}))
    if not read_manifest(folder).step:
        manifest = replace(manifest, step=0)  # earlier releases said it in the configuration alone
    return RunStore.resume(folder, manifest, begin_session({}))


def _step_folder(folder: Path, step: int) -> Path:
    return folder / f"step-{step:06}"


def _branches_folder(folder: Path, step: int) -> Path:
    return folder / "branches" / f"step-{step:06}"


def _episode_keys(tasks: Sequence[Task], samples: int) -> list[EpisodeKey]:
    return [
        EpisodeKey(environment, item_id, sample, POLICY_NAME)
        for environment, item_id in tasks
        for sample in range(samples)
    ]
