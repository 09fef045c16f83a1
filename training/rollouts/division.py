"""Tasks divided by what they are, not by what they are called.

Four parts have no content in common: what is learned from (imitated, explored, read), what
everything is chosen by, and two pools that judge once, at the end: one of the generator that made
the learned tasks, one of the split for evaluation. Which contents may judge depends on them alone,
so several divisions (one per seed) have the same pools; who judges is drawn from the pools when
training has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator import seeds
from training.data.contents import HeldOutContents, find_shared, list_some
from training.errors import Contaminated, RecipeError
from training.rollouts.tasks import ImitatedTasks, ListedTasks, TaskSplit

__all__ = ["divide_by_content", "draw_judges", "held_out_contents", "require_disjoint"]


def divide_by_content(tasks: ImitatedTasks, listed: ListedTasks, *, seed: int) -> TaskSplit:
    """Divide an environment's tasks into parts without a common content.

    Of several items of one content the first is used. A content that both splits have judges, and
    nobody learns from it.

    Args:
        tasks: How many tasks each use takes.
        listed: What there is.
        seed: Of what is learned and what is chosen by; the pools are those of every seed.

    Raises:
        RecipeError: There are fewer contents than are asked for.
    """
    judging = _first_items(listed.evaluation, listed.contents)
    there = _first_items(listed.train, listed.contents)
    own = {digest: item for digest, item in there.items() if digest not in judging}
    by_chance = sorted(own, key=lambda digest: seeds.derive("judge-pool", digest))
    pool, rest = by_chance[: tasks.pool], by_chance[tasks.pool :]
    rest.sort(key=lambda digest: seeds.derive("training-task", seed, digest))
    develop, free = rest[: tasks.validate], rest[tasks.validate :]
    if len(own) < tasks.pool + tasks.validate:
        _refuse(tasks, "judge_pool", tasks.pool + tasks.validate, len(own), "with validate")
    if tasks.judge_eval_tasks > len(judging):
        _refuse(tasks, "judge_eval_tasks", tasks.judge_eval_tasks, len(judging), "")
    sizes = {
        "base_tasks": tasks.base_tasks,
        "large_tasks": tasks.large_tasks,
        "explore": tasks.explore,
        "pretrain_tasks": tasks.pretrain_tasks,
    }
    for key, size in sizes.items():
        if size > len(free):
            _refuse(tasks, key, size, len(free), "that neither judge nor validate")
    learned = [own[digest] for digest in free]
    return TaskSplit(
        base=tuple(learned[: tasks.base_tasks]),
        large=tuple(learned[: tasks.large_tasks]),
        explore=tuple(learned[: tasks.explore or len(learned)]),
        evaluate=(),
        validate=tuple(own[digest] for digest in develop),
        pretrain=tuple(learned[: tasks.pretrain_tasks]),
        judge_pool=tuple(own[digest] for digest in pool),
        judge_eval_pool=tuple(judging.values()),
    )


def _first_items(ids: Sequence[str], contents: Mapping[str, str]) -> dict[str, str]:
    """Return digest -> the first item that has it."""
    first: dict[str, str] = {}
    for item in ids:
        first.setdefault(contents[item], item)
    return first


def _refuse(tasks: ImitatedTasks, key: str, asked: int, there: int, which: str) -> None:
    raise RecipeError(
        f"asks for {asked} tasks, and there are {there} different contents {which}".rstrip()
        + ": ask for fewer, or choose a split or categories with more",
        field=f"environments.{tasks.name}.{key}",
    )


def require_disjoint(environment: str, split: TaskSplit, contents: Mapping[str, str]) -> None:
    """Raise Contaminated where a content is in two parts of a division; names the items."""
    parts = {
        "learn": split.learned,
        "develop": split.validate,
        "judge": split.judge_pool,
        "judge of the evaluation split": split.judge_eval_pool,
    }
    told = {part: {item: contents[item] for item in items} for part, items in parts.items()}
    shared = find_shared(told)
    if shared:
        pairs = (
            " = ".join(f"{item} ({part})" for part, item in where.items())
            for where in shared.values()
        )
        raise Contaminated(
            f"{len(shared)} contents are in more than one part: {list_some(pairs)}. Divide anew "
            "in another folder (`out`)",
            field=f"environments.{environment}",
        )


def held_out_contents(
    splits: Mapping[str, TaskSplit], contents: Mapping[str, Mapping[str, str]]
) -> HeldOutContents:
    """Return what nobody may learn from: the contents of all parts but the one that is learned."""
    return HeldOutContents(
        {
            name: {
                contents[name][item]: item
                for item in (*split.validate, *split.judge_pool, *split.judge_eval_pool)
            }
            for name, split in splits.items()
        }
    )


def draw_judges(
    tasks: ImitatedTasks, split: TaskSplit, contents: Mapping[str, str], *, seed: int
) -> tuple[list[str], list[str]]:
    """Draw who judges: tasks of the train split's generator, and those of the evaluation split.

    Args:
        tasks: How many.
        split: Has the pools.
        contents: Item id -> digest; the drawing depends on these.
        seed: Of the drawing, written down when training has ended.
    """

    def drawn(pool: Sequence[str], count: int) -> list[str]:
        key = {item: seeds.derive("judge-task", seed, contents[item]) for item in pool}
        return sorted(pool, key=key.__getitem__)[: count or len(pool)]

    return drawn(split.judge_pool, tasks.judge_tasks), drawn(
        split.judge_eval_pool, tasks.judge_eval_tasks
    )
