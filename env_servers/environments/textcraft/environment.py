"""One TextCraft episode: craft the goal from basic materials by the commands shown.

Contains the episode's state (what is carried, how many actions were made) and its reward: 1 and the
end when the goal is crafted, 0 before. There is no step limit of its own. The rules are
CraftingGame's, the tasks the task set's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from env_servers.environments.textcraft.crafting_game import CraftingGame
from env_servers.environments.textcraft.expert import advise, random_advice
from env_servers.environments.textcraft.official import RECORDED_PREFIX, first_observation
from env_servers.environments.textcraft.prompt import CONVERSATION_STARTS, GRAMMAR
from env_servers.environments.textcraft.tasks import Assignment, TextCraftTasks, load_tasks
from env_servers.environments.textcraft.world import Recipe, World, item_id, spoken
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
)

__all__ = ["TextCraft"]

_OPTIONS: Final = {"goal": str, "commands": str, "as_recorded": bool}
_MAX_TEXT: Final = 64 * 1024
"""Longest `goal` or `commands` option, in characters."""


@dataclass(slots=True)
class _Episode:
    """The state of one episode."""

    game: CraftingGame
    commands: tuple[str, ...]
    as_recorded: bool
    """Observations look as AgentTraj-L has them."""
    source: str
    """Which world, by name."""
    steps: int = 0
    """Actions so far; they vary only the wording of thoughts."""

    def show(self, text: str) -> str:
        """Return the observation's text: recordings have a prefix and no space at the end."""
        return RECORDED_PREFIX + text.rstrip() if self.as_recorded else text

    @property
    def shown(self) -> list[Recipe]:
        """The recipes behind the commands; an injected command may have none."""
        by_command = self.game.world.by_command
        return [by_command[command] for command in self.commands if command in by_command]


class TextCraft(EpisodeEnvironment[_Episode]):
    """Craft items from Minecraft recipes."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="textcraft",
        version="1.0.0",
        description="Craft a Minecraft item from basic materials, by listed crafting commands.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=20,
        profiles=("agentgym", "fixed"),
        episode_bytes=16 * 1024,
    )
    option_names = _OPTIONS
    tasks: TextCraftTasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TextCraftTasks:
        return load_tasks(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        assignment: Assignment = task.payload
        world = self.tasks.worlds[assignment.world]
        values = _checked(dict(options.options))
        goal = item_id(values["goal"]) if "goal" in values else assignment.goal
        commands = _commands(self.tasks, world, assignment, goal, values)
        game = CraftingGame(world, goal, fixed=options.profile == "fixed")
        episode = _Episode(game, commands, values.get("as_recorded", False), assignment.world)
        return episode, Observation(episode.show(first_observation(spoken(goal), commands)))

    def step(self, action: str) -> Observation:
        episode = self.episode
        text, reached = episode.game.act(action)
        episode.steps += 1
        if not reached:
            return Observation(episode.show(text), reward=0.0)
        return Observation(
            episode.show(text),
            reward=1.0,
            terminated=True,
            stop_reason=StopReason.GOAL_REACHED,
        )

    def render_error(self, message: str, last: Observation) -> Observation:
        return Observation(self.episode.show(message), reward=0.0)

    def fork_episode(self, episode: _Episode) -> _Episode:
        game = CraftingGame(episode.game.world, episode.game.goal, fixed=episode.game.fixed)
        game.inventory.update(episode.game.inventory)
        return replace(episode, game=game)

    def fingerprint(self) -> bytes:
        episode = self.episode
        game = episode.game
        carried = list(game.inventory.items())
        state = (episode.source, game.goal, game.fixed, episode.as_recorded, carried)
        return repr(state).encode("utf-8", "backslashreplace")

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        game = episode.game
        return advise(game.world, episode.shown, game.goal, game.inventory, seed + episode.steps)

    def advise_random(self, rng: random.Random) -> Advice:
        episode = self.episode
        return random_advice(episode.commands, episode.shown, episode.game.goal, rng)

    def advise_noop(self) -> Advice:
        return Advice("inventory", "I only look at what I carry.")


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a reset; raises InvalidOption for one of another type."""
    for name, value in options.items():
        if not isinstance(value, _OPTIONS[name]):
            raise InvalidOption(f"option {name} must be a {_OPTIONS[name].__name__}")
        if isinstance(value, str) and len(value) > _MAX_TEXT:
            raise InvalidOption(f"option {name} is longer than {_MAX_TEXT} characters")
    return options


def _commands(
    tasks: TextCraftTasks, world: World, assignment: Assignment, goal: str, options: dict[str, Any]
) -> tuple[str, ...]:
    """Return the commands given, or those of the task, or those drawn for the goal given."""
    if "commands" in options:
        return tuple(options["commands"].split("\n"))
    if goal == assignment.goal:
        return tasks.commands(assignment)
    if goal not in world.recipes:
        raise InvalidOption(f"option goal: {goal!r} cannot be crafted in this world")
    return tasks.commands(Assignment(assignment.world, goal, assignment.draw))
