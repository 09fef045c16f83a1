"""A rollout worker: an orchestrator's shell over its share of a run, recorded in its own shard.

The driver asks it again and again (`exchange`): what has ended is told, what is granted is played.
It decides nothing about retries: every attempt that ends is told to the driver, whose scheduler
says what follows. When the driver is not heard of for the length of a lease the worker ends its
process, so that what it holds can be another's.
"""

from __future__ import annotations

import asyncio
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from dataclasses import replace

from agent_runtime.channel import TOKEN_VARIABLE
from agent_runtime.errors import AgentRuntimeError, PolicyMisconfigured, PolicyUnavailable
from agent_runtime.logs import bind_context, get_logger
from agent_runtime.policies import make_policy
from agent_runtime.policies.base import Policy, TrainablePolicy
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.private_files import make_private_folder
from agent_runtime.spending import Spent
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.active_runs import ActiveRun
from orchestrator.client import connection_options
from orchestrator.discovery import ToldSource
from orchestrator.dispatcher import Dispatcher, to_failure
from orchestrator.errors import (
    OrchestratorError,
    RunFolderError,
    StoreWriteFailed,
    UsageError,
)
from orchestrator.fleet import Fleet
from orchestrator.manifest import begin_session, differences
from orchestrator.progress import EpisodeCounts
from orchestrator.ray_cluster.installation import installed_versions
from orchestrator.ray_cluster.messages import (
    Introduction,
    Orders,
    Outcome,
    Planner,
    Problem,
    Report,
    RunPart,
    Spending,
    Welcome,
)
from orchestrator.records import EpisodeKey, encode, episode_key
from orchestrator.retry import FailedAttempt, Failure, RetryBudget, RetryPolicy
from orchestrator.run_folder import inspect_folder, shard_folder
from orchestrator.run_limits import RunAccount, RunLimits
from orchestrator.run_logs import RunLogs, open_run_logs
from orchestrator.scheduler import Assignment, Limits, Scheduler
from orchestrator.store import RunStore
from orchestrator.task_selection import Selection

__all__ = ["LeaseWatch", "RolloutWorker", "WorkerProcess", "to_outcome"]

log = get_logger(__name__)

_LEASE_ENDED = 75
"""Exit status of a worker that ends itself; EX_TEMPFAIL of sysexits.h."""


def _end_process() -> None:
    os._exit(_LEASE_ENDED)


class LeaseWatch:
    """Ends the process when a lease has run out, also while its event loop is held up."""

    def __init__(self, seconds: float, on_end: Callable[[], None] = _end_process) -> None:
        self._seconds = seconds
        self._on_end = on_end
        self._ends = time.monotonic() + seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lease", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Begin the lease anew."""
        self._ends = time.monotonic() + self._seconds

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while (left := self._ends - time.monotonic()) > 0:
            if self._closed.wait(left):
                return
        self._on_end()


class _ReportedAccount(RunAccount):
    """Keeps what replies cost until it is reported; the limits are the driver's."""

    def __init__(self) -> None:
        super().__init__(RunLimits())
        self._unreported: dict[EpisodeKey, tuple[Spent, bool]] = {}

    def add(self, key: EpisodeKey, spent: Spent, *, priced: bool = True) -> None:
        before, known = self._unreported.get(key, (Spent(), True))
        self._unreported[key] = (before + spent, known and priced)

    def take(self) -> tuple[Spending, ...]:
        """Return what was not reported yet."""
        taken = self._unreported
        self._unreported = {}
        return tuple(Spending(key, spent, priced) for key, (spent, priced) in taken.items())


