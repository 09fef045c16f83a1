"""A run from configuration to summary: the one path that sample, evaluate and programs share.

Several runs of different environments may be played as one, so that an engine's batch stays full.

Servers, tasks, policies, store and dispatcher are opened and released in this order. Whatever
ends a run, the records that are finished by then are durable.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2
from rich.console import Console

from agent_runtime import tracing
from agent_runtime.agent import EpisodePlan
from agent_runtime.agents import PlaySettings
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.logs import bind_context, get_logger
from agent_runtime.policies import make_policy
from agent_runtime.policies.base import Policy
from agent_runtime.serving import serving
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from orchestrator import seeds
from orchestrator.client import connection_options
from orchestrator.config import (
    EMBEDDED_POLICY,
    SERVED_POLICY,
    RunConfig,
    parse_action_format,
)
from orchestrator.dispatcher import Dispatcher
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.fleet import Fleet
from orchestrator.manifest import EnvironmentIdentity, Manifest, begin_session, utc_now
from orchestrator.progress import RunProgress
from orchestrator.prompts import to_conversation_start
from orchestrator.records import EpisodeKey, enum_name
from orchestrator.retry import RetryBudget
from orchestrator.run_folder import inspect_folder
from orchestrator.run_logs import open_run_logs
from orchestrator.scheduler import Assignment, EnvironmentPlan, Limits, Scheduler, work_items
from orchestrator.store import RunStore

__all__ = ["RunOutcome", "RunSpec", "Tasks", "run", "run_many"]

log = get_logger(__name__)

Tasks = Mapping[str, list[pb.TaskSummary]]
"""The tasks of each environment, in the order in which they are played."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended."""

    folder: Path
    finished: int
    planned: int
    failed: int
    """Episodes that were given up."""
    interrupted: bool
    described: Mapping[str, pb.GetEnvironmentResponse]
    """What the servers said of each environment."""

    @property
    def complete(self) -> bool:
        """Every planned episode has a finished record."""
        return self.finished == self.planned


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run to play: its configuration and its folder."""

    config: RunConfig
    folder: Path
    resume: bool = False


async def run(config: RunConfig, folder: Path, *, resume: bool, console: Console) -> RunOutcome:
    """Play a run, new or resumed; raises OrchestratorError, AgentRuntimeError."""
    (outcome,) = await run_many([RunSpec(config, folder, resume)], console=console)
    return outcome


async def run_many(specs: Sequence[RunSpec], *, console: Console) -> list[RunOutcome]:
    """Play runs of different environments at once; outcomes in the order of the specs.

    Each is recorded in its own folder, as if it was played alone. They share what the first one's
    configuration says of servers, policies, retries and the number of live episodes.

    Raises:
        UsageError: Two of the runs have an environment in common, or other policies.
        OrchestratorError, AgentRuntimeError: What `run` raises.
    """
    specs = [replace(spec, config=spec.config.resolve()) for spec in specs]
    _check_compatible(specs)
    first = specs[0].config
    names = [name for spec in specs for name in spec.config.environments]
    run_ids = [_run_id(spec) for spec in specs]
    async with AsyncExitStack() as stack:
        logs = [
            stack.enter_context(open_run_logs(spec.folder, run_id, resume=spec.resume))
            for spec, run_id in zip(specs, run_ids, strict=True)
        ]
        if len(specs) == 1:  # else only what is logged about an episode is about one run
            stack.enter_context(bind_context(run_id=run_ids[0]))
        stack.enter_context(_log_failure())
        # Opened before the fleet: connections take the span to the servers.
        stack.enter_context(tracing.span("run", run_id=run_ids[0]))
        fleet = await stack.enter_async_context(
            Fleet(names, first.fleet, connection_options(first.client), logs=logs[0].folder)
        )
        tasks = [await _choose_tasks(spec.config, fleet) for spec in specs]
        policies = await _start_policies(first, stack)
        runs: list[_ActiveRun] = []
        for spec, run_id, log_folder, selected in zip(specs, run_ids, logs, tasks, strict=True):
            config = spec.config
            manifest = _manifest(run_id, config, fleet, policies)
            session = begin_session(config.runtime_fields())
            begin = RunStore.resume if spec.resume else RunStore.create
            store = stack.enter_context(begin(spec.folder, manifest, session))
            log_folder.settle()
            runs.append(_ActiveRun(config, fleet, policies, store, selected))
        return await _ActiveRuns(runs, fleet, policies, console).play()


def _run_id(spec: RunSpec) -> str:
    """Return the recorded id of a run that is resumed, else a new one; raises RunFolderError."""
    return inspect_folder(spec.folder).run_id if spec.resume else uuid.uuid4().hex


@contextmanager
def _log_failure() -> Generator[None]:
    """Write into the log what ended a run; whoever shows the error shows it to people."""
    try:
        yield
    except (OrchestratorError, AgentRuntimeError) as error:
        log.info("run failed", error=str(error), kind=type(error).__name__)
        raise
    except Exception as error:  # a defect of this program: the log gets the traceback
        log.error("run failed", error=repr(error), exc_info=True)
        raise


def _check_compatible(specs: Sequence[RunSpec]) -> None:
    """Raise UsageError for runs that cannot be played at once."""
    first = specs[0].config
    seen: set[str] = set()
    for spec in specs:
        names = spec.config.environments
        if twice := seen.intersection(names):
            raise UsageError(f"two runs that are played together have {min(twice)} in common")
        if (spec.config.policies, spec.config.agent) != (first.policies, first.agent):
            raise UsageError("runs that are played together have the same policies")
        seen.update(names)


@dataclass(frozen=True, slots=True)
class _EnvironmentPlay:
    """How one environment is played, as plans of episodes need it."""

    settings: PlaySettings
    split: str
    """Empty = single items are played."""
    options: struct_pb2.Struct
    conversation_start: pb.ConversationStart | None

    @classmethod
    def from_config(cls, config: RunConfig, environment: str) -> _EnvironmentPlay:
        settings = config.environment_settings(environment)
        options = struct_pb2.Struct()
        options.update(dict(settings.options))
        start = to_conversation_start(settings.conversation_start)
        return cls(settings, config.environment_split(environment), options, start)


class _ActiveRun:
    """A run that is being played: its store, its keys and the plans of its episodes."""

    def __init__(
        self,
        config: RunConfig,
        fleet: Fleet,
        policies: Mapping[str, Policy],
        store: RunStore,
        tasks: Tasks,
    ) -> None:
        self.config = config
        self.store = store
        self._fleet = fleet
        self._categories = {
            (name, task.item_id): task.category for name, listed in tasks.items() for task in listed
        }
        self._environments = {name: _EnvironmentPlay.from_config(config, name) for name in tasks}
        self.keys = work_items(
            [
                EnvironmentPlan(environment=name, item_ids=[task.item_id for task in listed])
                for name, listed in tasks.items()
            ],
            samples=config.samples,
            policies=list(policies),
        )

    def plan(self, assignment: Assignment) -> EpisodePlan:
        """Return what is to be played for an assignment of this run."""
        key, config = assignment.key, self.config
        environment = self._environments[key.environment]
        names: dict[str, Any] = {"environment": key.environment, "item_id": key.item_id}

        def turn_seed(turn: int) -> int:
            return seeds.sampling_seed(config.seed, **names, sample=key.sample, turn=turn)

        run_id = self.store.manifest.run_id
        return EpisodePlan(
            run_id=run_id,
            episode_id=seeds.episode_id(
                run_id, **names, sample=key.sample, policy=key.policy, attempt=assignment.attempt
            ),
            environment=self._fleet.described[key.environment],
            item_id=key.item_id,
            category=self._categories[(key.environment, key.item_id)],
            split=environment.split,
            sample=key.sample,
            policy=key.policy,
            attempt=assignment.attempt,
            seed=seeds.episode_seed(config.seed, **names),
            action_format=parse_action_format(config.action_format),
            profile=environment.settings.profile,
            options=environment.options,
            max_rounds=environment.settings.max_rounds,
            conversation_start=environment.conversation_start,
            turn_seed=turn_seed,
        )

    def log_start(self, finished: Collection[EpisodeKey]) -> None:
        """Say in the log what is going to be played."""
        manifest = self.store.manifest
        log.info(
            "run started",
            run_id=manifest.run_id,
            folder=str(self.store.folder),
            session=len(manifest.sessions),
            environments=list(self.config.environments),
            policies=list(map(str, self.config.policies)),
            planned=len(self.keys),
            finished=sum(key in finished for key in self.keys),
        )

    def log_end(self, outcome: RunOutcome) -> None:
        """Say in the log how it ended."""
        log.info(
            "run ended",
            run_id=self.store.manifest.run_id,
            planned=outcome.planned,
            finished=outcome.finished,
            failed=outcome.failed,
            interrupted=outcome.interrupted,
        )

    def outcome(self, scheduler: Scheduler, *, interrupted: bool) -> RunOutcome:
        """Return how this run ended."""
        keys = frozenset(self.keys)
        return RunOutcome(
            self.store.folder,
            sum(key in keys for key in self.store.finished_keys()),
            len(self.keys),
            sum(key in keys for key in scheduler.failed_keys),
            interrupted,
            {name: self._fleet.described[name] for name in self.config.environments},
        )


class _ActiveRuns:
    """One or more runs being played, their episodes in one pool."""

    def __init__(
        self,
        runs: Sequence[_ActiveRun],
        fleet: Fleet,
        policies: Mapping[str, Policy],
        console: Console,
    ) -> None:
        self._runs = runs
        self._fleet = fleet
        self._policies = policies
        self._console = console
        self._keys = [key for run in runs for key in run.keys]
        self._run_by_environment = {name: run for run in runs for name in run.config.environments}
        self._interrupted = False

    async def play(self) -> list[RunOutcome]:
        """Play what is left; returns how each run ended."""
        finished = {key for run in self._runs for key in run.store.finished_keys()}
        scheduler = self._scheduler(finished)
        totals = Counter((key.environment, key.policy) for key in self._keys)
        before = Counter((k.environment, k.policy) for k in self._keys if k in finished)
        for run in self._runs:
            run.log_start(finished)
        async with RunProgress(
            totals, self._console, finished=before, live=lambda: scheduler.running
        ) as progress:
            dispatcher = Dispatcher(
                scheduler, self._fleet, self._policies, self._find_store, self._plan, progress.add
            )
            async with self._stop_on_signal(dispatcher):
                await dispatcher.run()
        outcomes = [run.outcome(scheduler, interrupted=self._interrupted) for run in self._runs]
        for run, outcome in zip(self._runs, outcomes, strict=True):
            run.log_end(outcome)
        return outcomes

    def _scheduler(self, finished: set[EpisodeKey]) -> Scheduler:
        config = self._runs[0].config
        per_environment = {
            name: max(1, int(described.limits.max_episodes * len(self._fleet)))
            for name, described in self._fleet.described.items()
        }
        failed = [run.store.failed_keys() for run in self._runs]
        return Scheduler(
            self._keys,
            limits=Limits(total=config.concurrency, per_environment=per_environment),
            retries=RetryBudget(config.retry, seed=config.seed),
            finished=finished,
            failed={key: attempt for keys in failed for key, attempt in keys.items()},
        )

    def _find_store(self, environment: str) -> RunStore:
        return self._run_by_environment[environment].store

    def _plan(self, assignment: Assignment) -> EpisodePlan:
        return self._run_by_environment[assignment.key.environment].plan(assignment)

    @asynccontextmanager
    async def _stop_on_signal(self, dispatcher: Dispatcher) -> AsyncGenerator[None]:
        """Let the first Ctrl-C or SIGTERM stop the run in order, the second end the process."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)

        def on_signal() -> None:
            if self._interrupted:
                os._exit(130)
            self._interrupted = True
            log.warning("run interrupted")
            self._console.print("stopping; finished episodes are kept", highlight=False)
            dispatcher.stop()

        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


