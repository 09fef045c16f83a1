"""Which groups a run without a barrier plays, and which its steps have learned from.

A group is a task with its episodes. All groups that a run may ever play have an order, by which
they are numbered; the number of a sample says which step's tasks it belongs to, so that one run
folder holds an item many times. The ledger of taken groups is on disk before a step is learned:
after a kill each step learns from what it had begun to learn from, and from nothing twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.atomic_file import write_atomically
from orchestrator.records import EpisodeKey
from orchestrator.training_folder import iterate_log
from training.errors import CheckpointDamaged
from training.rollouts.on_policy import POLICY_NAME, Task

__all__ = ["Group", "GroupOrder", "TakenGroups"]


@dataclass(frozen=True, slots=True)
class Group:
    """A task, as one step of a run with a barrier would play it."""

    step: int
    """That step: it decides the seeds, and how many replies episodes may take."""
    environment: str
    item_id: str


class GroupOrder:
    """All groups of a run in the order in which they begin: the tasks of its steps."""

    def __init__(self, step_tasks: Callable[[int], Sequence[Task]], samples: int) -> None:
        """Say what the tasks of a step are, at least one and each once; `samples` per group."""
        self.samples = samples
        self._step_tasks = step_tasks
        self._groups: list[Group] = []
        self._numbers: dict[Group, int] = {}
        self._steps = 0

    def group(self, number: int) -> Group:
        """Return a group by its number, from 0."""
        while len(self._groups) <= number:
            self._add_step()
        return self._groups[number]

    def number(self, key: EpisodeKey) -> int:
        """Return the number of an episode's group.

        Raises CheckpointDamaged for an episode that this run does not play.
        """
        group = Group(key.sample // self.samples, key.environment, key.item_id)
        while self._steps <= group.step:
            self._add_step()
        if group not in self._numbers:
            raise CheckpointDamaged(f"{key} was recorded, and is none of this run's", field="out")
        return self._numbers[group]

    def keys(self, number: int) -> list[EpisodeKey]:
        """Return the keys of a group's episodes."""
        group = self.group(number)
        first = group.step * self.samples
        return [
            EpisodeKey(group.environment, group.item_id, sample, POLICY_NAME)
            for sample in range(first, first + self.samples)
        ]

    def _add_step(self) -> None:
        for environment, item_id in self._step_tasks(self._steps):
            group = Group(self._steps, environment, item_id)
            self._numbers[group] = len(self._groups)
            self._groups.append(group)
        self._steps += 1


class TakenGroups:
    """The groups that each step learned from, a line of JSON a step."""

    def __init__(self, path: Path) -> None:
        """Read what is there, less a line that a kill cut off.

        Raises CheckpointDamaged where a step lacks.
        """
        self._path = path
        rows = list(iterate_log(path))
        try:
            self.steps = [_numbers(row["groups"]) for row in rows]
            """By step, from 0."""
            self.dropped = {number for row in rows for number in _numbers(row["dropped"])}
            """Groups that no step reads."""
            # Earlier releases replaced none.
            self.beside = [_numbers(row.get("beside", ())) for row in rows]
            """By step: groups that were replaced, whose rewards agree; it reads them as well."""
            order = [row["step"] for row in rows]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointDamaged(f"{path} is damaged: {error!r}", field="out") from error
        if order != list(range(len(rows))):
            raise CheckpointDamaged(f"{path} does not have every step once", field="out")
        if rows:
            # What is appended must not go on where a kill cut a line off.
            write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))

    @property
    def taken(self) -> set[int]:
        """All groups that steps learned from."""
        return {number for numbers in self.steps for number in numbers}

    @property
    def passed(self) -> set[int]:
        """All groups that no step counts: those that were dropped, or replaced."""
        return self.dropped.union(*self.beside)

    def read_by(self, step: int) -> tuple[int, ...]:
        """Return all groups whose episodes a step reads."""
        return self.steps[step] + self.beside[step]

    def append(
        self, numbers: Sequence[int], dropped: Sequence[int], beside: Sequence[int] = ()
    ) -> None:
        """Note what the next step learns from; durable on return.

        Args:
            numbers: The groups that it counts.
            dropped: Groups that were dropped since the step before.
            beside: Groups that were replaced since the step before, which it reads as well.
        """
        row = {"step": len(self.steps), "groups": list(numbers), "dropped": list(dropped)}
        if beside:
            row["beside"] = list(beside)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self.steps.append(tuple(numbers))
        self.beside.append(tuple(beside))
        self.dropped.update(dropped)


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
