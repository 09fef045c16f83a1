"""What the scripted players do: the moves of a task's solution, or something at random."""

from __future__ import annotations

import random
from typing import Final

from env_servers.environments.shell.prompt import SUBMIT
from env_servers.environments.shell.puzzle import Puzzle
from env_servers.environments.shell.tree import Tree
from env_servers.sdk import Advice

__all__ = ["next_move", "random_advice"]

_DONE: Final = (
    "Everything is as it was asked for, so I hand it in.",
    "That was the last thing to do. I hand the folder in.",
    "The work is done, and I submit it.",
)


def next_move(puzzle: Puzzle, solved: int, wording: int) -> Advice:
    """Return the move after the first `solved` ones of the solution; after the last, handing in."""
    if solved < len(puzzle.solution):
        move = puzzle.solution[solved]
        return Advice(move.command, move.reason)
    return Advice(SUBMIT, _DONE[wording % len(_DONE)])


def random_advice(tree: Tree, rng: random.Random) -> Advice:
    """Return a command that looks at a file or changes one."""
    files = tree.files
    name = _quoted(rng.choice(files)) if files else "."
    commands = (
        *("ls -l", "pwd", f"wc {name}", f"head -n 3 {name}", f"sort {name} | tail -n 2"),
        *(f"cp {name} copy.txt", f"rm {name}", "echo 7 > answer.txt", f"grep -c a {name}"),
    )
    return Advice(rng.choice(commands), "I try something.")


def _quoted(path: str) -> str:
    """Return a path as one word of a command; `*` stands for one that cannot be written down."""
    if not path.isprintable() or not path.isascii():
        return "*"
    return "'" + path.replace("'", "'\\''") + "'"
