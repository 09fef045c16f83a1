"""Plays what the scheduler hands out: a thin asyncio shell around pure decisions.

Every assignment is reported to the scheduler exactly once, and a record is durable before its key
counts as finished.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from agent_runtime.agent import EpisodePlan, failed_record, play
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import (
    AgentRuntimeError,
    ConnectionLost,
    EpisodeBroken,
    PolicyUnavailable,
    RecordInvalid,
)
from agent_runtime.live_record import LiveRecord
from agent_runtime.logs import bind_context, get_logger
from agent_runtime.policies.base import Completion, Policy
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.spending import Pricing, Spent
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import DuplicateEpisode, InvalidEpisode, StoreWriteFailed
from orchestrator.fleet import Fleet, Place
from orchestrator.records import EpisodeKey, fault_name
from orchestrator.retry import Decision, Failure, GiveUp
from orchestrator.run_limits import RunAccount
from orchestrator.scheduler import Assignment, Scheduler
from orchestrator.store import RunStore

__all__ = ["Dispatcher", "to_failure"]

log = get_logger(__name__)

_PAUSE_SECONDS = 1.0
"""Longest wait without looking at the scheduler again."""

_BURST = 128
"""Episodes that are begun before servers hear of them: thousands at once would leave servers idle
while they are planned, and the store while they are played."""

Planner = Callable[[Assignment], EpisodePlan]
Observer = Callable[[episode_pb2.Episode], None]
Show = Callable[[EpisodePlan], AbstractContextManager[LiveRecord]]


class Dispatcher:
    """Runs a scheduler's episodes on a fleet."""

    def __init__(
        self,
        scheduler: Scheduler,
        fleet: Fleet,
        policies: Mapping[str, Policy],
        find_store: Callable[[str], RunStore],
        planner: Planner,
        on_record: Observer,
        *,
        account: RunAccount,
        on_limit: Callable[[str], None],
        show: Show = lambda _plan: nullcontext(LiveRecord()),
    ) -> None:
        """Describe the work; `run` does it.

        Args:
            scheduler: Says which episode is next.
            fleet: Where environments are served.
            policies: Who plays, by the name that records give.
            find_store: Gives the store of an environment's records.
            planner: Turns an assignment into a plan.
            on_record: Sees every stored record.
            account: What may be spent, and what was.
            on_limit: Is told once, in words, that a limit was reached.
            show: Gives where an episode can be watched from its begin until its record is stored.
        """
        self.scheduler = scheduler
        self._fleet = fleet
        self._policies = policies
        self._find_store = find_store
        self._planner = planner
        self._on_record = on_record
        self._account = account
        self._on_limit = on_limit
        self._show = show
        self._digits = random.Random()
        """Seeded by the system, of which to ask anew for each episode is dear."""
        self._started = 0.0
        self._grace_ends: float | None = None
        """When live episodes are given up; None = no limit has been reached."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._episodes: set[RemoteEpisode] = set()
        """What is being played now."""
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None
        self._budget_exhausted = False

    @property
    def live(self) -> int:
        """Episodes that are being played now."""
        return self.scheduler.running

    @property
    def live_steps(self) -> int:
        """Steps of the episodes that are being played now."""
        return sum(max(episode.seq, 0) for episode in self._episodes)

    def wake(self) -> None:
        """Look at the scheduler now: keys were added."""
        self._changed.set()

    def stop(self) -> None:
        """Start nothing more and give up what is live; finished records stay."""
        self.scheduler.drain()
        for task in self._tasks:
            task.cancel()
        self._changed.set()

    def fail(self, error: BaseException) -> None:
        """Stop as `stop` does, and let `run` raise the error: nothing can be played any more."""
        self._failure = error
        self.stop()

    async def run(self) -> None:
        """Play until nothing is left to wait for, or a limit is reached.

        At a limit nothing is begun any more, and what is live has a time to end. While a policy's
        server is down no episode is begun, for any policy; those that are live
        wait for it.

        Raises:
            FleetError: No environment server is left.
            PolicyUnavailable: A policy's server was down for longer than requests wait.
            StoreWriteFailed: The disk or the database takes no more records.
            ExceptionGroup: What tasks of episodes raised: a defect of this program.
        """
        self._started = time.monotonic()
        with self._fleet.followed(self._follow_capacities, self.fail):
            async with asyncio.TaskGroup() as group:
                while not self.scheduler.done:
                    self._keep_limits()
                    if self._begin_some(group):
                        await self._wait()
                    else:
                        # Let those reach their servers before the next ones are begun.
                        await asyncio.sleep(0)
        if self._failure is not None:
            raise self._failure

    def _begin_some(self, group: asyncio.TaskGroup) -> bool:
        """Begin as many episodes as one message opens; whether no more may begin now."""
        for _ in range(_BURST):
            if self.outage() is not None:
                return True
            assignment = self.scheduler.start(time.monotonic())
            if assignment is None:
                return True
            task = group.create_task(self._play(assignment))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, assignment.key))
        return False

    def _follow_capacities(self) -> None:
        """Let as many episodes be live as the servers of now take."""
        capacities = {name: max(1, it) for name, it in self._fleet.capacities().items()}
        self.scheduler.limits = replace(self.scheduler.limits, per_environment=capacities)
        self._changed.set()

    def outage(self) -> Outage | None:
        """Return the first outage of a policy's server; None = all of them are up."""
        return next(filter(None, (policy.outage() for policy in self._policies.values())), None)

    def describe_outages(self) -> str:
        """Say which policies' servers are down; empty = none is."""
        outages = [policy.outage() for policy in self._policies.values()]
        return "; ".join(outage.describe() for outage in outages if outage is not None)

    def request_counts(self) -> dict[str, RequestCounts]:
        """Return how the requests of this session fared, of the policies that send some."""
        counts = {name: policy.request_counts() for name, policy in self._policies.items()}
        return {name: count for name, count in counts.items() if count is not None}

    def _keep_limits(self) -> None:
        now = time.monotonic()
        if self._grace_ends is not None:
            if now >= self._grace_ends:
                self._grace_ends = math.inf
                log.warning("live episodes given up", live=len(self._tasks))
                self.stop()
            return
        limit = self._account.reached(now - self._started)
        if limit and not self.scheduler.draining:
            self._grace_ends = now + self._account.limits.limit_grace
            log.warning("limit reached", limit=limit, live=len(self._tasks))
            self.scheduler.drain()
            self._on_limit(limit)

    def _ended(self, key: EpisodeKey, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() and self.scheduler.is_running(key):
            # Not by the task itself: of one that was cancelled before it began, nothing ever runs.
            self.scheduler.cancelled(key)
            self._changed.set()

    async def _wait(self) -> None:
        wakes = (self.scheduler.next_wake(), self._grace_ends)
        wake = min((wake for wake in wakes if wake is not None), default=math.inf)
        pause = max(0.0, wake - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pause, _PAUSE_SECONDS)):
                await self._changed.wait()
        self._changed.clear()

    async def _play(self, assignment: Assignment) -> None:
        plan = self._planner(assignment)
        # Everything that is logged below, in whatever module, says which episode it is about.
        with (
            bind_context(
                run_id=plan.run_id, episode_id=plan.episode_id, environment=plan.environment.name
            ),
            self._show(plan) as shown,
        ):
            await self._play_bound(assignment, plan, shown)

    async def _play_bound(
        self, assignment: Assignment, plan: EpisodePlan, shown: LiveRecord
    ) -> None:
        key = assignment.key
        try:
            record = await self._record(assignment, plan, shown)
            outage = self._policies[key.policy].outage()
            if outage is not None and outage.over and record.error.fault == types_pb2.FAULT_POLICY:
                # Every other episode would fail like this one; nothing of it is the episode's.
                self.scheduler.cancelled(key)
                self.fail(PolicyUnavailable(f"{outage.describe()}; what is finished is kept"))
                return
            record = await self._store(assignment, plan, record)
            shown.recorded = True
            self._account.recorded(key)
        except StoreWriteFailed as error:
            self.scheduler.cancelled(key)
            self.fail(error)
            return
        finally:
            self._changed.set()
        if record.HasField("error"):
            failure = to_failure(record.error)
            decision = self.scheduler.failed(key, failure, time.monotonic())
            self._log_failure(assignment, failure, decision)
        else:
            self.scheduler.succeeded(key)
        self._on_record(record)

    async def _store(
        self, assignment: Assignment, plan: EpisodePlan, record: episode_pb2.Episode
    ) -> episode_pb2.Episode:
        """Store a record, or one that says why it could not be; returns what was stored."""
        store = self._find_store(assignment.key.environment)
        try:
            await store.append(record)
        except DuplicateEpisode:
            raise
        except InvalidEpisode as error:
            log.exception("record refused")
            policy = self._policies[assignment.key.policy]
            record = failed_record(plan, policy, RecordInvalid(str(error)))
            await store.append(record)
        return record

    def _log_failure(self, assignment: Assignment, failure: Failure, decision: Decision) -> None:
        """Say why an attempt failed and what was decided about it."""
        key = assignment.key
        event = log.bind(
            item_id=key.item_id,
            sample=key.sample,
            policy=key.policy,
            attempt=assignment.attempt,
            fault=fault_name(failure.fault),
            reason=failure.reason,
        )
        if not isinstance(decision, GiveUp):
            event.info("episode will be retried", delay=round(decision.delay, 3))
            return
        event.info("episode given up", why=str(decision))
        if decision is GiveUp.BUDGET_EXHAUSTED and not self._budget_exhausted:
            self._budget_exhausted = True
            log.error("retry budget exhausted")

    async def _record(
        self, assignment: Assignment, plan: EpisodePlan, shown: LiveRecord
    ) -> episode_pb2.Episode:
        policy = self._policies[assignment.key.policy]
        environment = plan.environment.name
        try:
            place = await self._fleet.acquire(environment)
        except ConnectionLost as error:
            return failed_record(plan, policy, error)
        episode = self._remote_episode(plan, place)
        self._episodes.add(episode)
        try:
            on_reply = partial(self._spend, assignment.key)
            record = await play(plan, episode, policy, on_reply=on_reply, shown=shown)
        except AgentRuntimeError as error:
            record = failed_record(plan, policy, error)
        except Exception as error:  # boundary of an episode: it fails alone
            log.exception("episode broke")
            return failed_record(plan, policy, EpisodeBroken(repr(error)))
        finally:
            self._episodes.discard(episode)
            place.release()
        place.observe(record)
        return record

    def _spend(self, key: EpisodeKey, reply: Completion, spent: Spent) -> None:
        free = self._policies[key.policy].pricing is Pricing.FREE
        priced = free or reply.cost_usd is not None
        self._account.add(key, spent, priced=priced)
        if self._account.reached(time.monotonic() - self._started):
            self._changed.set()

    def _remote_episode(self, plan: EpisodePlan, place: Place) -> RemoteEpisode:
        # A killed orchestrator or a lost worker may have left this attempt live on the server: to
        # be reset under the same id would be to go on from there. So servers know it by the
        # record's id and some digits that nobody else has.
        return RemoteEpisode(
            place.connection,
            f"{plan.episode_id}.{self._digits.getrandbits(32):08x}",
            plan.reset(),
            deterministic=pb.CAPABILITY_DETERMINISTIC in plan.environment.capabilities,
            reroute=place.reroute,
        )


def to_failure(error: episode_pb2.EpisodeError) -> Failure:
    """Return a record's error as decisions about retries see it."""
    return Failure(
        fault=error.fault,
        reason=error.reason,
        retriable=error.retriable,
        retry_after=error.retry_after if error.HasField("retry_after") else None,
    )
