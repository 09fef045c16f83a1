"""Rollouts without a barrier: groups are played all the time, and taken as their last episodes end.

One run folder holds the episodes of all steps. Which group begins, and which is learned from next,
is `GroupAdmission`'s to say; what was taken is in the ledger before it is given out. A group that a
kill cut off is completed, one that was complete waits to be taken, and none is played or taken
twice. New weights reach episodes that are being played; each token says which sampled it.
Whoever plays, this process or workers of a cluster, is `Rollouts`' to know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, Self

from agent_runtime.logs import get_logger
from agent_runtime.scores import recorded_score
from agent_runtime.supervision import cancel_tasks, supervise
from agentgym.episode.v1 import episode_pb2
from orchestrator.records import encode, episode_key
from orchestrator.retry import RetryBudget, RetryPolicy
from orchestrator.scheduler import Limits, Scheduler
from orchestrator.store import RunReader
from training.data.trajectories import WeightVersions, newest_step
from training.errors import TrainingError
from training.rollouts.groups import GroupOrder, TakenGroups
from training.rollouts.on_policy import Player, Rollouts, finished_episodes
from training.rollouts.staleness import GroupAdmission
from training.rollouts.told_records import ToldRecords

__all__ = [
    "LEDGER_FILE",
    "STREAM_FOLDER",
    "LiveTime",
    "RolloutStream",
    "StreamSettings",
    "read_groups",
]

log = get_logger(__name__)

STREAM_FOLDER: Final = "stream"
"""The run folder of all episodes, in the folder of the rollouts."""
LEDGER_FILE: Final = "taken.jsonl"
"""Beside it: the ledger of taken groups."""


class LiveTime:
    """How long something was going on, and how much of it at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live = 0
        self._since = self._began = clock()
        self._idle = self._area = 0.0

    def change(self, by: int) -> None:
        """Note that so many more (or fewer) are live from now on."""
        now = self._clock()
        self._area += self._live * (now - self._since)
        if not self._live:
            self._idle += now - self._since
        self._live += by
        self._since = now

    def note(self, live: int) -> None:
        """Note how many are live from now on."""
        self.change(live - self._live)

    def take(self) -> tuple[float, float]:
        """Return the share of time without any, and the mean number; begin to count anew."""
        self.change(0)
        seconds = self._since - self._began
        idle, mean = (self._idle / seconds, self._area / seconds) if seconds else (0.0, 0.0)
        self._began, self._idle, self._area = self._since, 0.0, 0.0
        return idle, mean


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """How far playing runs ahead of learning, and how long episodes are."""

    batch: int
    """Groups of a step."""
    staleness: int
    """Versions by which a token may be older than the weights that learn from it; see
    `GroupAdmission`."""
    steps: int
    """Of the whole run."""
    versions: WeightVersions
    """How weights are named."""
    max_rounds: Callable[[int], int]
    """The most replies of an episode by its group's step; 0 = each environment's number. To be sent
    to workers of a cluster: see `StreamPlans`."""
    replacements: int = 0
    """Groups that others take the place of before a step, at most, because their rewards agree."""


@dataclass(slots=True)
class _Unfinished:
    """A group that is being played."""

    left: int
    """Episodes that have not ended yet."""
    newest: int | None = None
    """The step of the newest weights that sampled a token; None = no episode has ended well."""
    rewards: set[float] = field(default_factory=set[float])

    @property
    def agrees(self) -> bool:
        """Whether there is nothing to compare: its episodes have one reward, or are one."""
        return len(self.rewards) < 2


