"""A run from configuration to summary: the one path that sample, evaluate and programs share.

Several runs of different environments may be played as one, so that an engine's batch stays full.

Owns the order of things: servers, tasks, policies, store, dispatcher, and their release. Whatever
ends a run, the records that are finished by then are durable.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2
from rich.console import Console

from agent_runtime.agent import EpisodePlan
from agent_runtime.agents import PlaySettings
from agent_runtime.connection import ClientSecurity, ConnectionOptions
from agent_runtime.policies import make_policy
from agent_runtime.policies.base import Policy
from agent_runtime.serving import serving
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from orchestrator import seeds
from orchestrator.config import (
    EMBEDDED_POLICY,
    SERVED_POLICY,
    RunConfig,
    action_format_of,
)
from orchestrator.dispatcher import Dispatcher
from orchestrator.errors import UsageError
from orchestrator.fleet import Fleet
from orchestrator.manifest import EnvironmentIdentity, Manifest, begin_session, utc_now
from orchestrator.progress import RunProgress
from orchestrator.prompts import read_opening
from orchestrator.records import EpisodeKey
from orchestrator.retry import RetryBudget
from orchestrator.scheduler import Assignment, EnvironmentPlan, Limits, Scheduler, work_items
from orchestrator.store import RunStore

__all__ = ["Part", "RunOutcome", "Tasks", "run", "run_together"]

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
class Part:
    """One of several runs that are played together: its configuration and its folder."""

    config: RunConfig
    folder: Path
    resume: bool = False


async def run(config: RunConfig, folder: Path, *, resume: bool, console: Console) -> RunOutcome:
    """Play a run, new or resumed; raises OrchestratorError, AgentRuntimeError."""
    (outcome,) = await run_together([Part(config, folder, resume)], console=console)
    return outcome


async def run_together(parts: Sequence[Part], *, console: Console) -> list[RunOutcome]:
    """Play runs of different environments at once; outcomes in the order of the parts.

    Each is recorded in its own folder, as if it was played alone. They share what the first one's
    configuration says of servers, policies, retries and the number of live episodes. Raises
    UsageError where two of them have an environment in common, or other policies; else what `run`
    raises.
    """
    parts = [replace(part, config=part.config.settled()) for part in parts]
    _check_together(parts)
    first = parts[0].config
    names = [name for part in parts for name in part.config.environments()]
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(
            Fleet(names, first.fleet, connection_options(first))
        )
        tasks = [await _choose_tasks(part.config, fleet) for part in parts]
        policies = await _start_policies(first, stack)
        sessions: list[_Session] = []
        for part, chosen in zip(parts, tasks, strict=True):
            config = part.config
            manifest = _manifest(config, fleet, policies)
            session = begin_session(config.settings())
            begin = RunStore.resume if part.resume else RunStore.create
            store = stack.enter_context(begin(part.folder, manifest, session))
            sessions.append(_Session(config, fleet, policies, store, chosen))
        return await _Sessions(sessions, fleet, policies, console).run()


def _check_together(parts: Sequence[Part]) -> None:
    first = parts[0].config
    seen: set[str] = set()
    for part in parts:
        part.config.check()
        names = part.config.environments()
        if twice := seen.intersection(names):
            raise UsageError(f"two runs that are played together have {min(twice)} in common")
        if (part.config.policies(), part.config.agent) != (first.policies(), first.agent):
            raise UsageError("runs that are played together have the same policies")
        seen.update(names)


@dataclass(frozen=True, slots=True)
class _Settings:
    """How one environment is played, ready for plans."""

    play: PlaySettings
    split: str
    """Empty = single items are played."""
    options: struct_pb2.Struct
    opening: pb.ConversationStart | None

    @classmethod
    def of(cls, config: RunConfig, environment: str) -> _Settings:
        """Raises UsageError for options or a file that cannot be read."""
        play = config.settings_of(environment)
        options = struct_pb2.Struct()
        options.update(dict(play.options))
        opening = None
        if config.prompts_from:
            opening = read_opening(config.prompts_from)
        elif play.opening:
            instruction, acknowledgement = play.opening
            opening = pb.ConversationStart(instruction=instruction, acknowledgement=acknowledgement)
        return cls(play, config.split_of(environment), options, opening)


class _Session:
    """One start of a run, with everything that it needs in place."""

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
        self._settings = {name: _Settings.of(config, name) for name in tasks}
        self.keys = work_items(
            [
                EnvironmentPlan(environment=name, item_ids=[task.item_id for task in listed])
                for name, listed in tasks.items()
            ],
            samples=config.samples,
            policies=list(policies),
        )

    def plan(self, assignment: Assignment) -> EpisodePlan:
        """What is to be played for an assignment of this run."""
        key, config = assignment.key, self.config
        settings = self._settings[key.environment]
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
            split=settings.split,
            sample=key.sample,
            policy=key.policy,
            attempt=assignment.attempt,
            seed=seeds.episode_seed(config.seed, **names),
            action_format=action_format_of(config.action_format),
            profile=settings.play.profile,
            options=settings.options,
            max_rounds=settings.play.max_rounds,
            opening=settings.opening,
            turn_seed=turn_seed,
        )

    def outcome(self, scheduler: Scheduler, *, interrupted: bool) -> RunOutcome:
        """How this run ended."""
        mine = frozenset(self.keys)
        return RunOutcome(
            self.store.folder,
            sum(key in mine for key in self.store.finished_keys()),
            len(self.keys),
            sum(key in mine for key in scheduler.failed_keys),
            interrupted,
            {name: self._fleet.described[name] for name in self.config.environments()},
        )


class _Sessions:
    """One or more runs being played, their episodes in one pool."""

    def __init__(
        self,
        sessions: Sequence[_Session],
        fleet: Fleet,
        policies: Mapping[str, Policy],
        console: Console,
    ) -> None:
        self._sessions = sessions
        self._fleet = fleet
        self._policies = policies
        self._console = console
        self._keys = [key for session in sessions for key in session.keys]
        self._of = {name: it for it in sessions for name in it.config.environments()}
        self._interrupted = False

    async def run(self) -> list[RunOutcome]:
        """Play what is left; returns how each run ended."""
        finished = {key for session in self._sessions for key in session.store.finished_keys()}
        scheduler = self._scheduler(finished)
        lanes = Counter((key.environment, key.policy) for key in self._keys)
        before = Counter((k.environment, k.policy) for k in self._keys if k in finished)
        async with RunProgress(
            lanes, self._console, finished=before, live=lambda: scheduler.running
        ) as progress:
            dispatcher = Dispatcher(
                scheduler, self._fleet, self._policies, self._store_of, self._plan, progress.add
            )
            async with self._stop_on_signal(dispatcher):
                await dispatcher.run()
        return [it.outcome(scheduler, interrupted=self._interrupted) for it in self._sessions]

    def _scheduler(self, finished: set[EpisodeKey]) -> Scheduler:
        config = self._sessions[0].config
        per_environment = {
            name: max(1, int(described.limits.max_episodes * len(self._fleet)))
            for name, described in self._fleet.described.items()
        }
        failed = [session.store.failed_keys() for session in self._sessions]
        return Scheduler(
            self._keys,
            limits=Limits(total=config.concurrency, per_environment=per_environment),
            retries=RetryBudget(config.retry, seed=config.seed),
            finished=finished,
            failed={key: it for part in failed for key, it in part.items()},
            fresh_allowance=True,
        )

    def _store_of(self, environment: str) -> RunStore:
        return self._of[environment].store

    def _plan(self, assignment: Assignment) -> EpisodePlan:
        return self._of[assignment.key.environment].plan(assignment)

    @asynccontextmanager
    async def _stop_on_signal(self, dispatcher: Dispatcher) -> AsyncGenerator[None]:
        """The first Ctrl-C or SIGTERM stops the run in order; the second ends the process."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)

        def on_signal() -> None:
            if self._interrupted:
                os._exit(130)
            self._interrupted = True
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
    """The policies by the names that records give them; the run's own model is served first."""
    policies: dict[str, Policy] = {}
    for name in config.policies():
        spec = name
        if name == SERVED_POLICY:
            template = config.agent.sglang.chat_template
            served = await stack.enter_async_context(
                serving(config.model, config.serve, chat_template=template)
            )
            spec = f"{SERVED_POLICY}:{served.address}"
        elif name == EMBEDDED_POLICY:
            spec = f"{EMBEDDED_POLICY}:{config.model}"
        policies[name] = make_policy(spec, config.agent)
        await policies[name].start()
        stack.push_async_callback(policies[name].close)
    return policies


