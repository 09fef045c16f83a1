"""Many episodes of one environment, stepped together: what a step sends travels in few messages.

An episode that fails is data: its slot says why, and the others go on. Knows neither NumPy nor
Gymnasium; `agent_runtime.adapters.gymnasium` makes arrays of what it gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from agent_runtime.episode import Transition
from agent_runtime.errors import AgentRuntimeError, EpisodeClosed
from agent_runtime.images import Image
from agent_runtime.library.aio import Environment, Episode
from agent_runtime.library.values import Advice, Task, sendable
from agent_runtime.pending import StreamBroke
from agentgym.env.v1 import environment_pb2 as pb

__all__ = ["Autoreset", "Batch", "Choice", "Vector"]

_AT_ONCE: Final = 64
"""Commands that are begun before the first of them are sent: the server works on these while the
next are being written."""

T = TypeVar("T")
Choice = Callable[[int], tuple[Task | str | int, int]]
"""What a slot plays next: from its number to a task and a seed."""


class Autoreset(StrEnum):
    """What becomes of a slot whose episode has ended or failed; the names are Gymnasium's."""

    NEXT_STEP = "NextStep"
    """The next step opens a new episode there instead of stepping; its action is ignored."""
    SAME_STEP = "SameStep"
    """The same step opens a new one: `Batch.texts` shows it, everything else how the old one
    ended."""
    DISABLED = "Disabled"
    """Nothing, until `reset` opens one. Give None as the slot's action."""


@dataclass(slots=True)
class Batch:
    """What a reset or step of all slots led to; every list has one entry for each slot."""

    transitions: list[Transition | None]
    """What a step led to; None where none was made, or where it failed."""
    opened: list[Transition | None]
    """The first state of a new episode; None where none was opened."""
    errors: list[AgentRuntimeError | None]
    """Why a slot's episode failed, or why none could be opened; None = nothing failed."""
    texts: list[str] = field(default_factory=list[str])
    """What each agent is shown now; empty where there is no episode."""

    @property
    def images(self) -> list[tuple[Image, ...]]:
        """What each agent is shown now beside the text, where the options ask for it."""
        states = (new or last for new, last in zip(self.opened, self.transitions, strict=True))
        return [state.images if state else () for state in states]

    @property
    def rewards(self) -> list[float | None]:
        """Of the steps; None where there was none, or none that was scored."""
        return [step.reward if step else None for step in self.transitions]

    @property
    def scores(self) -> list[float | None]:
        """Of the episodes if they ended here; the last reward where there is no score."""
        return [
            (step.reward if step.score is None else step.score) if step else None
            for step in self.transitions
        ]

    @property
    def terminated(self) -> list[bool]:
        """Whether the task's own rules ended the episode."""
        return [step is not None and step.terminated for step in self.transitions]

    @property
    def truncated(self) -> list[bool]:
        """Whether a limit ended the episode."""
        return [step is not None and step.truncated for step in self.transitions]

    @property
    def ended(self) -> list[bool]:
        """Whether the episode takes no more steps: it terminated, was truncated, or failed."""
        return [
            error is not None or (step is not None and step.ended)
            for step, error in zip(self.transitions, self.errors, strict=True)
        ]


class _Slot:
    """A place for one episode at a time."""

    __slots__ = ("episode", "number", "over", "text")

    def __init__(self, number: int) -> None:
        self.number = number
        self.episode: Episode | None = None
        self.text = ""
        self.over = True
        """There is no episode that takes a step."""

    def clear(self) -> None:
        """End the episode, if there is one."""
        episode, self.episode = self.episode, None
        self.text, self.over = "", True
        if episode is not None:
            episode.close()


