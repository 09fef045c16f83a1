"""The scripted players of MAZE.

The expert walks a shortest way by the map, which the agent never sees; its thought says what the
move does for the distance.
"""

from __future__ import annotations

import random
from typing import Final

from env_servers.environments.maze.grid import DIRECTIONS, Cell, Maze, distances_to_goal
from env_servers.sdk import Advice

__all__ = ["advise", "advise_noop", "advise_random"]

_OPEN: Final = (
    "From {here} the shortest way to the goal at {goal} goes {direction}; {left} after this.",
    "I am at {here} and the goal is at {goal}. Going {direction} is on a shortest way: {left}.",
    "No wall is in the way {direction}, and from there it is {left} to the goal at {goal}.",
)
_DETOUR: Final = (
    "The goal is at {goal}, but the open way from {here} goes {direction} first; {left} after it.",
    "I have to go around: {direction} leads away from {goal} for now, and then it is {left}.",
    "Going {direction} from {here} is a detour that the walls force on me; {left} remain after it.",
)
_LAST: Final = (
    "The goal at {goal} is right beside me: one move {direction} and I am there.",
    "I am at {here}, next to the goal. Moving {direction} reaches it.",
)


def advise(maze: Maze, position: Cell, seed: int) -> Advice:
    """The first move of a shortest way to the goal; ties are broken up, down, left, right."""
    distances = distances_to_goal(maze)
    if not distances[position]:
        return advise_noop(maze, position)
    direction = min(DIRECTIONS, key=lambda name: distances[maze.neighbour(position, name)])
    target = maze.neighbour(position, direction)
    left = distances[target]
    away = _straight(target, maze.goal) > _straight(position, maze.goal)
    wordings = _LAST if left == 0 else _DETOUR if away else _OPEN
    thought = wordings[seed % len(wordings)].format(
        here=f"{position[0]}, {position[1]}",
        goal=f"{maze.goal[0]}, {maze.goal[1]}",
        direction=direction,
        left="1 more move" if left == 1 else f"{left} more moves",
    )
    return Advice(f"move {direction}", thought)


def advise_random(rng: random.Random) -> Advice:
    """Return one of the four moves, whatever is in the way."""
    directions = tuple(DIRECTIONS)
    return Advice(f"move {directions[rng.randrange(len(directions))]}", "I try any direction.")


def advise_noop(maze: Maze, position: Cell) -> Advice:
    """Return a move into a wall beside the position, or no action where there is none."""
    blocked = [name for name in DIRECTIONS if name in maze.walls(position)]
    return Advice(f"move {blocked[0]}" if blocked else "", "I stay where I am.")


def _straight(cell: Cell, goal: Cell) -> int:
    """Moves that would lead to the goal if there were no walls."""
    return abs(cell[0] - goal[0]) + abs(cell[1] - goal[1])
