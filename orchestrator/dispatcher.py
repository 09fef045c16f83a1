"""Plays what the scheduler hands out: a thin asyncio shell around pure decisions.

Owns the tasks of live episodes. Invariant: every assignment is reported to the scheduler exactly
once, and a record is durable before its key counts as finished.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from agent_runtime.agent import EpisodePlan, failed_record, play
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import AgentRuntimeError, ConnectionLost
from agent_runtime.policies.base import Policy
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator.fleet import Fleet, Seat
from orchestrator.retry import Failure
from orchestrator.scheduler import Assignment, Scheduler
from orchestrator.store import RunStore

__all__ = ["Dispatcher"]

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
        store_of: Callable[[str], RunStore],
        planner: Planner,
        on_record: Observer,
    ) -> None:
        """`store_of` gives the store of an environment's records; `planner` turns an assignment
        into a plan; `on_record` sees every stored record.
        """
        self.scheduler = scheduler
        self._fleet = fleet
        self._policies = policies
        self._store_of = store_of
        self._planner = planner
        self._on_record = on_record
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def stop(self) -> None:
        """Start nothing more and give up what is live; finished records stay."""
        self.scheduler.drain()
        for task in self._tasks:
            task.cancel()
        self._changed.set()

    async def run(self) -> None:
        """Play until nothing is left to wait for; raises what an episode's task raised."""
        async with asyncio.TaskGroup() as group:
            while not self.scheduler.done:
                while (assignment := self.scheduler.start(time.monotonic())) is not None:
                    task = group.create_task(self._play(assignment))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                await self._wait()

    async def _wait(self) -> None:
        wake = self.scheduler.next_wake()
        pause = _PAUSE_SECONDS if wake is None else max(0.0, wake - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pause, _PAUSE_SECONDS)):
                await self._changed.wait()
        self._changed.clear()

    async def _play(self, assignment: Assignment) -> None:
        key = assignment.key
        try:
            record = await self._record(assignment)
            await self._store_of(key.environment).append(record)
        except asyncio.CancelledError:
            if not self.scheduler.draining:
                raise
            self.scheduler.cancelled(key)
            return
        finally:
            self._changed.set()
        if record.HasField("error"):
            self.scheduler.failed(key, _failure(record.error), time.monotonic())
        else:
            self.scheduler.succeeded(key)
        self._on_record(record)

    async def _record(self, assignment: Assignment) -> episode_pb2.Episode:
        plan = self._planner(assignment)
        policy = self._policies[assignment.key.policy]
        environment = plan.environment.name
        try:
            seat = self._fleet.take(environment)
        except ConnectionLost as error:
            return failed_record(plan, policy, error)
        try:
            return await play(plan, self._live(plan, seat), policy)
        except AgentRuntimeError as error:
            return failed_record(plan, policy, error)
        finally:
            self._fleet.release(seat)

    def _live(self, plan: EpisodePlan, seat: Seat) -> RemoteEpisode:
        name = plan.environment.name

        async def reroute(lost: Connection) -> Connection:
            return await self._fleet.reroute(name, lost)

        return RemoteEpisode(
            seat.connection,
            plan.episode_id,
            plan.reset(),
            deterministic=pb.CAPABILITY_DETERMINISTIC in plan.environment.capabilities,
            reroute=reroute,
        )


def _failure(error: episode_pb2.EpisodeError) -> Failure:
    return Failure(
        fault=error.fault,
        reason=error.reason,
        retriable=error.retriable,
        retry_after=error.retry_after if error.HasField("retry_after") else None,
    )
