"""Which tasks an algorithm imitates, explores and is evaluated on.

An environment's part of a recipe, and how its tasks are divided by their ids: tasks that evaluate
an agent are never imitated or explored; the smaller of two imitated sets is part of the larger; the
division depends on item ids alone, not on the machine or the seed. Division by content is
`training.rollouts.division`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_runtime.agents import PlaySettings
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator import seeds
from orchestrator.fleet import Fleet
from training.errors import RecipeError

__all__ = [
    "EnvironmentTasks",
    "ImitatedTasks",
    "ListedTasks",
    "TaskSplit",
    "list_ids",
    "shuffled_by_hash",
    "split_tasks",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentTasks:
    """One environment: which of its tasks are used for what, and how they are played."""

    name: str
    train: str = "train"
    """Split that is learned from."""
    evaluation: str = "eval"
    """Split for evaluation; may be the train split, whose tasks are then divided."""
    categories: tuple[str, ...] = ()
    """Only tasks of these categories; empty = all."""
    explore: int = 0
    """Tasks to explore; 0 = all of the split."""
    validate: int = 0
    """Tasks of the train split that are set apart to choose an iteration by, and everything else
    that is chosen."""
    evaluate: int = 0
    """Tasks to be evaluated on; 0 = all of the split."""
    profile: str = ""
    """Profile of the environment; empty = its default."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Reset options."""
    conversation_start: tuple[str, ...] = ()
    """Instruction and acknowledgement in place of the environment's own; empty = its own."""
    max_rounds: int = 0
    """Replies per episode; 0 = the environment's number."""

    def __post_init__(self) -> None:
        if min(self.explore, self.validate, self.evaluate, self.max_rounds) < 0:
            raise ValueError("numbers of tasks and rounds are at least 0")
        if len(self.conversation_start) not in (0, 2):
            raise ValueError(
                "conversation_start is a list of two texts: instruction and acknowledgement"
            )

    def settings(self) -> PlaySettings:
        """Return how the environment is played."""
        return PlaySettings(
            profile=self.profile,
            options=self.options,
            conversation_start=self.conversation_start,
            max_rounds=self.max_rounds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitatedTasks(EnvironmentTasks):
    """One environment whose experts are imitated before it is explored."""

    base_tasks: int = 0
    """Expert episodes of the base set; their tasks are explored too."""
    large_tasks: int = 0
    """Expert episodes of the large set, the base set's among them."""
    samples: int = 0
    """K: explored episodes per task; 0 = the recipe's `samples`."""
    pretrain_tasks: int = 0
    """Tasks whose scripted episodes a pretraining learns from; 0 = those that are explored."""
    pretrain_samples: int = 0
    """Episodes of each of them; 0 = the pretraining's `samples`."""
    judge_tasks: int = 0
    """With [judge]: tasks of the train split's generator that are played once, at the end."""
    judge_pool: int = 0
    """With [judge]: contents of the train split that are set apart, from which those are drawn
    when training has ended; 0 = twice `judge_tasks`."""
    judge_eval_tasks: int = 0
    """With [judge]: tasks of the split `evaluation` that are played once, at the end; 0 = all."""
    threshold: float | None = None
    """An explored episode is kept with a score above it; default: the original's rule."""

    def __post_init__(self) -> None:
        EnvironmentTasks.__post_init__(self)  # `super()` has no class to start from under slots
        counts = (self.base_tasks, self.large_tasks, self.pretrain_tasks)
        counts = (*counts, self.judge_tasks, self.judge_pool, self.judge_eval_tasks)
        if min(*counts, self.samples, self.pretrain_samples) < 0:
            raise ValueError("numbers of tasks and samples are at least 0")
        if self.large_tasks and self.large_tasks < self.base_tasks:
            raise ValueError("large_tasks is at least base_tasks: it contains the base set")
        if self.judge_pool and self.judge_pool < self.judge_tasks:
            raise ValueError("judge_pool is at least judge_tasks, which are drawn from it")

    @property
    def pool(self) -> int:
        """How many contents are set apart for `judge_tasks`."""
        return self.judge_pool or 2 * self.judge_tasks


@dataclass(frozen=True, slots=True)
class ListedTasks:
    """An environment's tasks, and what each of them is."""

    train: tuple[str, ...]
    """Item ids of the split that is learned from, in canonical order."""
    evaluation: tuple[str, ...]
    contents: Mapping[str, str]
    """Item id -> digest of the state that its episode begins in."""


@dataclass(frozen=True, slots=True)
class TaskSplit:
    """Item ids of one environment by what they are used for."""

    base: tuple[str, ...]
    large: tuple[str, ...]
    explore: tuple[str, ...]
    evaluate: tuple[str, ...]
    validate: tuple[str, ...]
    pretrain: tuple[str, ...] = ()
    judge_pool: tuple[str, ...] = ()
    """Of the train split; nobody learns from them or chooses by them."""
    judge_eval_pool: tuple[str, ...] = ()
    """Of the split `evaluation`."""

    @property
    def learned(self) -> tuple[str, ...]:
        """All that anybody may learn from, each once."""
        every = (*self.base, *self.large, *self.explore, *self.pretrain)
        return tuple(dict.fromkeys(every))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Sequence[str]]) -> TaskSplit:
        """Return a split from JSON values, those of older runs too."""
        return cls(**{_RENAMED_USES.get(use, use): tuple(ids) for use, ids in plain.items()})

    def to_plain(self) -> dict[str, list[str]]:
        """Return the ids by use, as JSON values."""
        return {use: list(ids) for use, ids in asdict(self).items()}


