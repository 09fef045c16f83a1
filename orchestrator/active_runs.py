"""Runs that are being played: the plans of their episodes, and one pool that plays them all.

`ActiveRun` is one run with its open store; `ActiveRuns` plays the episodes of one or more of them
at once, shows progress, stops in order on a signal and says how each run ended.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from agent_runtime.agent import EpisodePlan
from agent_runtime.errors import Trouble
from agent_runtime.live_record import LiveRecord
from agent_runtime.logs import get_logger
from agent_runtime.policies.base import Policy
from agent_runtime.request_retry import RequestCounts
from agent_runtime.scores import perfect_score
from agent_runtime.spending import Spent
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.broadcast import Broadcast
from orchestrator.config import RunConfig, parse_action_format
from orchestrator.dispatcher import Dispatcher
from orchestrator.episode_plans import EnvironmentPlay, plan_episode
from orchestrator.fleet import Fleet
from orchestrator.progress import RunProgress
from orchestrator.records import EpisodeKey
from orchestrator.retry import RetryBudget
from orchestrator.run_limits import RunAccount, recorded_spending
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.scheduler import Assignment, Limits, Scheduler
from orchestrator.store import RunStore
from orchestrator.task_selection import Selection

__all__ = ["ActiveRun", "ActiveRuns", "MakePlayer", "Player", "RunOutcome", "Work"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended."""

    config: RunConfig
    """What was played, resolved."""
    folder: Path
    finished: int
    planned: int
    given_up: Mapping[str, int]
    """Episodes that were not played again, by why: names of `orchestrator.retry.GiveUp`."""
    interrupted: bool
    described: Mapping[str, pb.GetEnvironmentResponse]
    """What the servers said of each environment."""
    requests: Mapping[str, Mapping[str, Any]]
    """How the session's requests to model servers fared, by policy."""
    gaps: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the run's suite has and was not played, by environment: why, and what to do."""
    limit: str = ""
    """The limit of the run that ended it, in words; empty = none did."""

    @property
    def failed(self) -> int:
        """Episodes that were given up."""
        return sum(self.given_up.values())

    @property
    def complete(self) -> bool:
        """Every planned episode has a finished record, and its whole suite was planned."""
        return self.finished == self.planned and not self.gaps


