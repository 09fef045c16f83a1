"""The game of MAZE: one walk through one maze.

Contains position, step count and what an action does under each profile. The position is a free
cell of the maze.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from env_servers.environments.maze import expert, picture
from env_servers.environments.maze.generator import Shape
from env_servers.environments.maze.grid import Cell, Maze, distances_to_goal
from env_servers.environments.maze.prompt import (
    ACTIONS,
    CONVERSATION_STARTS,
    GRAMMAR,
    INSTRUCTIONS,
    describe,
)
from env_servers.environments.maze.tasks import OFFICIAL_PREFIX, MazeTasks
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)

__all__ = ["STEP_LIMIT", "MazeEnvironment"]

STEP_LIMIT: Final = 50
SUCCESS: Final = "Success\n"
FAILURE: Final = "Failure\n"

_OPTIONS: Final = ("rows", "columns", "braid", "start", "instructions")
_DIRECTION_WORD: Final = re.compile(r"\b(up|down|left|right)\b", re.IGNORECASE)
_LONGEST_READ: Final = 200
"""Characters of an action that the tolerant reader looks at."""
_NOT_A_MOVE: Final = 'That is no move. The moves are "move up", "move down", "move left" and \
"move right".\n'


@dataclass(slots=True)
class _Episode:
    """The state of one walk; a maze never changes."""

    maze: Maze
    position: Cell
    fixed: bool
    walked: tuple[Cell, ...]
    """The start and every cell since, for the picture."""
    steps: int = 0

    def step_as_original(self, action: str) -> Observation:
        """Move for exactly four texts; the step after the last allowed one is a failure."""
        if self.steps >= STEP_LIMIT:
            return Observation(
                FAILURE, reward=-1.0, terminated=True, stop_reason=StopReason.GOAL_FAILED
            )
        self.steps += 1
        direction = ACTIONS.get(action)
        if direction is not None:
            self._move(direction)
        return self._outcome("")

    def step_fixed(self, action: str) -> Observation:
        """Move for any text with one direction word; say what did not work."""
        self.steps += 1
        directions = {word.lower() for word in _DIRECTION_WORD.findall(action[:_LONGEST_READ])}
        remark = _NOT_A_MOVE
        if len(directions) == 1:
            direction = directions.pop()
            before = self.position
            self._move(direction)
            remark = f"A wall blocks the way {direction}.\n" if self.position == before else ""
        observation = self._outcome(remark)
        if self.steps < STEP_LIMIT or observation.terminated:
            return observation
        return observation._replace(truncated=True, stop_reason=StopReason.STEP_LIMIT)

    def _move(self, direction: str) -> None:
        target = self.maze.neighbour(self.position, direction)
        if target != self.position:
            self.position = target
            self.walked += (target,)

    def _outcome(self, remark: str) -> Observation:
        if self.position == self.maze.goal:
            return Observation(
                SUCCESS, reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
            )
        return Observation(remark + describe(self.maze, self.position), reward=0.0)


class MazeEnvironment(EpisodeEnvironment[_Episode]):
    """LMRL-Gym's MAZE as AgentGym serves it, with generated mazes beside the official one."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="maze",
        version="1",
        description="Walk to the goal of a maze of which only the walls beside you are told.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=15,
        has_views=True,
        profiles=("agentgym", "fixed"),
        episode_bytes=16 * 1024,
        item_prefixes=(OFFICIAL_PREFIX,),
    )

    option_names = _OPTIONS

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> MazeTasks:
        return MazeTasks()

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        instructions = options.options.get("instructions", INSTRUCTIONS)
        if not isinstance(instructions, str):
            raise InvalidOption("option instructions is a text")
        maze = self._selected_maze(task, options.options)
        episode = _Episode(maze, maze.start, options.profile == "fixed", (maze.start,))
        return episode, Observation(instructions + describe(maze, maze.start), reward=0.0)

    def step(self, action: str) -> Observation:
        episode = self.episode
        return episode.step_fixed(action) if episode.fixed else episode.step_as_original(action)

    def fork_episode(self, episode: _Episode) -> _Episode:
        return replace(episode)

    def fingerprint(self) -> bytes:
        episode = self.episode
        maze = episode.maze
        state = (maze.rows, maze.goal, episode.position, episode.steps, episode.fixed)
        return repr(state).encode()

    def render(self) -> Sequence[View]:
        return picture.draw(self.episode.maze, self.episode.walked, self.episode.steps)

    def advise_expert(self, seed: int) -> Advice:
        return expert.advise(self.episode.maze, self.episode.position, seed)

    def advise_random(self, rng: random.Random) -> Advice:
        return expert.advise_random(rng)

    def advise_noop(self) -> Advice:
        return expert.advise_noop(self.episode.maze, self.episode.position)

    def _selected_maze(self, task: Task, options: Mapping[str, Any]) -> Maze:
        """Return the task's maze, or what the options make of it; raises InvalidOption."""
        maze: Maze = task.payload
        if any(name in options for name in ("rows", "columns", "braid")):
            maze = self._resized(task, options)
        if "start" not in options:
            return maze
        start = options["start"]
        if not (isinstance(start, list | tuple) and len(start) == 2):
            raise InvalidOption("option start is a list [row, column]")
        cell = (_whole("start", start[0]), _whole("start", start[1]))
        if cell not in distances_to_goal(maze):
            raise InvalidOption(f"option start: {cell} is not a free cell of this maze")
        return Maze(maze.rows, cell, maze.goal)

    def _resized(self, task: Task, options: Mapping[str, Any]) -> Maze:
        tasks = self.tasks
        if not isinstance(tasks, MazeTasks) or task.item_id.startswith(OFFICIAL_PREFIX):
            raise InvalidOption("rows, columns and braid are options of generated mazes")
        own = tasks.shape(task)
        braid = options.get("braid", own.braid)
        if isinstance(braid, bool) or not isinstance(braid, int | float):
            raise InvalidOption("option braid is a number from 0 to 1")
        rows = _whole("rows", options.get("rows", own.rows))
        columns = _whole("columns", options.get("columns", own.columns))
        try:
            shape = Shape(rows, columns, braid)
        except ValueError as error:
            raise InvalidOption(str(error)) from error
        return tasks.resized(task, shape)


def _whole(name: str, value: object) -> int:
    """Return an integer that JSON may have carried as a float; raises InvalidOption."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"option {name} needs whole numbers")
    return value