def connection_options(config: RunConfig) -> ConnectionOptions:
    """How to reach the servers; the token comes from AGENTGYM_TOKEN."""
    client = config.client
    return ConnectionOptions(
        connect_deadline=client.connect_deadline,
        security=ClientSecurity(
            ca=client.ca,
            cert=client.cert,
            key=client.key,
            token=os.environ.get("AGENTGYM_TOKEN", ""),
        ),
    )


async def _choose_tasks(config: RunConfig, fleet: Fleet) -> Tasks:
    wanted = action_format_of(config.action_format)
    tasks: dict[str, list[pb.TaskSummary]] = {}
    for name in config.environments():
        described = fleet.described[name]
        if wanted not in described.action_formats:
            spoken = [types_pb2.ActionFormat.Name(f)[14:].lower() for f in described.action_formats]
            raise UsageError(f"{name} does not speak {config.action_format}", valid=spoken)
        settings = config.settings_of(name)
        if settings.profile and settings.profile not in described.profiles:
            raise UsageError(
                f"{name} has no profile {settings.profile!r}", valid=described.profiles
            )
        split = config.split_of(name)
        splits = {split.name: split.size for split in described.splits}
        if split and split not in splits:
            raise UsageError(f"{name} has no split {split!r}", valid=splits)
        if split:
            listed = await fleet.list_items(name, split, 0)
        else:
            listed = await fleet.get_items(name, settings.items)
        # Items that were asked for one by one are all played.
        tasks[name] = _choose(listed, 0 if config.items else config.episodes)
    return tasks


def _choose(tasks: list[pb.TaskSummary], count: int) -> list[pb.TaskSummary]:
    """`count` tasks (0 = all) in their order, chosen by a hash of their ids.

    Splits are sorted by difficulty or cycle through levels: neither the first ones nor every k-th
    would be fair. More tasks contain fewer, so a larger run extends a smaller one.
    """
    if count == 0 or count >= len(tasks):
        return tasks
    ranks = {task.item_id: seeds.derive("choose-task", task.item_id) for task in tasks}
    last = sorted(ranks.values())[count - 1]
    return [task for task in tasks if ranks[task.item_id] <= last]


def _manifest(config: RunConfig, fleet: Fleet, policies: Mapping[str, Policy]) -> Manifest:
    return Manifest(
        run_id=uuid.uuid4().hex,
        created=utc_now(),
        environments=tuple(
            EnvironmentIdentity(name=name, version=described.version, digest=described.digest)
            for name, described in sorted(fleet.described.items())
            if name in config.environments()
        ),
        policy=config.policy,
        policies={name: it.identity() for name, it in policies.items()},
        run_seed=config.seed,
        sampling=asdict(config.agent.sampling),
        config=config.binding(),
    )
