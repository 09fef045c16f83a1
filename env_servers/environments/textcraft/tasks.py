"""TextCraft's tasks: which goal and which crafting commands an item id stands for.

Contains item ids, splits and both worlds, embedded and official. Everything here is the same on
every machine for the same data: nothing depends on directory order, hash seeds or a random
generator.

Official ids are AgentGym's 0..543. Their goals depended on the directory order of the machine that
ran the original, so an id is resolved from AgentTraj-L where a conversation records it; the
README says what holds for the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from env_servers.environments.textcraft.embedded import Goals, divide_goals, read_table
from env_servers.environments.textcraft.official import (
    OfficialRecipes,
    RecordedTask,
    read_recipes,
    read_recorded,
)
from env_servers.environments.textcraft.world import World
from env_servers.sdk import EMBEDDED_BASE, EnvironmentConfig, InvalidOption, StaticTaskSet, Task

__all__ = [
    "DISTRACTORS",
    "EMBEDDED",
    "EVAL_BASE",
    "OFFICIAL",
    "TRAIN_DRAWS",
    "Assignment",
    "TextCraftTasks",
    "load_tasks",
]

EMBEDDED: Final = "embedded"
OFFICIAL: Final = "official"

DISTRACTORS: Final = 10
"""At most so many commands of a task do not belong to its goal, as in the original."""
TRAIN_DRAWS: Final = 20
"""Train tasks of one goal, at most; they differ in distractors and order."""
_KEPT: Final = 2048
"""Tasks whose commands are remembered, of 2 KB each."""
_MANY_COMMANDS: Final = 9
"""Draws of so many commands never repeat one another; those of fewer are compared."""
EVAL_BASE: Final = EMBEDDED_BASE + 500_000
"""First index of the embedded eval split."""

_AGENT_EVAL: Final = (range(31), range(140, 181), range(420, 445), range(533, 536))
"""AgentEval's ids: the first of each depth."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a task asks for, in which world."""

    world: str
    """EMBEDDED or OFFICIAL."""
    goal: str
    """Item id."""
    draw: int = 0
    """Which draw of distractors and order."""
    recorded: tuple[str, ...] | None = None
    """The crafting commands where a recording, or whoever resets, gives them."""


class TextCraftTasks(StaticTaskSet):
    """All tasks, and the worlds that they play in."""

    def __init__(
        self,
        splits: Mapping[str, list[Task]],
        worlds: Mapping[str, World],
        recipes: OfficialRecipes | None = None,
        unlisted: Iterable[Task] = (),
    ) -> None:
        """`worlds` by name, each as its tasks have it; `recipes` make further official ones."""
        super().__init__(splits, unlisted)
        self.worlds = dict(worlds)
        self._recipes = recipes
        # All samples of an item show the same commands, whose order is drawn by hashing.
        self._drawn = lru_cache(maxsize=_KEPT)(self._draw)

    def world(self, assignment: Assignment) -> World:
        """Return the world of a task, whose cycles are cut where its commands show it."""
        if self._recipes is None or assignment.world != OFFICIAL or assignment.recorded is None:
            return self.worlds[assignment.world]
        return self._recipes.world(assignment.recorded)

    def commands(self, assignment: Assignment) -> tuple[str, ...]:
        """Return the crafting commands of a task, in the order shown."""
        if assignment.recorded is not None:
            return assignment.recorded
        return self._drawn(assignment)

    def _draw(self, assignment: Assignment) -> tuple[str, ...]:
        return _drawn(self.worlds[assignment.world], assignment)

    def check_commands(self, assignment: Assignment) -> None:
        """Raise InvalidOption unless every command of a list that was given can be carried out."""
        known = self.world(assignment).by_command
        for command in assignment.recorded or ():
            if command not in known:
                raise InvalidOption(
                    f"option commands: the {assignment.world} world does not have "
                    f"{command[:200]!r}, or not together with the others"
                )

    def digest(self) -> bytes:
        digest = hashlib.blake2b(super().digest(), digest_size=8)
        for name in sorted(self.worlds):
            digest.update(self.worlds[name].digest())
        return digest.digest()


