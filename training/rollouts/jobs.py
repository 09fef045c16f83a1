"""Episodes for an algorithm: chosen tasks, played through the orchestrator, a run per environment.

A run folder that was cut off is resumed, never begun anew, so every episode is played once. How the
episodes are used is the algorithm's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.logs import get_logger
from agent_runtime.models import resolve_model
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from agent_runtime.policies.config import SGLangOptions
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.scores import perfect_score
from agent_runtime.serving import serving
from agent_runtime.serving.config import ServeConfig
from agent_runtime.weights import BroadcastWeights, GroupBackend, Weights
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.client import ClientConfig, connection_options
from orchestrator.command_line import run_loop
from orchestrator.config import RunConfig
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.manifest import MANIFEST_FILE
from orchestrator.ray_config import RayConfig
from orchestrator.run import RunOutcome, RunSpec, run_many
from training.errors import RecipeError, TrainingError
from training.rollouts.engine_checks import require_same_tokenizer
from training.rollouts.tasks import EnvironmentTasks, list_ids

__all__ = [
    "EvalRun",
    "RolloutConfig",
    "RolloutJob",
    "RolloutPolicy",
    "checkpoint_weights",
    "list_tasks",
    "play",
    "pushed_weights",
]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """How episodes are played: by which engine, and where environments are served."""

    engine: Literal["embedded", "sglang"] = "embedded"
    """Where the agent's model runs: in this process, or in SGLang."""
    url: str = ""
    """A running SGLang server, whose weights are replaced through its update API, or several with
    `+` between them; empty = SGLang is launched for each exploration and ended before learning, so
    that both may use the GPUs."""
    push: Literal["disk", "tensors", "distributed"] = "disk"
    """How the server at `url` is given weights: as a checkpoint on a disk that it sees, as tensors
    in the memory of this machine, or through a process group (NCCL or gloo)."""
    push_backend: GroupBackend = "auto"
    """Of that group: auto = nccl where server and learner have GPUs of their own, else gloo."""
    push_address: str = ""
    """This machine as the server sees it, to come to that group; empty = the address that leads to
    it."""
    push_adapter: bool = False
    """Of GRPO with `model.lora`: give the engine the adapter alone after each step, and the weights
    below it once. A server at `url` loads it from a disk that it sees, named by its version."""
    max_new_tokens: int = 256
    """Longest reply, in tokens."""
    actions_only: bool = False
    """Experts, and who else is scripted, reply with the action alone, without the reason for it."""
    concurrency: int = 128
    """Episodes that are live at once."""
    together: bool = False
    """Play all environments at once, so that a large batch stays full; else one after the other."""
    lost_share: float = 0.02
    """Share of episodes that may be lost to errors before the program stops."""
    embedded: EmbeddedOptions = field(default_factory=EmbeddedOptions)
    sglang: SGLangOptions = field(default_factory=SGLangOptions)
    serve: ServeConfig = field(default_factory=ServeConfig)
    fleet: FleetConfig = field(default_factory=FleetConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    """How to reach the environment servers: TLS, patience. A token comes from AGENTGYM_TOKEN."""
    cluster: RayConfig = field(default_factory=RayConfig)
    """Play on a Ray cluster, where `address` names one; --ray ADDRESS for short. Folders of runs
    and checkpoints lie where all nodes see them."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or self.concurrency < 1 or not 0 <= self.lost_share < 1:
            raise ValueError(
                "max_new_tokens and concurrency are at least 1, lost_share below 1 and at least 0"
            )
        if self.url and self.engine != "sglang":
            raise ValueError("url is of the engine sglang")
        if self.engine == "sglang" and not self.url and not self.serve.port:
            # Records name the address: a resume must find the same one.
            raise ValueError("the engine sglang needs url, or serve.port to launch a server on")
        if self.push != "disk" and not self.url:
            raise ValueError("push is of a server that goes on: it needs url")
        outlasts = self.engine == "embedded" or self.url
        if self.push_adapter and (self.push != "disk" or not outlasts):
            raise ValueError('push_adapter wants push = "disk", and embedded or a server with url')

    def check_push_to_cluster(self) -> None:
        """Raise ValueError where a step's weights would not reach those who play on a cluster."""
        if not self.cluster.address:
            return
        if not self.url:
            raise ValueError(
                "rollout.cluster plays in other processes, whose embedded engines get no new "
                'weights: set rollout.engine = "sglang" and rollout.url, an address that all nodes '
                "reach"
            )
        if self.push_adapter:
            raise ValueError(
                "rollout.push_adapter names the adapter in this process alone: leave it out, or "
                "rollout.cluster"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPolicy:
    """Who plays, and how it samples."""

    policy: str
    """`expert`, `random` or the folder of a checkpoint."""
    temperature: float = 0.0
    samples: int = 1
    """Episodes per task."""
    seed: int = 0

    @property
    def scripted(self) -> bool:
        """Whether no model plays."""
        return self.policy in ("expert", "random", "noop")


@dataclass(frozen=True, slots=True)
class EvalRun:
    """A finished run of one environment."""

    folder: Path
    environment: str
    by_score: bool
    """The environment's metric is its mean score, not its success rate."""
    perfect: float
    """The score of a perfect episode."""

    @classmethod
    def of(cls, folder: Path, described: pb.GetEnvironmentResponse) -> EvalRun:
        """Return the run in a folder, of the environment that a server describes."""
        by_score = described.metric == pb.METRIC_MEAN_SCORE
        return cls(folder, described.name, by_score, perfect_score(described))


@dataclass(frozen=True, slots=True)
class RolloutJob:
    """What is played of one environment, and where it is recorded."""

    environment: EnvironmentTasks
    items: Sequence[str]
    folder: Path
    samples: int = 0
    """Episodes per task; 0 = the policy's number."""


def play(
    rollout: RolloutConfig, policy: RolloutPolicy, jobs: Sequence[RolloutJob], *, console: Console
) -> list[EvalRun]:
    """Play jobs, going on where a process was cut off.

    Args:
        rollout: How they are played: one after the other, or all together.
        policy: Who plays.
        jobs: What is played, one run folder each.
        console: Gets progress.

    Returns:
        The finished runs, in the order of the jobs.

    Raises:
        RecipeError: A job has no tasks.
        TrainingError: Too many episodes were lost.
        KeyboardInterrupt: The run was interrupted; what was finished is kept.
        OrchestratorError: The servers or the store failed.
        AgentRuntimeError: The policy could not be started.
    """
    for job in jobs:
        if not job.items:
            raise RecipeError("there are no tasks to play", field=job.environment.name)
        job.folder.parent.mkdir(parents=True, exist_ok=True)
    return run_loop(_play_jobs(rollout, policy, jobs, console))


async def _play_jobs(
    rollout: RolloutConfig, policy: RolloutPolicy, jobs: Sequence[RolloutJob], console: Console
) -> list[EvalRun]:
    async with AsyncExitStack() as stack:
        spec = await _start_policy(rollout, policy, stack)
        runs = [
            RunSpec(
                _run_config(rollout, job, policy, spec),
                job.folder,
                resume=(job.folder / MANIFEST_FILE).is_file(),
            )
            for job in jobs
        ]
        for run in runs:
            log.info("rollouts begin", folder=str(run.folder), resume=run.resume, policy=str(spec))
        outcomes: list[RunOutcome] = []
        for group in [runs] if rollout.together else [[run] for run in runs]:
            for outcome in await run_many(group, console=console):
                _require_complete(outcome, rollout.lost_share)
                outcomes.append(outcome)
        return [
            EvalRun.of(job.folder, outcome.described[job.environment.name])
            for job, outcome in zip(jobs, outcomes, strict=True)
        ]


async def _start_policy(
    rollout: RolloutConfig, policy: RolloutPolicy, stack: AsyncExitStack
) -> PolicySpec:
    """Return what plays; a server that is launched for it ends with the stack."""
    if policy.scripted:
        return PolicySpec(policy.policy)
    if rollout.engine == "embedded":
        return PolicySpec("embedded", policy.policy)
    if rollout.url:
        await _push_weights(rollout, Path(resolve_model(policy.policy)))
        return PolicySpec("sglang", rollout.url)
    template = rollout.sglang.chat_template
    server = await stack.enter_async_context(
        serving(policy.policy, rollout.serve, chat_template=template)
    )
    return PolicySpec("sglang", server.address)


async def _push_weights(rollout: RolloutConfig, checkpoint: Path) -> None:
    """Give a running server the weights of a checkpoint.

    They are named by their bytes: equal weights, equal version.
    """
    version = await asyncio.to_thread(weights_digest, checkpoint)
    weights = await asyncio.to_thread(checkpoint_weights, rollout, checkpoint)
    policy = SGLangPolicy(rollout.url, PolicyConfig(sglang=rollout.sglang))
    await policy.start()
    try:
        await require_same_tokenizer(policy, checkpoint, rollout.url)
        # Whoever was evaluated explores next.
        if policy.engines.health.versions != frozenset((version,)):
            await policy.update_weights(weights, version=version)
    finally:
        await policy.close()
    log.info("weights served", server=rollout.url, version=version, checkpoint=str(checkpoint))


def pushed_weights(rollout: RolloutConfig, tensors: Mapping[str, Any]) -> Weights:
    """Return a state_dict as the policy is given it where `push` goes by no disk."""
    if rollout.push != "distributed":
        return tensors
    backend, address = rollout.push_backend, rollout.push_address
    return BroadcastWeights(tensors=tensors, backend=backend, address=address)


def checkpoint_weights(rollout: RolloutConfig, checkpoint: Path) -> Weights:
    """Return a checkpoint as the policy is given it.

    Its folder, which a server must see under the same path; its tensors where `push` goes by no
    disk. Raises PolicyMisconfigured where those cannot be read.
    """
    if rollout.push == "disk":
        return checkpoint
    from agent_runtime.engine.torch_backend import read_weights

    return pushed_weights(rollout, read_weights(checkpoint))


def list_tasks(
    rollout: RolloutConfig, environments: Sequence[EnvironmentTasks]
) -> Mapping[str, tuple[list[str], list[str]]]:
    """Return the ids of each environment's train split and of the one for evaluation.

    Raises:
        RecipeError: An environment has no such split or category.
    """
    names = [tasks.name for tasks in environments]

    async def ask() -> dict[str, tuple[list[str], list[str]]]:
        async with Fleet(names, rollout.fleet, connection_options(rollout.client)) as fleet:
            return {tasks.name: await list_ids(fleet, tasks) for tasks in environments}

    return run_loop(ask())


def _run_config(
    rollout: RolloutConfig, job: RolloutJob, policy: RolloutPolicy, spec: PolicySpec
) -> RunConfig:
    environment = job.environment
    sampling = Sampling(temperature=policy.temperature, max_new_tokens=rollout.max_new_tokens)
    return RunConfig(
        environments=(environment.name,),
        items=tuple(job.items),
        samples=job.samples or policy.samples,
        policies=(spec,),
        max_rounds=environment.max_rounds,
        profile=environment.profile,
        conversation_start=environment.conversation_start,
        options=environment.options,
        seed=policy.seed,
        agent=PolicyConfig(
            sampling=sampling,
            actions_only=rollout.actions_only,
            embedded=rollout.embedded,
            sglang=rollout.sglang,
        ),
        concurrency=rollout.concurrency,
        fleet=rollout.fleet,
        client=rollout.client,
        cluster=rollout.cluster,
    )


def _require_complete(outcome: RunOutcome, lost_share: float) -> None:
    """Raise where a run was interrupted or lost more episodes than a recipe admits."""
    if outcome.interrupted:
        raise KeyboardInterrupt
    lost = outcome.planned - outcome.finished
    if lost:
        log.warning("episodes lost", folder=str(outcome.folder), lost=lost, planned=outcome.planned)
    if lost > lost_share * outcome.planned:
        raise TrainingError(
            f"{lost} of {outcome.planned} episodes of {outcome.folder} were lost; "
            f"`python -m orchestrator.show {outcome.folder}` tells why",
            field="rollout.lost_share",
        )
