"""Plays what the scheduler hands out: a thin asyncio shell around pure decisions.

Every assignment is reported to the scheduler exactly once, and a record is durable before its key
counts as finished.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from agent_runtime.agent import EpisodePlan, failed_record, play
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import (
    AgentRuntimeError,
    ConnectionLost,
    EpisodeBroken,
    PolicyUnavailable,
    RecordInvalid,
)
from agent_runtime.logs import bind_context, get_logger
from agent_runtime.policies.base import Policy
from agent_runtime.request_retry import Outage
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import DuplicateEpisode, InvalidEpisode, StoreWriteFailed
from orchestrator.fleet import Fleet, ServerHandle
from orchestrator.records import fault_name
from orchestrator.retry import Decision, Failure, GiveUp
from orchestrator.scheduler import Assignment, Scheduler
from orchestrator.store import RunStore

__all__ = ["Dispatcher"]

log = get_logger(__name__)

_PAUSE_SECONDS = 1.0
"""Longest wait without looking at the scheduler again."""

Planner = Callable[[Assignment], EpisodePlan]
Observer = Callable[[episode_pb2.Episode], None]


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
    ) -> None:
        """Describe the work; `run` does it.

        Args:
            scheduler: Says which episode is next.
            fleet: Where environments are served.
            policies: Who plays, by the name that records give.
            find_store: Gives the store of an environment's records.
            planner: Turns an assignment into a plan.
            on_record: Sees every stored record.
        """
        self.scheduler = scheduler
        self._fleet = fleet
        self._policies = policies
        self._find_store = find_store
        self._planner = planner
        self._on_record = on_record
        self._tasks: set[asyncio.Task[None]] = set()
        self._episodes: set[RemoteEpisode] = set()
        """What is being played now."""
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None
        self._budget_exhausted = False

    @property
    def live_steps(self) -> int:
        """Steps of the episodes that are being played now."""
        return sum(max(episode.seq, 0) for episode in self._episodes)

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
        """Play until nothing is left to wait for.

        While a policy's server is down no episode is begun, for any policy; those that are live
        wait for it.

        Raises:
            FleetError: No environment server is left.
            PolicyUnavailable: A policy's server was down for longer than requests wait.
            StoreWriteFailed: The disk or the database takes no more records.
            ExceptionGroup: What tasks of episodes raised: a defect of this program.
        """
        self._fleet.on_failure = self.fail
        if self._fleet.failure is not None:
            self.fail(self._fleet.failure)
        try:
            async with asyncio.TaskGroup() as group:
                while not self.scheduler.done:
                    while self.outage() is None:
                        assignment = self.scheduler.start(time.monotonic())
                        if assignment is None:
                            break
                        task = group.create_task(self._play(assignment))
                        self._tasks.add(task)
                        task.add_done_callback(self._tasks.discard)
                    await self._wait()
        finally:
            self._fleet.on_failure = None
        if self._failure is not None:
            raise self._failure

    def outage(self) -> Outage | None:
        """Return the first outage of a policy's server; None = all of them are up."""
        return next(filter(None, (policy.outage() for policy in self._policies.values())), None)

    async def _wait(self) -> None:
        wake = self.scheduler.next_wake()
        pause = _PAUSE_SECONDS if wake is None else max(0.0, wake - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pause, _PAUSE_SECONDS)):
                await self._changed.wait()
        self._changed.clear()

    async def _play(self, assignment: Assignment) -> None:
        plan = self._planner(assignment)
        # Everything that is logged below, in whatever module, says which episode it is about.
        with bind_context(
            run_id=plan.run_id, episode_id=plan.episode_id, environment=plan.environment.name
        ):
            await self._play_bound(assignment, plan)

    async def _play_bound(self, assignment: Assignment, plan: EpisodePlan) -> None:
        key = assignment.key
        try:
            record = await self._record(assignment, plan)
            outage = self._policies[key.policy].outage()
            if outage is not None and outage.over and record.error.fault == types_pb2.FAULT_POLICY:
                # Every other episode would fail like this one; nothing of it is the episode's.
                self.scheduler.cancelled(key)
                self.fail(PolicyUnavailable(f"{outage.describe()}; what is finished is kept"))
                return
            record = await self._store(assignment, plan, record)
        except StoreWriteFailed as error:
            self.scheduler.cancelled(key)
            self.fail(error)
            return
        except asyncio.CancelledError:
            if not self.scheduler.draining:
                raise
            self.scheduler.cancelled(key)
            return
        finally:
            self._changed.set()
        if record.HasField("error"):
            failure = _to_failure(record.error)
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

    async def _record(self, assignment: Assignment, plan: EpisodePlan) -> episode_pb2.Episode:
        policy = self._policies[assignment.key.policy]
        environment = plan.environment.name
        try:
            handle = await self._fleet.acquire(environment)
        except ConnectionLost as error:
            return failed_record(plan, policy, error)
        episode = self._remote_episode(plan, handle)
        self._episodes.add(episode)
        try:
            return await play(plan, episode, policy)
        except AgentRuntimeError as error:
            return failed_record(plan, policy, error)
        except Exception as error:  # boundary of an episode: it fails alone
            log.exception("episode broke")
            return failed_record(plan, policy, EpisodeBroken(repr(error)))
        finally:
            self._episodes.discard(episode)
            self._fleet.release(handle)

    def _remote_episode(self, plan: EpisodePlan, handle: ServerHandle) -> RemoteEpisode:
        name = plan.environment.name

        async def reroute(lost: Connection) -> Connection:
            return await self._fleet.reroute(name, lost)

        return RemoteEpisode(
            handle.connection,
            plan.episode_id,
            plan.reset(),
            deterministic=pb.CAPABILITY_DETERMINISTIC in plan.environment.capabilities,
            reroute=reroute,
        )


def _to_failure(error: episode_pb2.EpisodeError) -> Failure:
    return Failure(
        fault=error.fault,
        reason=error.reason,
        retriable=error.retriable,
        retry_after=error.retry_after if error.HasField("retry_after") else None,
    )
