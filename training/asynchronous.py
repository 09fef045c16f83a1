"""GRPO without a barrier: a step learns from the groups that have ended, while others are played.

`GroupFeed` stands where a run with a barrier plays a step and waits for all of its episodes. After
a kill the learner goes back to its last saved state, and learns again from what the ledger says
that each later step had taken, before anything is played: the weights that episodes were sampled
by come back as they were, so versions never go back and nothing is learned from twice.

Sources: how many groups are under way, and old probabilities apart from those that sampled,
https://arxiv.org/abs/2505.24298 (AReaL).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from agentgym.episode.v1 import episode_pb2
from orchestrator.store import RunReader
from training.errors import CheckpointDamaged
from training.rollouts.dynamic_sampling import SampledGroups
from training.rollouts.groups import GroupOrder, TakenGroups
from training.rollouts.on_policy import Rollouts
from training.rollouts.stream import (
    LEDGER_FILE,
    STREAM_FOLDER,
    RolloutStream,
    StreamSettings,
    read_groups,
)
from training.trainer.distributed import DistributedContext

__all__ = ["GroupFeed"]


class GroupFeed:
    """Gives every process the episodes of each step; use it as a context manager.

    For each step every process calls `next` and, when it has learned and the policy has the new
    weights, `advance`.
    """

    def __init__(
        self,
        folder: Path,
        order: GroupOrder,
        settings: StreamSettings,
        rollouts: Rollouts | None,
        dist: DistributedContext,
    ) -> None:
        """Read the ledger.

        Args:
            folder: Of the rollouts.
            order: Of the groups.
            settings: When they begin, and how they are played.
            rollouts: Of the main process, which plays; None in others.
            dist: The processes.

        Raises:
            CheckpointDamaged: The ledger is damaged.
        """
        self._folder = folder
        self._order = order
        self._settings = settings
        self._rollouts = rollouts
        self._dist = dist
        folder.mkdir(parents=True, exist_ok=True)
        self._ledger = TakenGroups(folder / LEDGER_FILE) if dist.is_main else None
        self._recorded = dist.broadcast(len(self._ledger.steps) if self._ledger else 0)
        self._stream: RolloutStream | None = None
        self._stack = AsyncExitStack()
        self._idle = 0.0
        self._learned = time.monotonic()
        self._dropped = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def replays(self, step: int) -> bool:
        """Tell whether an earlier process took the groups of a step: nothing is played for it."""
        return step < self._recorded

    async def next(self, step: int) -> SampledGroups:
        """Return what a step reads, by its groups' numbers; the same on every process.

        Raises:
            CheckpointDamaged: The ledger does not reach the saved state.
            OrchestratorError: As `RolloutStream.take`.
            PolicyUnavailable: As `RolloutStream.take`.
        """
        began = time.monotonic()
        numbers: Sequence[int] = ()
        episodes: list[episode_pb2.Episode] = []
        if self._ledger is not None:
            numbers = await self._numbers(step, self._ledger)
            episodes = await self._read(numbers)
        self._idle = time.monotonic() - began
        # In a thread: episodes go on while the others come here.
        count, episodes = await asyncio.to_thread(self._share, len(numbers), episodes)
        return SampledGroups(episodes, count - self._settings.batch)

    async def _read(self, numbers: Sequence[int]) -> list[episode_pb2.Episode]:
        """Return the episodes of taken groups, in the process that plays."""
        if self._stream is not None:
            return self._stream.read(numbers)
        assert self._rollouts is not None, "the process of the ledger plays"
        with RunReader.open(self._folder / STREAM_FOLDER) as reader:
            await self._rollouts.wait_for_workers(reader)
            return read_groups(reader, self._order, numbers)

    def _share(
        self, count: int, episodes: list[episode_pb2.Episode]
    ) -> tuple[int, list[episode_pb2.Episode]]:
        """Return the main process's arguments on every process.

        The others do not read the store: it grows, and they may be on other machines, where SQLite
        must not be read meanwhile.
        """
        if self._dist.world_size == 1:
            return count, episodes
        packed = [episode.SerializeToString() for episode in episodes]
        count, packed = self._dist.broadcast((count, packed))
        return count, [episode_pb2.Episode.FromString(it) for it in packed]

    async def _numbers(self, step: int, ledger: TakenGroups) -> tuple[int, ...]:
        if self.replays(step):
            return ledger.read_by(step)
        if step != len(ledger.steps):
            raise CheckpointDamaged(
                f"step {step} is next, and {LEDGER_FILE} has {len(ledger.steps)} steps: "
                "was it copied with the folder?",
                field="out",
            )
        if self._stream is None:
            assert self._rollouts is not None, "the process of the ledger plays"
            stream = RolloutStream(self._rollouts, self._order, ledger, self._settings)
            self._stream = await self._stack.enter_async_context(stream)
        return await self._stream.take()

    def advance(self) -> dict[str, float]:
        """Say that a step was learned; returns what its log row says of waiting and dropping.

        `trainer_idle` is the share of the time since the step before in which the learner waited
        for groups, `engine_idle` that in which no episode was live, `live_episodes` how many were
        on average, `dropped_groups` what was too old or lost since the step before.
        """
        now = time.monotonic()
        seconds, self._learned = now - self._learned, now
        if self._stream is None:
            return {}
        self._stream.advance()
        engine_idle, live = self._stream.live.take()
        dropped, self._dropped = self._stream.dropped - self._dropped, self._stream.dropped
        return {
            "trainer_idle": self._idle / seconds if seconds else 0.0,
            "engine_idle": engine_idle,
            "live_episodes": live,
            "dropped_groups": dropped,
        }
