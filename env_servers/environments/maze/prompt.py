"""What a MAZE conversation begins with: task text, worked example, action formats.

As in the original, the rules stand in the first observation and only the reply format stands before
it. The example is a real game: a test plays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from env_servers.environments.maze.grid import DIRECTIONS, Cell, Maze
from env_servers.sdk import (
    ActionFormat,
    ConversationStart,
    Grammar,
    Parameter,
    Verb,
    read_first_action,
)

__all__ = [
    "ACTIONS",
    "CONVERSATION_STARTS",
    "EXAMPLE_MAZE",
    "GRAMMAR",
    "INSTRUCTIONS",
    "describe",
]

ACTIONS: Final[Mapping[str, str]] = {f"move {direction}": direction for direction in DIRECTIONS}
"""Native action -> direction."""

_SIDES: Final = (
    ("right", "to your right"),
    ("left", "to your left"),
    ("up", "above you"),
    ("down", "below you"),
)
"""Directions in the order and words in which walls are told."""


def describe(maze: Maze, position: Cell) -> str:
    """Return one observation: goal, position, walls; ends with a newline as recorded games do."""
    beside = maze.walls(position)
    sides = [words for direction, words in _SIDES if direction in beside]
    if not sides:
        walls = "There are no walls near you."
    else:
        verb = "is a wall" if len(sides) == 1 else "are walls"
        walls = f"There {verb} {', '.join(sides)}."
    goal = f"The goal is at position {maze.goal[0]}, {maze.goal[1]}."
    return f"{goal} Your current position is at position {position[0]}, {position[1]}. {walls}\n"


EXAMPLE_MAZE: Final = Maze(("#####", "#...#", "#.#.#", "#.###", "#####"), (3, 1), (2, 3))
"""The maze of the worked example below."""

INSTRUCTIONS: Final = """\
You stand in a maze and have to walk to its goal; the fewer moves you need, the better. After \
every move you are told three things: where the goal is, where you are, and on which sides of you \
there is a wall. You see nothing else of the maze.

A position is a row number followed by a column number. "move down" adds 1 to the row and \
"move up" takes 1 from it; "move right" adds 1 to the column and "move left" takes 1 from it. A \
move into a wall leaves you where you are, and so does anything that is not one of the four moves \
"move up", "move down", "move left" and "move right". The straight line to the goal is often \
blocked, so the right way may lead away from the goal for a while.

This is a short game in another maze, with one wasted move:

```
environment: The goal is at position 2, 3. Your current position is at position 3, 1. There are \
walls to your right, to your left, below you.
action: move right
environment: The goal is at position 2, 3. Your current position is at position 3, 1. There are \
walls to your right, to your left, below you.
action: move up
environment: The goal is at position 2, 3. Your current position is at position 2, 1. There are \
walls to your right, to your left.
action: move up
environment: The goal is at position 2, 3. Your current position is at position 1, 1. There are \
walls to your left, above you.
action: move right
environment: The goal is at position 2, 3. Your current position is at position 1, 2. There are \
walls above you, below you.
action: move right
environment: The goal is at position 2, 3. Your current position is at position 1, 3. There are \
walls to your right, above you.
action: move down
environment: Success
```

A new game begins here. Choose one move at a time, in the reply format that was agreed on. This is \
what you see now:
"""
"""The rules, which stand before the first view of the maze."""


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    return "move", {"direction": action.removeprefix("move ")}


GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "move",
            "Go one cell in a direction; a wall in the way leaves you where you are.",
            "move {direction}",
            (Parameter("direction", description="Where to go.", enum=tuple(DIRECTIONS)),),
        ),
    ),
    read_react=read_first_action,
    express=_express,
    drops_end_mark=True,
)

_ROLE: Final = "You are good at finding the way through mazes, and you will now be put into one. "

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(
        _ROLE + "Every reply of yours makes one move and has exactly this form:\n\n"
        "Thought:\n<why you choose this move>\n\nAction:\n<the move, for example: move up>\n\n"
        "Write nothing after the move."
    ),
    ActionFormat.FUNCTION_CALLING: ConversationStart(
        _ROLE + "Every reply of yours makes one move and is a single JSON object with the keys "
        '"thought" (why you choose this move), "function_name" and "arguments". There is one '
        'function, "move", whose argument "direction" is "up", "down", "left" or "right". '
        "For example:\n"
        '{"thought": "The goal is above me and no wall is in the way.", '
        '"function_name": "move", "arguments": {"direction": "up"}}'
    ),
    ActionFormat.CODE_AS_ACTION: ConversationStart(
        _ROLE + "Every reply of yours makes one move and is a fenced Python block: a comment that "
        "says why you choose this move, then one call of move(direction), where the direction "
        'is "up", "down", "left" or "right". For example:\n'
        '```python\n# The goal is above me and no wall is in the way.\nmove(direction="up")\n```'
    ),
}