class ActiveRun:
    """A run that is being played: its store, its keys and the plans of its episodes."""

    def __init__(
        self,
        config: RunConfig,
        fleet: Fleet,
        policies: Mapping[str, Policy],
        store: RunStore,
        selection: Selection,
    ) -> None:
        self.config = config
        self.store = store
        self.tasks = selection.tasks
        self.broadcast = Broadcast(store.folder)
        self._fleet = fleet
        self._environments = {
            name: EnvironmentPlay.from_settings(
                fleet.described[name],
                config.environment_settings(name),
                split=config.environment_split(name),
                categories={task.item_id: task.category for task in listed},
                action_format=parse_action_format(config.action_format),
            )
            for name, listed in selection.tasks.items()
        }
        self.run_plan = RunPlan(
            items={
                name: tuple(task.item_id for task in listed)
                for name, listed in selection.tasks.items()
            },
            samples=config.samples or 1,
            policies=tuple(policies),
            environment_samples={
                name: config.environment_samples(name) for name in selection.tasks
            },
            perfect_scores={name: perfect_score(fleet.described[name]) for name in selection.tasks},
            gaps=selection.gaps,
        )
        self.keys = self.run_plan.keys()

    def plan(self, assignment: Assignment) -> EpisodePlan:
        """Return what is to be played for an assignment of this run."""
        return plan_episode(
            assignment,
            self._environments[assignment.key.environment],
            run_id=self.store.manifest.run_id,
            run_seed=self.config.seed,
            limits=self.config.per_episode,
        )

    def recorded_spending(self) -> Spent:
        """Return what the attempts cost that are on record, superseded ones included."""
        summaries = (self.store.summaries(superseded=again) for again in (False, True))
        return recorded_spending(itertools.chain.from_iterable(summaries))

    def log_start(self, finished: Collection[EpisodeKey]) -> None:
        """Say in the log what is going to be played."""
        manifest = self.store.manifest
        log.info(
            "run started",
            run_id=manifest.run_id,
            folder=str(self.store.folder),
            session=len(manifest.sessions),
            environments=list(self.run_plan.items),
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
            limit=outcome.limit,
        )

    def outcome(
        self,
        scheduler: Scheduler,
        requests: Mapping[str, Mapping[str, Any]],
        *,
        interrupted: bool,
        limit: str,
    ) -> RunOutcome:
        """Return how this run ended."""
        keys = frozenset(self.keys)
        why = Counter(str(up.why) for key, up in scheduler.failed_keys.items() if key in keys)
        return RunOutcome(
            self.config,
            self.store.folder,
            sum(key in keys for key in self.store.finished_keys()),
            len(self.keys),
            dict(why),
            interrupted,
            {name: self._fleet.described[name] for name in self.run_plan.items},
            requests,
            self.run_plan.gaps,
            limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be played, and who is told of it."""

    scheduler: Scheduler
    account: RunAccount
    progress: RunProgress
    on_limit: Callable[[str], None]
    """Is told once, in words, that a limit was reached."""


class Player(Protocol):
    """Has episodes played: `Dispatcher` in this process, others elsewhere."""

    @property
    def live(self) -> int:
        """Episodes that are being played now."""
        ...

    @property
    def live_steps(self) -> int:
        """Their steps."""
        ...

    def describe_outages(self) -> str:
        """Say what holds the policies up; empty = nothing."""
        ...

    def request_counts(self) -> Mapping[str, RequestCounts]:
        """Return how the requests of this session fared, by policy."""
        ...

    async def run(self) -> None:
        """Play until nothing is left to wait for, or a limit is reached."""
        ...

    def stop(self) -> None:
        """Start nothing more and give up what is live."""
        ...


MakePlayer = Callable[[Work], Player]


class ActiveRuns:
    """One or more runs being played, their episodes in one pool."""

    def __init__(
        self,
        runs: Sequence[ActiveRun],
        fleet: Fleet,
        policies: Mapping[str, Policy],
        console: Console,
        make_player: MakePlayer | None = None,
    ) -> None:
        """Begin to play runs; by `make_player`, or else in this process."""
        self._runs = runs
        self._make_player = make_player or self._make_dispatcher
        self._player: Player | None = None
        self._fleet = fleet
        self._policies = policies
        self._console = console
        self._keys = [key for run in runs for key in run.keys]
        self._run_by_environment = {name: run for run in runs for name in run.config.environments}
        self._interrupted = False
        self._limit = ""
        """The limit that was reached, in words."""

    async def play(self) -> list[RunOutcome]:
        """Play what is left; returns how each run ended."""
        finished = {key for run in self._runs for key in run.store.finished_keys()}
        scheduler = self._scheduler(finished)
        unrecorded = [run.store.unrecorded_spending() for run in self._runs]
        account = self._account(unrecorded)
        totals = Counter((key.environment, key.policy) for key in self._keys)
        before = Counter((k.environment, k.policy) for k in self._keys if k in finished)
        for run in self._runs:
            run.store.begin_playing(run.run_plan)
            run.log_start(finished)
        async with RunProgress(
            totals,
            self._console,
            finished=before,
            live=lambda: self._player.live if self._player else 0,
            notice=lambda: self._player.describe_outages() if self._player else "",
            status=self._status,
        ) as progress:
            self._fleet.on_event = progress.tell
            player = self._player = self._make_player(
                Work(
                    scheduler=scheduler,
                    account=account,
                    progress=progress,
                    on_limit=self._tell_limit,
                )
            )
            progress.follow(lambda: player.live_steps)
            try:
                async with self._broadcasts(), self._stop_on_signal(player):
                    await player.run()
            finally:
                self._fleet.on_event = None
        requests = self._requests(player)
        outcomes = [
            run.outcome(scheduler, requests, interrupted=self._interrupted, limit=self._limit)
            for run in self._runs
        ]
        for run, outcome, before in zip(self._runs, outcomes, unrecorded, strict=True):
            end = SessionEnd(
                interrupted=outcome.interrupted, given_up=outcome.given_up, limit=outcome.limit
            )
            lost = account.unrecorded(run.run_plan.items)
            run.store.end_playing(end, unrecorded=before + lost)
            run.log_end(outcome)
        return outcomes

    def _account(self, unrecorded: Sequence[Spent]) -> RunAccount:
        recorded = [run.recorded_spending() for run in self._runs]
        return RunAccount(
            self._runs[0].config.limits,
            recorded=sum(recorded, start=Spent()),
            unrecorded=sum(unrecorded, start=Spent()),
        )

    def _make_dispatcher(self, work: Work) -> Dispatcher:
        return Dispatcher(
            work.scheduler,
            self._fleet,
            self._policies,
            self._find_store,
            self._plan,
            work.progress.add,
            account=work.account,
            on_limit=work.on_limit,
            show=self._show,
        )

    def _tell_limit(self, limit: str) -> None:
        self._limit = limit
        live = self._player.live if self._player else 0
        grace = self._runs[0].config.limits.limit_grace
        text = f"stopped by {limit}"
        if live:
            text += f"; {live} live episodes have {grace:g} s to end"
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _status(self) -> Iterator[str]:
        """Say what is not as it should be, and how many requests model servers get at once."""
        if lost := self._fleet.lost:
            yield f"{lost}/{len(self._fleet)} servers lost"
        counts = self._player.request_counts().values() if self._player else ()
        if counts:
            yield f"limit {'+'.join(f'{count.limit:,}' for count in counts)}"
        resent = sum((count.resent for count in counts), Counter[str]())
        if resent:
            yield f"{resent.total():,} resent ({resent[Trouble.REFUSED]:,} refused)"
        if cached := sum(count.from_cache for count in counts):
            yield f"{cached:,} from the cache"

    def _requests(self, player: Player) -> dict[str, dict[str, Any]]:
        """Return how the requests of this session fared; say so where not all went once."""
        fared: dict[str, dict[str, Any]] = {}
        for name, counts in player.request_counts().items():
            fared[name] = counts.as_data()
            log.info("requests", policy=name, **fared[name])
            if counts.resent or counts.given_up or counts.from_cache:
                text = f"{name}: {counts.describe()}"
                self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        return fared

    def _scheduler(self, finished: set[EpisodeKey]) -> Scheduler:
        config = self._runs[0].config
        failed = [run.store.failed_keys() for run in self._runs]
        return Scheduler(
            self._keys,
            limits=Limits(total=config.concurrency),
            retries=RetryBudget(config.retry, seed=config.seed),
            finished=finished,
            failed={key: attempt for keys in failed for key, attempt in keys.items()},
        )

    def _find_store(self, environment: str) -> RunStore:
        return self._run_by_environment[environment].store

    def _plan(self, assignment: Assignment) -> EpisodePlan:
        return self._run_by_environment[assignment.key.environment].plan(assignment)

    def _show(self, plan: EpisodePlan) -> AbstractContextManager[LiveRecord]:
        run = self._run_by_environment[plan.environment.name]
        return run.broadcast.episode(plan.episode_id)

    @asynccontextmanager
    async def _broadcasts(self) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for run in self._runs:
                await stack.enter_async_context(run.broadcast.open())
            yield

    @asynccontextmanager
    async def _stop_on_signal(self, player: Player) -> AsyncGenerator[None]:
        """Let the first Ctrl-C or SIGTERM stop the run in order, the second end the process."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)

        def on_signal() -> None:
            if self._interrupted:
                os._exit(130)
            self._interrupted = True
            log.warning("run interrupted")
            self._console.print("stopping; finished episodes are kept", highlight=False)
            player.stop()

        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
