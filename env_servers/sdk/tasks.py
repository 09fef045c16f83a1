"""Ordered, disjoint, addressable sets of tasks.

A task set lives once per process and owns everything that episodes share: recipes, indexes,
engines. Item ids are `<task>_<int>`. Official ids are those of AgentGym (low integers); embedded
tasks start at `EMBEDDED_BASE`, so both can be served side by side and never collide.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from env_servers.sdk.errors import UnknownItem, UnknownSplit
from env_servers.sdk.types import Task

__all__ = ["EMBEDDED_BASE", "RangeSplit", "RangeTaskSet", "StaticTaskSet", "TaskSet", "item_index"]

EMBEDDED_BASE = 1_000_000
"""First index of embedded tasks: above every official id, so that neither shadows the other."""

_ITEM_ID = re.compile(r"(?:(?P<task>[A-Za-z0-9_-]+)_)?(?P<index>[0-9]{1,12})")


def item_index(item_id: str, *, names: Sequence[str]) -> int:
    """Return the integer of `<task>_<int>` (or of a bare integer).

    Raises:
        UnknownItem: It is not of that form, or of a task that is not among `names`.
    """
    match = _ITEM_ID.fullmatch(item_id)
    if match is None or (match["task"] is not None and match["task"] not in names):
        raise UnknownItem(f"unknown item {item_id[:100]!r}", valid=f"{names[0]}_<int>")
    return int(match["index"])


class TaskSet(ABC):
    """Tasks by split and by item id; one per process, shared by all episodes."""

    @abstractmethod
    def splits(self) -> Mapping[str, int]:
        """Return the sizes by split name, in order; splits are disjoint."""

    @abstractmethod
    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        """Return item ids [start, stop) of a split in their order; raises UnknownSplit."""

    @abstractmethod
    def get(self, item_id: str) -> Task:
        """Return the task of an item id; raises UnknownItem."""

    def category(self, item_id: str) -> str:
        """Return the task type of an item; cheap, for listings."""
        return self.get(item_id).category

    def digest(self) -> bytes:
        """Return what identifies the tasks: equal digests, equal tasks. Override for content."""
        text = repr(sorted(self.splits().items()))
        return hashlib.blake2b(text.encode(), digest_size=8).digest()

    def prepare(self) -> None:
        """Make what the tasks share and loading left out; everything works without it, only later.

        Servers listen before it, and call it in a thread before the first question about tasks and
        the first episode, which wait for it: seconds at most. What can fail belongs to loading.
        """

    def close(self) -> None:
        """Release shared engines; called once when the process ends."""


class StaticTaskSet(TaskSet):
    """Splits given as lists of tasks that are held in memory."""

    def __init__(self, splits: Mapping[str, Iterable[Task]], unlisted: Iterable[Task] = ()) -> None:
        """`unlisted` tasks can be played by their ids, and no split has them."""
        self._splits = {name: tuple(tasks) for name, tasks in splits.items()}
        self._by_id: dict[str, Task] = {task.item_id: task for task in unlisted}
        for name, tasks in self._splits.items():
            for task in tasks:
                if self._by_id.setdefault(task.item_id, task) is not task:
                    raise ValueError(f"item {task.item_id} of split {name} exists twice")
        self._ids_by_integer: dict[int, list[str]] | None = None
        """Made when a bare integer is asked for."""

    def splits(self) -> Mapping[str, int]:
        return {name: len(tasks) for name, tasks in self._splits.items()}

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split not in self._splits:
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self._splits)
        return [task.item_id for task in self._splits[split][start:stop]]

    def get(self, item_id: str) -> Task:
        task = self._by_id.get(item_id)
        if task is not None:
            return task
        match = _ITEM_ID.fullmatch(item_id)
        ids = self._ids_of(int(match["index"])) if match and match["task"] is None else []
        if len(ids) == 1:
            return self._by_id[ids[0]]
        example = f"for example {next(iter(self._by_id), 'none')}"
        raise UnknownItem(f"unknown item {item_id[:100]!r}", valid=ids or example)

    def _ids_of(self, integer: int) -> list[str]:
        """Return the ids that an integer stands for; more than one where data sets share it."""
        if self._ids_by_integer is None:
            self._ids_by_integer = defaultdict(list)
            for item_id in self._by_id:
                match = _ITEM_ID.fullmatch(item_id)
                if match is not None:
                    self._ids_by_integer[int(match["index"])].append(item_id)
        return self._ids_by_integer.get(integer, [])

    def digest(self) -> bytes:
        text = repr(self._splits)
        return hashlib.blake2b(text.encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class RangeSplit:
    """A split whose tasks are made on demand from consecutive indexes."""

    start: int
    size: int
    make: Callable[[int], Task]
    """The task of an index in [start, start + size); a pure function."""


class RangeTaskSet(TaskSet):
    """Splits over disjoint index ranges, for generated and for official tasks alike."""

    def __init__(
        self, name: str, splits: Mapping[str, RangeSplit], *, prefixes: Mapping[str, str] = {}
    ) -> None:
        """`prefixes` maps a split to the `<task>` of its item ids where it is not `name`."""
        self._name = name
        self._splits = dict(splits)
        self._prefixes = dict(prefixes)
        spans = sorted((split.start, split.start + split.size) for split in splits.values())
        if any(end > start for (_, end), (start, _) in zip(spans, spans[1:], strict=False)):
            raise ValueError(f"splits of {name} overlap: {spans}")

    def splits(self) -> Mapping[str, int]:
        return {name: split.size for name, split in self._splits.items()}

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split not in self._splits:
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self._splits)
        requested = self._splits[split]
        prefix = self._prefixes.get(split, self._name)
        indexes = range(requested.start, requested.start + requested.size)[start:stop]
        return [f"{prefix}_{index}" for index in indexes]

    def get(self, item_id: str) -> Task:
        index = item_index(item_id, names=(self._name, *self._prefixes.values()))
        for split in self._splits.values():
            if split.start <= index < split.start + split.size:
                return split.make(index)
        spans = (f"{s.start}..{s.start + s.size - 1} ({n})" for n, s in self._splits.items())
        raise UnknownItem(f"unknown item {item_id[:100]!r}", valid=spans)