class RolloutWorker:
    """Plays what it is granted. `start` it, ask it by `exchange`, end it by `close`."""

    def __init__(
        self, welcome: Welcome, *, on_lease_end: Callable[[], None] = _end_process
    ) -> None:
        self._welcome = welcome
        self._on_lease_end = on_lease_end
        self._source = ToldSource(welcome.members or ())
        self._scheduler = Scheduler(
            (),
            limits=Limits(total=1),
            # Whether an attempt that failed is made again is the driver's to say.
            retries=RetryBudget(RetryPolicy(max_attempts=1)),
            endless=True,
        )
        self._account = _ReportedAccount()
        self._policies: dict[str, Policy] = {}
        self._outcomes: list[Outcome] = []
        self._held = 0
        """Episodes that were granted and are not on record."""
        self._urgent = asyncio.Event()
        """Nothing is held, or can be played any more: no use in waiting for further news."""
        self._problem: Problem | None = None
        self._news = asyncio.Event()
        """Something is to be reported at once."""
        self._hurried = False
        """The driver has something to tell: no use in waiting for news of ours."""
        self._tells_records = any(run.tells_records for run in welcome.runs)
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._dispatcher: Dispatcher | None = None
        self._watch: LeaseWatch | None = None

    async def start(self) -> Introduction | Problem:
        """Connect, begin the shard, and be ready for orders; or say why that cannot be."""
        ready: asyncio.Future[Introduction] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready), name="rollout worker")
        try:
            introduction = await ready
        except (OrchestratorError, AgentRuntimeError) as error:
            return _problem(error)
        self._watch = LeaseWatch(self._welcome.lease, self._on_lease_end)
        return introduction

    async def exchange(self, orders: Orders) -> Report:
        """Take orders; report what has ended meanwhile, once there is something or in time."""
        assert self._dispatcher is not None
        if orders.members is not None:
            self._source.members = orders.members
        self._scheduler.limits = replace(self._scheduler.limits, total=orders.slots)
        self._scheduler.add(
            (assignment.key for assignment in orders.grants),
            failed={it.key: _before(it) for it in orders.grants if it.attempt > 1},
        )
        self._held += len(orders.grants)
        if orders.weights:
            self._follow(orders.weights)
        self._dispatcher.wake()
        await self._wait(orders)
        report = self._report()
        if self._watch is not None:
            self._watch.renew()
        return report

    async def hurry(self) -> None:
        """Answer the question of now, or the next one, without waiting for news."""
        self._hurried = True
        self._urgent.set()
        self._news.set()

    async def close(self) -> Report:
        """Give up what is live, make durable what has ended, and report it for the last time."""
        self._closing.set()
        self._urgent.set()
        if self._dispatcher is not None:
            self._dispatcher.stop()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._watch is not None:
            self._watch.close()
        return self._report()

    async def _wait(self, orders: Orders) -> None:
        end = time.monotonic() + orders.patience
        with suppress(TimeoutError):
            async with asyncio.timeout(orders.rest):
                await self._closing.wait()
        self._urgent.clear()
        if self._held and not self._is_urgent:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, orders.pause - orders.rest)):
                    await self._urgent.wait()
        self._news.clear()
        if not (self._outcomes or self._is_urgent):
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, end - time.monotonic())):
                    await self._news.wait()
        self._hurried = False

    @property
    def _is_urgent(self) -> bool:
        """Whether the driver waits for this worker, or for nothing of it any more."""
        return self._hurried or self._problem is not None or self._closing.is_set()

    def _follow(self, version: str) -> None:
        for policy in self._policies.values():
            if isinstance(policy, TrainablePolicy):
                policy.follow(version)

    def _report(self) -> Report:
        outcomes, self._outcomes = self._outcomes, []
        playing = self._dispatcher
        return Report(
            outcomes=tuple(outcomes),
            spending=self._account.take(),
            live=playing.live if playing else 0,
            live_steps=playing.live_steps if playing else 0,
            outage=playing.describe_outages() if playing else "",
            requests=playing.request_counts() if playing else {},
            problem=self._problem,
        )

    # ------------------------------------------------------------------ the one task

    async def _live(self, ready: asyncio.Future[Introduction]) -> None:
        """Open everything, play until `close`, and release it in order."""
        try:
            async with AsyncExitStack() as stack:
                introduction = await self._open(stack)
                ready.set_result(introduction)
                await self._play()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
                return
            log.exception("worker broke")
            self._fail(_problem(error))

    async def _play(self) -> None:
        assert self._dispatcher is not None
        try:
            await self._dispatcher.run()
        except (OrchestratorError, PolicyUnavailable) as error:
            self._fail(_problem(error))
        await self._closing.wait()

    def _fail(self, problem: Problem) -> None:
        self._problem = self._problem or problem
        self._news.set()
        self._urgent.set()

    async def _open(self, stack: AsyncExitStack) -> Introduction:
        welcome = self._welcome
        if welcome.token:
            os.environ[TOKEN_VARIABLE] = welcome.token
        first = welcome.runs[0]
        logs = [stack.enter_context(self._open_logs(it)) for it in welcome.runs]
        if len(welcome.runs) == 1:
            stack.enter_context(bind_context(run_id=first.manifest.run_id))
        options = connection_options(first.config.client)
        if welcome.token:
            # Made for this run, and known to whoever speaks within the cluster.
            options = replace(options, security=replace(options.security, insecure=True))
        names = [name for it in welcome.runs for name in it.tasks]
        fleet = await stack.enter_async_context(
            Fleet(
                names,
                first.config.fleet,
                options,
                source=None if welcome.members is None else self._source,
                node=welcome.node,
            )
        )
        await self._start_policies(stack)
        session = begin_session(first.config.runtime_fields())
        stores: dict[str, RunStore] = {}
        planners: dict[str, Planner] = {}
        for part, folder in zip(welcome.runs, logs, strict=True):
            self._check_identity(part, fleet)
            store = stack.enter_context(
                RunStore.open_shard(part.folder, self._welcome.name, session)
            )
            folder.settle()
            planner = part.planner or self._planner(part, fleet, store)
            stores |= dict.fromkeys(part.tasks, store)
            planners |= dict.fromkeys(part.tasks, planner)
        self._dispatcher = self._make_dispatcher(stores, planners, fleet)
        versions = await asyncio.to_thread(installed_versions, session.code_hash or "")
        return Introduction(pid=os.getpid(), session=session, versions=versions)

    def _open_logs(self, part: RunPart) -> AbstractContextManager[RunLogs]:
        """Begin the worker's log in its shard; raises UsageError where the run is not seen here."""
        try:
            run_id = inspect_folder(part.folder).run_id
        except RunFolderError as error:
            raise UsageError(
                f"{platform.node()} does not see the run ({error}): its folder has to be on a file "
                "system that every node has under the same path"
            ) from error
        shard = shard_folder(part.folder, self._welcome.name)
        make_private_folder(shard.parent)
        return open_run_logs(shard, run_id, resume=False)

    async def _start_policies(self, stack: AsyncExitStack) -> None:
        config = _share(self._welcome.runs[0].config.agent, self._welcome.workers)
        for name, spec in self._welcome.policies.items():
            policy = self._policies[name] = make_policy(spec, config)
            await policy.start()
            stack.push_async_callback(policy.close)

    def _check_identity(self, part: RunPart, fleet: Fleet) -> None:
        """Raise UsageError where servers or policies are others here than the driver knows."""
        here = replace(
            part.manifest,
            environments=tuple(
                replace(known, version=said.version, digest=said.digest)
                for known in part.manifest.environments
                for said in (fleet.described[known.name],)
            ),
            # A training names none: their weights change.
            policies=part.manifest.policies
            and {name: self._policies[name].identity() for name in part.manifest.policies},
        )
        if different := differences(part.manifest, here):
            listed = "; ".join(map(str, different))
            raise UsageError(f"{platform.node()} would play something else: {listed}")

    def _planner(self, part: RunPart, fleet: Fleet, store: RunStore) -> Planner:
        selection = Selection(part.tasks, {})
        return ActiveRun(part.config, fleet, self._policies, store, selection).plan

    def _make_dispatcher(
        self, stores: Mapping[str, RunStore], planners: Mapping[str, Planner], fleet: Fleet
    ) -> Dispatcher:
        return Dispatcher(
            self._scheduler,
            fleet,
            self._policies,
            stores.__getitem__,
            lambda assignment: planners[assignment.key.environment](assignment),
            self._note,
            account=self._account,
            on_limit=lambda _limit: None,
        )

    def _note(self, record: episode_pb2.Episode) -> None:
        """Keep for the next report that an episode is on record."""
        self._outcomes.append(to_outcome(record, whole=self._tells_records))
        self._held -= 1
        self._news.set()
        if not self._held:
            self._urgent.set()


