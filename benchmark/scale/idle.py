"""A rollout worker that plays nothing: each of its episodes ends after some seconds."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque

from agent_runtime.spending import Spent
from orchestrator.manifest import Session
from orchestrator.progress import EpisodeCounts
from orchestrator.ray_cluster.messages import (
    Introduction,
    Orders,
    Outcome,
    Report,
    Spending,
    Welcome,
)
from orchestrator.scheduler import Assignment

__all__ = ["IdleWorker"]


class IdleWorker:
    """Answers a driver as `orchestrator.ray_cluster.worker.WorkerProcess` does."""

    def __init__(self, seconds: float, session: Session) -> None:
        """Describe it by how long an episode is live, and by the driver's own session."""
        self._seconds = seconds
        self._session = session
        self._granted: deque[Assignment] = deque()
        self._live: deque[tuple[float, Assignment]] = deque()
        """When they end, and what is played; in that order."""
        self._outcomes: list[Outcome] = []

    async def start(self, _welcome: Welcome) -> Introduction:
        """Say that it is ready."""
        return Introduction(pid=os.getpid(), session=self._session)

    async def exchange(self, orders: Orders) -> Report:
        """Take what is granted, tell what has ended."""
        self._granted.extend(orders.grants)
        end = time.monotonic() + orders.patience
        self._go_on(orders.slots)
        await asyncio.sleep(orders.rest)
        pause_ends = end - orders.patience + orders.pause
        while self._live and (now := time.monotonic()) < pause_ends:
            await asyncio.sleep(max(0.01, min(self._live[0][0], pause_ends) - now))
            self._go_on(orders.slots)
        self._go_on(orders.slots)
        while not self._outcomes and (now := time.monotonic()) < end:
            first = self._live[0][0] if self._live else end
            await asyncio.sleep(max(0.001, min(first, end) - now))
            self._go_on(orders.slots)
        outcomes, self._outcomes = self._outcomes, []
        spending = tuple(Spending(it.assignment.key, Spent(), True) for it in outcomes)
        return Report(outcomes=tuple(outcomes), spending=spending, live=len(self._live))

    async def close(self) -> Report:
        """End; what is live is given up."""
        return Report()

    def _go_on(self, slots: int) -> None:
        now = time.monotonic()
        while self._live and self._live[0][0] <= now:
            self._outcomes.append(_outcome(self._live.popleft()[1]))
        while self._granted and len(self._live) < slots:
            self._live.append((now + self._seconds, self._granted.popleft()))


def _outcome(assignment: Assignment) -> Outcome:
    key = assignment.key
    return Outcome(assignment, EpisodeCounts(key.environment, key.policy, 8, 0, None, None), None)