class RolloutStream:
    """Groups of episodes by a policy whose weights change; use it as a context manager.

    For one task: `take` a step's groups, learn, replace the weights, `advance`.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        order: GroupOrder,
        ledger: TakenGroups,
        settings: StreamSettings,
    ) -> None:
        """Describe the groups; entering the context begins to play them.

        Args:
            rollouts: Servers and policy, started.
            order: Of the groups.
            ledger: What was taken before.
            settings: When they begin, and how they are played.
        """
        self.live = LiveTime()
        """Of episodes."""
        self._rollouts = rollouts
        self._order = order
        self._ledger = ledger
        self._settings = settings
        self._told = ToldRecords() if rollouts.on_cluster else None
        """What cannot be read from the store; None = everything can."""
        self._scheduler = Scheduler(
            (),
            limits=Limits(total=rollouts.concurrency),
            retries=RetryBudget(RetryPolicy()),
            endless=True,
        )
        self._unfinished: dict[int, _Unfinished] = {}
        self._lost_in_a_row = 0
        self._changed = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        folder = self._rollouts.folder / STREAM_FOLDER
        async with AsyncExitStack() as stack:
            self._store = stack.enter_context(
                self._rollouts.open_stream(folder, self._order.samples)
            )
            # Before anybody plays: shards of workers that have ended may be read, growing ones not.
            await self._rollouts.wait_for_workers(self._store)
            self._restore()
            self._player = await stack.enter_async_context(self._make_player())
            self._begin_groups()
            self._stack = stack.pop_all()
        self._playing = supervise(self._play(), "play without a barrier")
        return self

    def _make_player(self) -> AbstractAsyncContextManager[Player]:
        run_id = self._store.manifest.run_id
        plans = self._rollouts.stream_plans(run_id, self._order.samples, self._settings.max_rounds)
        return self._rollouts.play_on(
            self._scheduler,
            self._store,
            plans,
            on_record=self._recorded,
            on_live=self.live.note,
        )

    async def __aexit__(self, *_: object) -> None:
        self._player.stop()
        if not self._playing.done():
            await asyncio.wait([self._playing])
        await cancel_tasks(self._playing)
        await self._stack.aclose()

    @property
    def dropped(self) -> int:
        """Groups that nothing is learned from, since this was entered."""
        return len(self._admission.dropped) - self._dropped_before

    async def take(self) -> tuple[int, ...]:
        """Wait for the groups of the next step; they are in the ledger when this returns.

        Those that were replaced since the step before come last.

        Raises:
            TrainingError: Episodes are lost, one group after the other.
            OrchestratorError: The servers or the store failed.
            PolicyUnavailable: The policy's server was down for too long.
        """
        while True:
            if self._loses_all:
                raise TrainingError(
                    f"all episodes of {self._lost_in_a_row} groups in a row were lost; "
                    f"`python -m orchestrator.show {self._store.folder}` tells why"
                )
            numbers = self._admission.take()
            if numbers is not None:
                dropped = sorted(self._admission.dropped - self._ledger.passed)
                self._ledger.append(numbers, dropped, self._admission.beside)
                return numbers + self._admission.beside
            if self._playing.done():
                self._playing.result()
                raise RuntimeError("playing has ended, and nobody stopped it")
            self._changed.clear()
            await self._changed.wait()

    def advance(self) -> None:
        """Say that the groups that were taken have been learned from; others begin."""
        self._admission.advance()
        self._begin_groups()

    def read(self, numbers: Sequence[int]) -> list[episode_pb2.Episode]:
        """Return the episodes of groups that were taken, in order; once for each group.

        Those that were lost are left out.
        """
        if self._told is not None:
            return self._told.take(numbers)
        return read_groups(self._store, self._order, numbers)

    async def _play(self) -> None:
        try:
            await self._player.run()
        finally:
            self._changed.set()

    def _restore(self) -> None:
        """Take up what an earlier process played."""
        finished, failed = self._store.finished_keys(), self._store.failed_keys()
        numbers = [self._order.number(key) for key in (*finished, *failed)]
        self._dropped_before = len(self._ledger.passed)
        self._admission = GroupAdmission(
            batch=self._settings.batch,
            staleness=self._settings.staleness,
            steps=self._settings.steps,
            taken=self._ledger.taken,
            dropped=self._ledger.passed,
            begun=max(numbers, default=-1) + 1,
            replacements=self._settings.replacements,
        )
        for number in sorted(self._admission.playing):
            keys = self._order.keys(number)
            group = self._unfinished[number] = _Unfinished(
                left=sum(key not in finished for key in keys)
            )
            for episode in read_groups(self._store, self._order, [number]):
                self._note(group, episode)
                self._keep(number, episode, b"")
            if group.left:
                self._scheduler.add(keys, finished=finished, failed=failed)
            else:
                self._end(number)
        if numbers:
            ready = len(self._admission.ready)
            log.info("rollouts resumed", begun=len(set(numbers)), ready=ready)

    def _begin_groups(self) -> None:
        if self._told is not None:
            self._told.forget(self._admission.dropped)
        # Where all are lost, none takes the place of another before `take` has said so.
        while not self._loses_all and (number := self._admission.begin()) is not None:
            keys = self._order.keys(number)
            self._unfinished[number] = _Unfinished(left=len(keys))
            self._scheduler.add(keys)
        self._player.wake()

    def _recorded(self, record: episode_pb2.Episode, told: bytes) -> None:
        key = episode_key(record)
        lost = record.HasField("error")
        if lost and key not in self._scheduler.failed_keys:
            return  # it will be played again
        number = self._order.number(key)
        group = self._unfinished[number]
        group.left -= 1
        if not lost:
            self._note(group, record)
            self._keep(number, record, told)
        if not group.left:
            self._end(number)
            self._begin_groups()  # in the place of one that was dropped or replaced

    def _keep(self, number: int, record: episode_pb2.Episode, told: bytes) -> None:
        """Keep a record until it is read, where the store is not to be asked for it."""
        if self._told is not None:
            self._told.note(number, episode_key(record), told or encode(record))

    def _note(self, group: _Unfinished, episode: episode_pb2.Episode) -> None:
        group.rewards.add(recorded_score(episode) or 0.0)
        step = newest_step(episode, self._settings.versions)
        if step is None:
            # Whoever learns from it says what it lacks; dropping it would hide that.
            step = self._admission.version
        group.newest = step if group.newest is None else max(group.newest, step)

    def _end(self, number: int) -> None:
        group = self._unfinished.pop(number)
        self._admission.finish(number, group.newest, agrees=group.agrees)
        self._lost_in_a_row = 0 if group.newest is not None else self._lost_in_a_row + 1
        self._changed.set()

    @property
    def _loses_all(self) -> bool:
        return self._lost_in_a_row >= self._settings.batch


def read_groups(
    run: RunReader, order: GroupOrder, numbers: Sequence[int]
) -> list[episode_pb2.Episode]:
    """Return the episodes of groups, in order; those that were lost are left out."""
    return finished_episodes(run, [key for number in numbers for key in order.keys(number)])