async def _start_policies(config: RunConfig, stack: AsyncExitStack) -> dict[str, Policy]:
    """Start the policies; return them by the names that records give them.

    A policy without a target plays the run's own model, which is served first where it has to be.
    """
    policies: dict[str, Policy] = {}
    for named in config.policies:
        spec = named
        if named.kind == SERVED_POLICY and not named.target:
            template = config.agent.sglang.chat_template
            served = await stack.enter_async_context(
                serving(config.model, config.serve, chat_template=template)
            )
            spec = replace(named, target=served.address)
        elif named.kind == EMBEDDED_POLICY and not named.target:
            spec = replace(named, target=config.model)
        policy = policies[str(named)] = make_policy(spec, config.agent)
        await policy.start()
        log.info("policy started", policy=str(named), identity=policy.identity())
        stack.push_async_callback(policy.close)
    return policies


async def _choose_tasks(config: RunConfig, fleet: Fleet) -> Tasks:
    action_format = parse_action_format(config.action_format)
    tasks: dict[str, list[pb.TaskSummary]] = {}
    for name in config.environments:
        described = fleet.described[name]
        if action_format not in described.action_formats:
            formats = described.action_formats
            valid = [enum_name(types_pb2.ActionFormat, number).lower() for number in formats]
            raise UsageError(f"{name} does not speak {config.action_format}", valid=valid)
        settings = config.environment_settings(name)
        if settings.profile and settings.profile not in described.profiles:
            raise UsageError(
                f"{name} has no profile {settings.profile!r}", valid=described.profiles
            )
        split = config.environment_split(name)
        splits = {split.name: split.size for split in described.splits}
        if split and split not in splits:
            raise UsageError(f"{name} has no split {split!r}", valid=splits)
        if split:
            listed = await fleet.list_items(name, split)
        else:
            listed = await fleet.get_items(name, settings.items)
        # Items that were asked for one by one are all played.
        tasks[name] = _choose(listed, 0 if config.items else config.episodes)
    return tasks


def _choose(tasks: list[pb.TaskSummary], count: int) -> list[pb.TaskSummary]:
    """Return `count` tasks (0 = all) in their order, chosen by a hash of their ids.

    Splits are sorted by difficulty or cycle through levels: neither the first ones nor every k-th
    would be fair. More tasks contain fewer, so a larger run extends a smaller one.
    """
    if count == 0 or count >= len(tasks):
        return tasks
    ranks = {task.item_id: seeds.derive("choose-task", task.item_id) for task in tasks}
    last = sorted(ranks.values())[count - 1]
    return [task for task in tasks if ranks[task.item_id] <= last]


def _manifest(
    run_id: str, config: RunConfig, fleet: Fleet, policies: Mapping[str, Policy]
) -> Manifest:
    return Manifest(
        run_id=run_id,
        created=utc_now(),
        environments=tuple(
            EnvironmentIdentity(name=name, version=described.version, digest=described.digest)
            for name, described in sorted(fleet.described.items())
            if name in config.environments
        ),
        policy=",".join(map(str, config.policies)),
        policies={name: policy.identity() for name, policy in policies.items()},
        run_seed=config.seed,
        sampling=asdict(config.agent.sampling),
        config=config.resume_key(),
    )
