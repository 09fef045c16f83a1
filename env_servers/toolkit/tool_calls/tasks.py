"""The task set of a tool environment: generated and official tasks, and what they play on.

Generated tasks are pure functions of their index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from env_servers.sdk import (
    EMBEDDED_BASE,
    InvalidOption,
    RangeSplit,
    RangeTaskSet,
    StaticTaskSet,
    Task,
    TaskSet,
    UnknownItem,
    UnknownSplit,
)
from env_servers.toolkit.tool_calls.backends import EMBEDDED, RECORDED, Backend
from env_servers.toolkit.tool_calls.payload import ToolTask
from env_servers.toolkit.tool_calls.settings import AUTO

__all__ = ["EVAL_BASE", "ToolTaskSet"]

EVAL_BASE: Final = EMBEDDED_BASE + 500_000
"""First index of embedded eval tasks."""


class ToolTaskSet(TaskSet):
    """Generated and official tasks of one environment, and the backends that they play on."""

    def __init__(
        self,
        name: str,
        embedded: Mapping[str, RangeSplit],
        official: Mapping[str, Sequence[Task]],
        backends: Mapping[str, Backend],
        *,
        chosen: str = AUTO,
        version: str = "",
    ) -> None:
        """Create the task set of an environment.

        Args:
            name: The environment, and the `<task>` of its generated item ids.
            embedded: Generated splits.
            official: Official splits.
            backends: What answers the tools, by name; `embedded` is always there.
            chosen: The backend that every task plays on; AUTO = the best for each.
            version: Changes when generators or worlds change, and the digest with it.

        Raises:
            InvalidOption: The chosen backend does not exist.
        """
        self._embedded = RangeTaskSet(name, embedded)
        self._official = StaticTaskSet(official)
        self._sizes = {**self._embedded.splits(), **self._official.splits()}
        self._official_tasks = {task.item_id: task for split in official.values() for task in split}
        self._name = name
        self._backends = dict(backends)
        self._chosen = chosen
        self._version = version
        if chosen != AUTO and chosen not in backends:
            raise InvalidOption(f"{name} has no backend {chosen}", valid=(AUTO, *backends))

    def splits(self) -> Mapping[str, int]:
        return dict(self._sizes)

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split not in self._sizes:
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self._sizes)
        owner = self._official if split in self._official.splits() else self._embedded
        return owner.item_ids(split, start, stop)

    def get(self, item_id: str) -> Task:
        full_id = item_id if item_id.startswith(f"{self._name}_") else f"{self._name}_{item_id}"
        if full_id in self._official_tasks:
            return self._official_tasks[full_id]
        try:
            return self._embedded.get(item_id)
        except UnknownItem as error:
            if not self._official_tasks:
                raise
            raise UnknownItem(
                f"unknown item {item_id[:100]!r}",
                valid=f"{error.valid}, official ids such as {next(iter(self._official_tasks))}",
            ) from None

    def backend(self, task: ToolTask) -> Backend:
        """Return the backend that a task plays on."""
        if self._chosen != AUTO:
            return self._backends[self._chosen]
        if task.official and RECORDED in self._backends:
            return self._backends[RECORDED]
        return self._backends[EMBEDDED]

    def digest(self) -> bytes:
        digest = hashlib.blake2b(self._embedded.digest(), digest_size=8)
        digest.update(f"{self._version} {self._chosen}".encode())
        for task in self._official_tasks.values():
            payload: ToolTask = task.payload
            digest.update(repr((task.item_id, payload.goal, payload.subgoals)).encode())
        return digest.digest()

    def prepare(self) -> None:
        for backend in self._backends.values():
            backend.prepare()

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()