class Vector:
    """A number of episodes of one environment, one in each slot."""

    def __init__(
        self,
        environment: Environment,
        count: int,
        *,
        tasks: Sequence[Task | str | int] | None = None,
        split: str = "",
        seed: int = 0,
        choose: Choice | None = None,
        autoreset: Autoreset | str = Autoreset.NEXT_STEP,
        options: Mapping[str, Any] | None = None,
        profile: str = "",
        action_format: str = "",
    ) -> None:
        """Describe it; `reset` opens the episodes.

        Args:
            environment: An open one, which stays the caller's.
            count: Number of slots, at least 1.
            tasks: What is played, in this order, and again from the first; default: the split's.
            split: Default: the environment's first.
            seed: Of the first episode; each further one has the next number.
            choose: Says, for the number of a slot, the task and the seed that it plays next; in
                place of `tasks`, `split` and `seed`. It must not wait for anything.
            autoreset: What becomes of a slot whose episode has ended.
            options: Of each reset, as the environment's README describes them.
            profile: One of the environment's profiles.
            action_format: How `reply` is read.

        Raises:
            ValueError: `count` is less than 1, `tasks` is empty, or there is no such mode.
        """
        if count < 1:
            raise ValueError(f"a vector has at least 1 slot, not {count}")
        self.environment = environment
        self.autoreset = Autoreset(autoreset)
        self._slots = [_Slot(number) for number in range(count)]
        self._tasks = _TaskCycle(environment, split, tasks)
        self._seed = seed
        self._choose = choose
        self._options = options
        self._profile = profile
        self._action_format = action_format

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def episodes(self) -> tuple[Episode | None, ...]:
        """The episode of each slot; None before the first reset, and where it failed."""
        return tuple(slot.episode for slot in self._slots)

    def close(self) -> None:
        """End all episodes; the environment stays open."""
        for slot in self._slots:
            slot.clear()

    async def reset(self, slots: Sequence[bool] | None = None, *, seed: int | None = None) -> Batch:
        """Open new episodes, each of the next task.

        Args:
            slots: Which ones get a new episode; default: all.
            seed: With one, tasks and seeds begin anew: the first episode has this seed.

        Raises:
            UnknownName: There is no such split. What single episodes fail of is in `Batch.errors`.
        """
        chosen = [True] * len(self) if slots is None else self._checked(slots)
        if seed is not None:
            self._seed = seed
            self._tasks.rewind()
        batch = self._batch()
        await _together(await self._draw([it for it in self._slots if chosen[it.number]], batch))
        return self._shown(batch)

    async def step(self, actions: Sequence[str | None]) -> Batch:
        """Apply one native action in each slot; None leaves the slot's episode as it is.

        Raises:
            ValueError: There are not as many actions as slots, or one is not UTF-8.
            TypeError: One is no string. In either case nothing was sent.
        """
        return await self._step(actions, replies=False)

    async def reply(self, texts: Sequence[str | None]) -> Batch:
        """Apply one whole reply of a model in each slot; the server reads the actions in them."""
        return await self._step(texts, replies=True)

    async def consult(self, player: str = "expert", seed: int = 0) -> list[Advice | None]:
        """Ask a scripted player what it would do in each slot; None where no step can be made.

        Raises UnknownName where there is no such player, and what the server says against it.
        """
        advice: list[Advice | None] = [None] * len(self)
        failures: list[AgentRuntimeError] = []

        async def ask(number: int, episode: Episode) -> None:
            try:
                advice[number] = await episode.consult(player, seed)
            except AgentRuntimeError as failure:
                failures.append(failure)

        await _together(
            [ask(it.number, it.episode) for it in self._slots if it.episode and not it.over]
        )
        if failures:
            raise failures[0]
        return advice

    # ------------------------------------------------------------------ the slots

    async def _step(self, values: Sequence[str | None], *, replies: bool) -> Batch:
        # All are looked at before the first is sent: a step that is sent cannot be taken back.
        given = [None if it is None else sendable(it) for it in self._checked(values)]
        batch = self._batch()
        reopens = self.autoreset is not Autoreset.DISABLED
        stale = [slot.over and reopens for slot in self._slots]
        steps = [
            (slot, value)
            for slot, value, over in zip(self._slots, given, stale, strict=True)
            if value is not None and not over
        ]
        opening = await self._draw([it for it in self._slots if stale[it.number]], batch)
        await _together([self._play(steps, batch, replies=replies), *opening])
        if self.autoreset is Autoreset.SAME_STEP:
            ended = [it for it in self._slots if it.over and not stale[it.number]]
            await _together(await self._draw(ended, batch))
        return self._shown(batch)

    async def _play(
        self, steps: Sequence[tuple[_Slot, str]], batch: Batch, *, replies: bool
    ) -> None:
        """Send all steps, then await all events; one task does it, for a task each costs more."""
        sent: list[tuple[_Slot, Episode, asyncio.Future[pb.Event]]] = []
        troubled: list[Coroutine[Any, Any, None]] = []
        try:
            for slot, value in steps:
                episode = slot.episode
                if episode is None:
                    text = f"slot {slot.number} has no episode: reset it first"
                    batch.errors[slot.number] = EpisodeClosed(text)
                    continue
                sent.append((slot, episode, episode.remote.send(value, reply=replies)))
                if len(sent) % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            for slot, episode, future in sent:
                try:
                    state = episode.remote.received(await future)
                except (AgentRuntimeError, StreamBroke):
                    state = None
                if state is None:
                    troubled.append(self._receive(slot, episode, batch))
                else:
                    self._note(slot, episode, state, batch)
        except BaseException:
            for coroutine in troubled:
                coroutine.close()
            for _, episode, _ in sent:
                episode.remote.forget()
            raise
        # What has to be sent again, or rebuilt, waits side by side.
        await _together(troubled)

    async def _receive(self, slot: _Slot, episode: Episode, batch: Batch) -> None:
        try:
            state = await episode.remote.receive()
        except AgentRuntimeError as error:
            batch.errors[slot.number] = error
            slot.clear()
            return
        self._note(slot, episode, state, batch)

    def _note(self, slot: _Slot, episode: Episode, state: Transition, batch: Batch) -> None:
        episode.state = batch.transitions[slot.number] = state
        slot.text = state.text
        slot.over = state.terminated or state.truncated

    async def _draw(self, slots: Sequence[_Slot], batch: Batch) -> list[Coroutine[Any, Any, None]]:
        """Return what opens the next tasks in these slots; they are given out in their order."""
        if self._choose is not None:
            chosen = [self._choose(slot.number) for slot in slots]
        else:
            tasks = await self._tasks.take(len(slots))
            chosen = [(task, self._seed + number) for number, task in enumerate(tasks)]
            self._seed += len(tasks)
        return [
            self._open(slot, task, seed, batch)
            for slot, (task, seed) in zip(slots, chosen, strict=True)
        ]

    async def _open(self, slot: _Slot, task: Task | str | int, seed: int, batch: Batch) -> None:
        slot.clear()
        try:
            slot.episode = await self.environment.reset(
                task,
                seed=seed,
                options=self._options,
                profile=self._profile,
                action_format=self._action_format,
            )
        except AgentRuntimeError as error:
            batch.errors[slot.number] = batch.errors[slot.number] or error
            return
        state = slot.episode.state
        batch.opened[slot.number] = state
        slot.text, slot.over = state.text, state.ended

    def _batch(self) -> Batch:
        count = len(self._slots)
        return Batch([None] * count, [None] * count, [None] * count)

    def _shown(self, batch: Batch) -> Batch:
        batch.texts = [slot.text for slot in self._slots]
        return batch

    def _checked(self, values: Sequence[T]) -> Sequence[T]:
        if len(values) != len(self._slots):
            raise ValueError(f"{len(values)} values were given for {len(self._slots)} slots")
        return values


