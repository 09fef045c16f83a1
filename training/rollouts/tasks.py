"""Which tasks an algorithm imitates, explores and is judged on.

Owns an environment's part of a recipe and the division of its tasks. Invariants: tasks that judge
an agent are never imitated or explored; the smaller of two imitated sets is contained in the
larger; the division depends on item ids alone, not on the machine or the seed. Plays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.env.v1 import environment_pb2 as pb
from orchestrator import seeds
from orchestrator.fleet import Fleet
from training.errors import RecipeError

__all__ = [
    "Division",
    "EnvironmentTasks",
    "ImitatedTasks",
    "divide",
    "list_ids",
    "ranked",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentTasks:
    """One environment: which of its tasks are used for what, and how they are played."""

    name: str
    train: str = "train"
    """Split that is learned from."""
    evaluation: str = "eval"
    """Split that judges; may be the train split, whose tasks are then divided."""
    categories: tuple[str, ...] = ()
    """Only tasks of these categories; empty = all."""
    explore: int = 0
    """Tasks to explore; 0 = all of the split."""
    evaluate: int = 0
    """Tasks to be judged on; 0 = all of the split."""
    profile: str = ""
    """Profile of the environment; empty = its default."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Reset options."""
    opening: tuple[str, ...] = ()
    """Instruction and acknowledgement in place of the environment's own; empty = its own."""
    max_rounds: int = 0
    """Replies per episode; 0 = the environment's number."""

    def __post_init__(self) -> None:
        if min(self.explore, self.evaluate, self.max_rounds) < 0:
            raise ValueError("numbers of tasks and rounds are at least 0")
        if len(self.opening) not in (0, 2):
            raise ValueError("opening is a list of two texts: instruction and acknowledgement")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitatedTasks(EnvironmentTasks):
    """One environment whose experts are imitated before it is explored."""

    base: int = 0
    """Expert episodes of the base set; their tasks are explored too."""
    large: int = 0
    """Expert episodes of the large set, the base set's among them."""
    samples: int = 0
    """K: explored episodes per task; 0 = the recipe's `samples`."""
    read: int = 0
    """Tasks on which a pretraining's player is read; 0 = those that are explored."""
    readings: int = 0
    """Episodes that are read of each of them; 0 = the pretraining's `samples`."""
    validate: int = 0
    """Tasks of the train split that are set apart to choose an iteration by."""
    threshold: float | None = None
    """An explored episode is kept with a score above it; default: the original's rule."""

    def __post_init__(self) -> None:
        EnvironmentTasks.__post_init__(self)  # `super()` has no class to start from under slots
        counts = (self.base, self.large, self.read, self.validate)
        if min(*counts, self.samples, self.readings) < 0:
            raise ValueError("numbers of tasks, samples and readings are at least 0")
        if self.large and self.large < self.base:
            raise ValueError("large is at least base: it contains the base set")


@dataclass(frozen=True, slots=True)
class Division:
    """Item ids by use."""

    base: tuple[str, ...]
    large: tuple[str, ...]
    explore: tuple[str, ...]
    evaluate: tuple[str, ...]
    validate: tuple[str, ...]
    read: tuple[str, ...] = ()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Sequence[str]]) -> Division:
        """The inverse of `dataclasses.asdict`, from JSON values."""
        return cls(**{use: tuple(ids) for use, ids in plain.items()})


def divide(wanted: EnvironmentTasks, train: Sequence[str], judged: Sequence[str]) -> Division:
    """Divide the ids of the train split and of the one that judges.

    Each use takes the first of its split in an order drawn by hashing. Raises RecipeError where a
    split has fewer tasks than are asked for. Uses that the recipe has no keys for are empty.
    """
    sizes = {use: getattr(wanted, use, 0) for use in ("base", "large", "explore", "read")}
    validate: int = getattr(wanted, "validate", 0)
    order = ranked(judged)
    held_out = order[: wanted.evaluate or len(order)]
    if wanted.train == wanted.evaluation and not wanted.evaluate:
        raise _refusal(wanted, "evaluate", "says how many tasks of the common split judge")
    if len(held_out) < wanted.evaluate:
        raise _refusal(wanted, "evaluate", f"is above the {len(order)} tasks that there are")
    apart = frozenset(held_out)
    free = [item for item in ranked(train) if item not in apart]
    validated, free = free[:validate], free[validate:]
    for use, size in sizes.items():
        if size > len(free):
            raise _refusal(wanted, use, f"is above the {len(free)} tasks that there are")
    return Division(
        base=tuple(free[: sizes["base"]]),
        large=tuple(free[: sizes["large"]]),
        explore=tuple(free[: sizes["explore"] or len(free)]),
        evaluate=tuple(held_out),
        validate=tuple(validated),
        read=tuple(free[: sizes["read"]]),
    )


async def list_ids(fleet: Fleet, wanted: EnvironmentTasks) -> tuple[list[str], list[str]]:
    """Ids of the train split and of the one that judges, those of the wanted categories.

    Raises RecipeError for a split or category that the environment does not have.
    """
    offered = {split.name: split.size for split in fleet.described[wanted.name].splits}
    listed: list[list[str]] = []
    for use, split in (("train", wanted.train), ("evaluation", wanted.evaluation)):
        if split not in offered:
            raise RecipeError(
                f"there is no split {split!r}", field=f"{wanted.name}.{use}", valid=offered
            )
        tasks = await fleet.list_items(wanted.name, split, 0)
        listed.append([it.item_id for it in _of_categories(wanted, tasks)])
    return listed[0], listed[1]


def _of_categories(
    wanted: EnvironmentTasks, tasks: Sequence[pb.TaskSummary]
) -> Sequence[pb.TaskSummary]:
    if not wanted.categories:
        return tasks
    known = {task.category for task in tasks}
    for category in wanted.categories:
        if category not in known:
            raise RecipeError(
                f"no task is of {category!r}",
                field=f"{wanted.name}.categories",
                valid=sorted(known),
            )
    return [task for task in tasks if task.category in wanted.categories]


def ranked(ids: Sequence[str]) -> list[str]:
    """Ids in an order drawn by hashing: any first part of it is a fair sample."""
    return sorted(ids, key=lambda item: seeds.derive("training-task", item))


def _refusal(wanted: EnvironmentTasks, use: str, problem: str) -> RecipeError:
    return RecipeError(problem, field=f"{wanted.name}.{use}")
