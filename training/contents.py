"""`python -m training.contents recipe.toml`: which tasks are one and the same, told by content.

    python -m training.contents RECIPE.toml [--plan] [--out runs/NAME] [--KEY VALUE ...]

Asks the environment servers for the first state of every task of an AgentEvol recipe and tells how
many contents there are, which items share one across splits, and, for a recipe with `[judge]`, the
parts of its division. Without `--plan` it writes into `OUT-contents`, beside the run's folder:
`contents.json` (environment -> item id -> digest) and, with `[judge]`, `held-out-contents.json`,
which any recipe of `training.bc` and `training.dpo` takes as `data.held_out_contents`. The digests
are those of recorded episodes that were played under the same options.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from orchestrator.atomic_file import write_atomically
from training.agentevol import AgentEvolRecipe, divide
from training.config.cli import run_recipe
from training.config.start import Start
from training.data.contents import find_shared, list_some
from training.rollouts.division import held_out_contents, require_disjoint
from training.rollouts.task_contents import list_tasks_with_contents
from training.rollouts.tasks import ListedTasks

__all__ = ["main", "tell_contents"]


def tell_contents(
    recipe: AgentEvolRecipe, *, start: Start = Start.NEW, console: Console, write: bool = True
) -> dict[str, ListedTasks]:
    """Tell the contents of a recipe's tasks, and write them beside its folder.

    Args:
        recipe: Names environments, splits, options and, with `judge`, the division.
        start: Ignored: what is there is asked anew.
        console: Gets what is told.
        write: Write files, too.

    Raises:
        RecipeError: A task's content cannot be told, or there are fewer than are asked for.
    """
    listed = list_tasks_with_contents(recipe.rollout, recipe.environments)
    for name, tasks in listed.items():
        console.print(_describe(name, tasks), highlight=False, markup=False, soft_wrap=True)
    contents = {name: tasks.contents for name, tasks in listed.items()}
    folder = recipe.out.with_name(f"{recipe.out.name}-contents")
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "contents.json", json.dumps(contents, indent=1) + "\n")
    if recipe.judge:
        split = divide(recipe, listed, seed=0)
        for name, parts in split.items():
            require_disjoint(name, parts, contents[name])
            sizes = f"{len(parts.learned)} learn, {len(parts.validate)} develop"
            pools = f"judge from {len(parts.judge_pool)} and {len(parts.judge_eval_pool)}"
            console.print(f"{name}: {sizes}, {pools}", highlight=False, markup=False)
        if write:
            held_out_contents(split, contents).write(folder / "held-out-contents.json")
    return listed


def _describe(name: str, tasks: ListedTasks) -> str:
    """Say how many contents there are, and which both splits have."""
    told: dict[str, Mapping[str, str]] = {
        "train": {item: tasks.contents[item] for item in tasks.train},
        "evaluation": {item: tasks.contents[item] for item in tasks.evaluation},
    }
    sizes = ", ".join(
        f"{len(items)} {split} items are {len(set(items.values()))} contents"
        for split, items in told.items()
    )
    often = max(Counter(tasks.contents.values()).values(), default=0)
    lines = [f"{name}: {sizes}; the most frequent one has {often} items"]
    shared = find_shared(told)
    if shared and tasks.train != tasks.evaluation:
        pairs = (" = ".join(dict.fromkeys(where.values())) for where in shared.values())
        lines.append(f"{name}: {len(shared)} contents are in both splits: {list_some(pairs)}")
    return "\n".join(lines)


def _plan(recipe: AgentEvolRecipe, *, start: Start = Start.NEW, console: Console) -> None:
    tell_contents(recipe, start=start, console=console, write=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    program = "python -m training.contents"
    return run_recipe(AgentEvolRecipe, tell_contents, _plan, argv, program=program)


if __name__ == "__main__":
    sys.exit(main())