class _TaskCycle:
    """The tasks of a split, or of a list, one after the other and again from the first."""

    def __init__(
        self, environment: Environment, split: str, tasks: Sequence[Task | str | int] | None
    ) -> None:
        if tasks is not None and not tasks:
            raise ValueError("a vector needs tasks: the list is empty")
        self._environment = environment
        self._split = split
        self._given = tasks
        self.rewind()

    def rewind(self) -> None:
        """Begin at the first task again."""
        self._ready: list[Task | str | int] = []
        self._next = 0
        self._token = ""

    async def take(self, count: int) -> list[Task | str | int]:
        """Return the next tasks; raises what `Environment.list_page` raises."""
        taken: list[Task | str | int] = []
        while len(taken) < count:
            if self._next == len(self._ready):
                await self._fetch()
            piece = self._ready[self._next : self._next + count - len(taken)]
            self._next += len(piece)
            taken += piece
        return taken

    async def _fetch(self) -> None:
        if self._given is not None:
            self._ready = list(self._given)
        else:
            tasks, self._token = await self._environment.list_page(self._split, self._token)
            if not tasks:
                raise ValueError(f"the split {self._split!r} has no tasks")
            self._ready = list(tasks)
        self._next = 0


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all at the same time; what is begun is sent while the next is still being written."""
    async with asyncio.TaskGroup() as group:
        for number, coroutine in enumerate(work, 1):
            group.create_task(coroutine)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