def load_tasks(config: EnvironmentConfig) -> TextCraftTasks:
    """Embedded tasks, and the official ones where the recipes are in `data_dir`."""
    embedded = read_table()
    goals = divide_goals(embedded)
    worlds = {EMBEDDED: embedded}
    splits, unlisted = _embedded_splits(embedded, goals)
    recipes = read_recipes(config.data_dir) if config.data_dir is not None else None
    if recipes is not None and config.data_dir is not None:
        worlds[OFFICIAL] = recipes.world()
        taught = frozenset(goals.train) - goals.reserved
        splits |= _official_splits(recipes, config.data_dir, taught)
    return TextCraftTasks(splits, worlds, recipes, unlisted)


def _drawn(world: World, assignment: Assignment) -> tuple[str, ...]:
    """Return the crafting commands that a draw gives."""
    salt = f"{assignment.world}:{assignment.goal}:{assignment.draw}"
    return world.commands(assignment.goal, distractors=DISTRACTORS, salt=salt)


def _embedded_splits(world: World, goals: Goals) -> tuple[dict[str, list[Task]], list[Task]]:
    """Return the splits, and the tasks that have an id but are in none.

    A goal has the same ids whatever is listed. Train has no reserved goal and no task that shows
    what another one shows; eval no task of a single command, which is the original's word for word.
    """
    taught = (goal for goal in goals.train if goal not in goals.reserved)
    distinct = {goal: _distinct_draws(world, goal) for goal in taught}
    train = [(goal, draw) for draw in range(TRAIN_DRAWS) for goal in goals.train]
    splits: dict[str, list[Task]] = {"train": [], "eval": []}
    unlisted: list[Task] = []
    for n, (goal, draw) in enumerate(train):
        drawn = Assignment(EMBEDDED, goal, draw)
        task = Task(f"textcraft_{EMBEDDED_BASE + n}", drawn, _depth(world, goal))
        (splits["train"] if draw in distinct.get(goal, ()) else unlisted).append(task)
    for n, goal in enumerate(goals.eval):
        drawn = Assignment(EMBEDDED, goal)
        task = Task(f"textcraft_{EVAL_BASE + n}", drawn, _depth(world, goal))
        (splits["eval"] if len(_drawn(world, drawn)) > 1 else unlisted).append(task)
    return splits, unlisted


def _distinct_draws(world: World, goal: str) -> Collection[int]:
    """Return the draws of a goal that show what no earlier one does."""
    if len(_drawn(world, Assignment(EMBEDDED, goal))) >= _MANY_COMMANDS:
        return range(TRAIN_DRAWS)
    first: dict[tuple[str, ...], int] = {}
    for draw in range(TRAIN_DRAWS):
        first.setdefault(_drawn(world, Assignment(EMBEDDED, goal, draw)), draw)
    return first.values()


def _official_splits(
    recipes: OfficialRecipes, data_dir: Path, taught: frozenset[str]
) -> dict[str, list[Task]]:
    """Return the official splits; `taught` are the goals of the embedded train split."""
    world = recipes.world()
    assigned = official_assignments(recipes, read_recorded(data_dir), taught)
    tasks = {
        index: Task(f"textcraft_{index}", assignment, _depth(world, assignment.goal))
        for index, assignment in sorted(assigned)
    }
    held_out = {index for span in _AGENT_EVAL for index in span}
    return {
        "official_train": [task for index, task in tasks.items() if index not in held_out],
        "official_eval": [task for index, task in tasks.items() if index in held_out],
    }


def official_assignments(
    recipes: OfficialRecipes, recorded: Mapping[int, RecordedTask], taught: Collection[str]
) -> list[tuple[int, Assignment]]:
    """(id, assignment) of every goal: recorded ids first, the others in canonical order.

    Ids run through the goals by depth. Goals that no recording names fill the free ids in the
    order of (depth, name), `taught` ones last: AgentEval has the first ids of each depth.
    """
    world = recipes.world()
    order = sorted(world.recipes, key=lambda goal: (world.depth(goal), goal in taught, goal))
    craftable = {
        index: task
        for index, task in recorded.items()
        if task.goal in world.recipes
        and recipes.world(task.commands).by_command.keys() >= set(task.commands)
    }
    taken = {task.goal for task in craftable.values()}
    free_ids = (index for index in range(len(order)) if index not in craftable)
    free_goals = (goal for goal in order if goal not in taken)
    pairs = zip(free_ids, free_goals, strict=False)
    assigned = [(index, Assignment(OFFICIAL, goal)) for index, goal in pairs]
    assigned.extend(
        (index, Assignment(OFFICIAL, task.goal, recorded=task.commands))
        for index, task in craftable.items()
    )
    return assigned


def _depth(world: World, goal: str) -> str:
    return f"depth {world.depth(goal)}"