_RENAMED_USES = {"read": "pretrain"}
"""Uses in recorded runs that had another name once."""


def split_tasks(
    tasks: EnvironmentTasks, train: Sequence[str], evaluation: Sequence[str]
) -> TaskSplit:
    """Divide an environment's tasks by what they are used for.

    Each use takes the first of its split in an order drawn by hashing; uses that the recipe has no
    keys for are empty.

    Args:
        tasks: How many tasks each use takes.
        train: Ids of the train split.
        evaluation: Ids of the split that agents are evaluated on.

    Raises:
        RecipeError: A split has fewer tasks than are asked for.
    """
    base, large, pretrain = (
        (tasks.base_tasks, tasks.large_tasks, tasks.pretrain_tasks)
        if isinstance(tasks, ImitatedTasks)
        else (0, 0, 0)
    )
    shuffled = shuffled_by_hash(evaluation)
    held_out = shuffled[: tasks.evaluate or len(shuffled)]
    if tasks.train == tasks.evaluation and not tasks.evaluate:
        raise _refusal(tasks, "evaluate", "says how many tasks of the common split are held out")
    if len(held_out) < tasks.evaluate:
        raise _refusal(tasks, "evaluate", f"is above the {len(shuffled)} tasks that there are")
    excluded = frozenset(held_out)
    free = [item for item in shuffled_by_hash(train) if item not in excluded]
    if tasks.validate > len(free):
        raise _refusal(tasks, "validate", f"is above the {len(free)} tasks that there are")
    validated, free = free[: tasks.validate], free[tasks.validate :]
    sizes = {
        "base_tasks": base,
        "large_tasks": large,
        "explore": tasks.explore,
        "pretrain_tasks": pretrain,
    }
    for key, size in sizes.items():
        if size > len(free):
            raise _refusal(tasks, key, f"is above the {len(free)} tasks that there are")
    return TaskSplit(
        base=tuple(free[:base]),
        large=tuple(free[:large]),
        explore=tuple(free[: tasks.explore or len(free)]),
        evaluate=tuple(held_out),
        validate=tuple(validated),
        pretrain=tuple(free[:pretrain]),
    )


async def list_ids(fleet: Fleet, tasks: EnvironmentTasks) -> tuple[list[str], list[str]]:
    """Return the ids of the train split and of the one for evaluation, of the chosen categories.

    Raises:
        RecipeError: The environment has no such split or category.
    """
    offered = {split.name: split.size for split in fleet.described[tasks.name].splits}
    ids: list[list[str]] = []
    for key, split in (("train", tasks.train), ("evaluation", tasks.evaluation)):
        if split not in offered:
            raise RecipeError(
                f"there is no split {split!r}", field=f"{tasks.name}.{key}", valid=offered
            )
        summaries = await fleet.list_items(tasks.name, split)
        ids.append([summary.item_id for summary in _of_chosen_categories(tasks, summaries)])
    return ids[0], ids[1]


def _of_chosen_categories(
    tasks: EnvironmentTasks, summaries: Sequence[pb.TaskSummary]
) -> Sequence[pb.TaskSummary]:
    if not tasks.categories:
        return summaries
    offered = {summary.category for summary in summaries}
    for category in tasks.categories:
        if category not in offered:
            raise RecipeError(
                f"no task is of {category!r}",
                field=f"{tasks.name}.categories",
                valid=sorted(offered),
            )
    return [summary for summary in summaries if summary.category in tasks.categories]


def shuffled_by_hash(ids: Sequence[str]) -> list[str]:
    """Return ids in an order drawn by hashing: any first part of it is a fair sample."""
    return sorted(ids, key=lambda item: seeds.derive("training-task", item))


def _refusal(tasks: EnvironmentTasks, key: str, problem: str) -> RecipeError:
    return RecipeError(problem, field=f"{tasks.name}.{key}")