class WorkerProcess:
    """The process of a worker: of one after another, where a run follows a run."""

    def __init__(self, *, on_lease_end: Callable[[], None] = _end_process) -> None:
        self._on_lease_end = on_lease_end
        self.worker: RolloutWorker | None = None
        """The present one, or the last; None = none yet."""

    async def start(self, welcome: Welcome) -> Introduction | Problem:
        """Have a worker, the one before having been closed; answers as it does."""
        self.worker = RolloutWorker(welcome, on_lease_end=self._on_lease_end)
        return await self.worker.start()

    async def exchange(self, orders: Orders) -> Report:
        """Take orders, as the worker does."""
        assert self.worker is not None, "start comes first"
        return await self.worker.exchange(orders)

    async def hurry(self) -> None:
        """Answer at once, as the worker does."""
        assert self.worker is not None, "start comes first"
        await self.worker.hurry()

    async def close(self) -> Report:
        """End the worker in order; the process is there for another."""
        assert self.worker is not None, "start comes first"
        return await self.worker.close()


def to_outcome(record: episode_pb2.Episode, *, whole: bool = False) -> Outcome:
    """Return what a driver has to know of a stored record, or the record with it."""
    failure: Failure | None = to_failure(record.error) if record.HasField("error") else None
    assignment = Assignment(episode_key(record), record.attempt)
    kept = encode(record) if whole else b""
    return Outcome(assignment, EpisodeCounts.of(record), failure, kept)


def _before(assignment: Assignment) -> FailedAttempt:
    """Return the attempt before this one: all that a scheduler wants of it is its number."""
    return FailedAttempt(assignment.attempt - 1, Failure(fault=types_pb2.FAULT_UNSPECIFIED))


def _share(config: PolicyConfig, workers: int) -> PolicyConfig:
    """Return the settings of one of several workers that share what may be sent at once."""

    def part(whole: int | None) -> int | None:
        return whole if whole is None else max(1, whole // workers)

    return replace(
        config,
        max_requests=part(config.max_requests),
        requests_per_minute=part(config.requests_per_minute),
        tokens_per_minute=part(config.tokens_per_minute),
    )


def _problem(error: Exception) -> Problem:
    match error:
        case UsageError() | PolicyMisconfigured():
            return Problem("usage", str(error))
        case PolicyUnavailable():
            return Problem("policy", str(error))
        case StoreWriteFailed():
            return Problem("store", str(error))
        case OrchestratorError() | AgentRuntimeError():
            return Problem("fleet", str(error))
        case _:
            return Problem("defect", repr(error))
