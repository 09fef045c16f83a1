"""Episodes by the weights of the moment: servers and a policy that stay open from step to step.

Owns a fleet, one policy and one run folder per training step. Invariants: an episode is played by
the policy's current weights, whose version every sampled token carries; a step whose run was cut
off is completed, never played twice. Knows no algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from google.protobuf import struct_pb2

from agent_runtime.agent import EpisodePlan
from agent_runtime.policies import PolicyConfig, Sampling, make_policy
from agent_runtime.policies.base import Policy, TrainablePolicy
from agent_runtime.weights import Weights
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.client import connection_options
from orchestrator.dispatcher import Dispatcher
from orchestrator.fleet import Fleet
from orchestrator.manifest import (
    MANIFEST_FILE,
    EnvironmentIdentity,
    Manifest,
    begin_session,
    utc_now,
)
from orchestrator.prompts import to_conversation_start
from orchestrator.records import EpisodeKey
from orchestrator.retry import RetryBudget, RetryPolicy
from orchestrator.scheduler import Assignment, Limits, Scheduler
from orchestrator.store import RunReader, RunStore
from training.errors import RecipeError
from training.rollouts.jobs import RolloutConfig
from training.rollouts.tasks import EnvironmentTasks

__all__ = ["POLICY_NAME", "Rollouts", "Task", "recorded"]

POLICY_NAME = "agent"
"""Name of the learning policy in records: it stays while its weights change."""

Task = tuple[str, str]
"""Environment and item id."""


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
        """`folder` gets one run per step."""
        self.fleet = Fleet(
            [it.name for it in environments],
            rollout.fleet,
            connection_options(rollout.client),
        )
        self._rollout = rollout
        self._environments = {it.name: it for it in environments}
        self._folder = folder
        self._seed = seed
        self._config = PolicyConfig(
            sampling=Sampling(temperature=temperature, max_new_tokens=rollout.max_new_tokens),
            embedded=rollout.embedded,
            sglang=rollout.sglang,
        )
        self._conversation_starts = {
            it.name: to_conversation_start(it.conversation_start) for it in environments
        }
        self._policy: TrainablePolicy | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.fleet)
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start_policy(self, checkpoint: Path, version: str) -> None:
        """Load the starting weights under a version of the caller's."""
        rollout = self._rollout
        if rollout.engine == "sglang" and not rollout.url:
            raise RecipeError("is needed: the server must outlast the steps", field="rollout.url")
        spec = f"sglang:{rollout.url}" if rollout.url else f"embedded:{checkpoint}"
        policy = make_policy(spec, self._config)
        if not isinstance(policy, TrainablePolicy):
            raise RuntimeError(f"the weights of {spec} cannot be replaced")
        await policy.start()
        self._stack.push_async_callback(policy.close)
        self._policy = policy
        await self.update_weights(checkpoint, version)

    async def update_weights(self, weights: Weights, version: str) -> None:
        """Replace the weights, as `TrainablePolicy.update_weights` does. Raises PolicyError."""
        assert self._policy is not None, "start_policy comes first"
        await self._policy.update_weights(weights, version=version)

    async def play(
        self, step: int, tasks: Sequence[Task], *, samples: int, max_rounds: int = 0
    ) -> list[episode_pb2.Episode]:
        """The episodes of a step, in the order of tasks, then samples; failed ones are left out.

        `max_rounds` bounds the replies below each environment's own number; 0 = no further bound.
        """
        assert self._policy is not None, "start_policy comes first"
        keys = _keys(tasks, samples)
        folder = _folder_of(self._folder, step)
        manifest = self._manifest(step, samples, max_rounds)
        known = (folder / MANIFEST_FILE).is_file()
        begin = RunStore.resume if known else RunStore.create
        with begin(folder, manifest, begin_session({})) as store:
            run = _StepRun(self, store, step, max_rounds)
            await run.play(keys, self._policy, self._rollout.concurrency)
            return _finished(store, keys)

    def _manifest(self, step: int, samples: int, max_rounds: int) -> Manifest:
        return Manifest(
            run_id=f"step-{step:06}-{seeds.derive('rollouts', self._seed, step):016x}",
            created=utc_now(),
            environments=tuple(
                EnvironmentIdentity(name=name, version=it.version, digest=it.digest)
                for name, it in sorted(self.fleet.described.items())
            ),
            policy=POLICY_NAME,
            run_seed=self._seed,
            sampling={"temperature": self._config.sampling.temperature},
            config={"step": step, "samples": samples, "max_rounds": max_rounds},
        )

    def plan(self, store: RunStore, step: int, rounds: int, assignment: Assignment) -> EpisodePlan:
        """What is to be played for an assignment of a step."""
        key = assignment.key
        wanted, described = (
            self._environments[key.environment],
            self.fleet.described[key.environment],
        )
        own = wanted.max_rounds or described.max_rounds
        options = struct_pb2.Struct()
        options.update(dict(wanted.options))
        names: dict[str, Any] = {"environment": key.environment, "item_id": key.item_id}

        def turn_seed(turn: int) -> int:
            return seeds.sampling_seed(self._seed, **names, sample=key.sample, turn=turn, step=step)

        run_id = store.manifest.run_id
        return EpisodePlan(
            run_id=run_id,
            episode_id=seeds.episode_id(
                run_id, **names, sample=key.sample, policy=key.policy, attempt=assignment.attempt
            ),
            environment=described,
            item_id=key.item_id,
            sample=key.sample,
            policy=key.policy,
            attempt=assignment.attempt,
            seed=seeds.episode_seed(self._seed, **names, step=step),
            action_format=types_pb2.ACTION_FORMAT_REACT,
            profile=wanted.profile,
            options=options,
            max_rounds=min(own, rounds) if rounds else own,
            conversation_start=self._conversation_starts[key.environment],
            turn_seed=turn_seed,
        )


def recorded(
    folder: Path, step: int, tasks: Sequence[Task], *, samples: int
) -> list[episode_pb2.Episode]:
    """What `Rollouts.play` gave for a step, read from its folder by another process."""
    with RunReader.open(_folder_of(folder, step)) as reader:
        return _finished(reader, _keys(tasks, samples))


def _folder_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:06}"


def _keys(tasks: Sequence[Task], samples: int) -> list[EpisodeKey]:
    return [
        EpisodeKey(name, item, sample, POLICY_NAME)
        for name, item in tasks
        for sample in range(samples)
    ]


def _finished(run: RunReader, keys: Sequence[EpisodeKey]) -> list[episode_pb2.Episode]:
    found = (run.get(key) for key in keys)
    return [it for it in found if it is not None and not it.HasField("error")]


class _StepRun:
    """The episodes of one step being played."""

    def __init__(self, rollouts: Rollouts, store: RunStore, step: int, rounds: int) -> None:
        self._rollouts = rollouts
        self._store = store
        self._step = step
        self._rounds = rounds

    async def play(self, keys: Sequence[EpisodeKey], policy: Policy, concurrency: int) -> None:
        scheduler = Scheduler(
            keys,
            limits=Limits(total=concurrency),
            retries=RetryBudget(RetryPolicy(), seed=self._step),
            finished=self._store.finished_keys(),
            failed=self._store.failed_keys(),
        )
        dispatcher = Dispatcher(
            scheduler,
            self._rollouts.fleet,
            {POLICY_NAME: policy},
            lambda _environment: self._store,
            self._plan,
            lambda _record: None,
        )
        await dispatcher.run()

    def _plan(self, assignment: Assignment) -> EpisodePlan:
        return self._rollouts.plan(self._store, self._step, self._rounds, assignment)
