"""One TextCraft episode: craft the goal from basic materials by the commands shown.

Contains the episode's state (what is carried, how many actions were made) and its reward: 1 and the
end when the goal is crafted, 0 before. There is no step limit of its own. The rules are
CraftingGame's, the tasks the task set's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from env_servers.environments.textcraft import picture
from env_servers.environments.textcraft.crafting_game import CraftingGame, Rules
from env_servers.environments.textcraft.expert import advise, random_advice
from env_servers.environments.textcraft.official import RECORDED_PREFIX, first_observation
from env_servers.environments.textcraft.prompt import (
    CONVERSATION_STARTS,
    GRAMMAR,
    GRAMMAR_2024,
)
from env_servers.environments.textcraft.tasks import Assignment, TextCraftTasks, load_tasks
from env_servers.environments.textcraft.world import Recipe, item_id, spoken
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    Grammar,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)

__all__ = ["TextCraft"]

_OPTIONS: Final = {"goal": str, "commands": str, "as_recorded": bool, "play_on": bool}
_ORIGINAL: Final = "original"
"""Further option: which version of the original is followed."""
_MAX_TEXT: Final = 64 * 1024
"""Longest `goal` or `commands` option, in characters."""


@dataclass(slots=True)
class _Episode:
    """The state of one episode."""

    game: CraftingGame
    commands: tuple[str, ...]
    as_recorded: bool
    """Observations look as AgentTraj-L has them."""
    plays_on: bool = False
    """The goal earns its reward and is no end."""
    steps: int = 0
    """Actions so far; they vary only the wording of thoughts."""

    def show(self, text: str) -> str:
        """Return the observation's text: recordings have a prefix and no space at the end."""
        return RECORDED_PREFIX + text.rstrip() if self.as_recorded else text

    @property
    def shown(self) -> list[Recipe]:
        """The recipes behind the commands."""
        return [self.game.world.by_command[command] for command in self.commands]


class TextCraft(EpisodeEnvironment[_Episode]):
    """Craft items from Minecraft recipes."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="textcraft",
        version="2.0.0",
        description="Craft a Minecraft item from basic materials, by listed crafting commands.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=20,
        has_views=True,
        profiles=("agentgym", "fixed"),
        episode_bytes=16 * 1024,
    )
    option_names = (*_OPTIONS, _ORIGINAL)
    tasks: TextCraftTasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TextCraftTasks:
        return load_tasks(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        values = _checked(options.options)
        rules = _rules(options)
        assignment = _assignment(self.tasks, task.payload, values)
        world, commands = self.tasks.world(assignment), self.tasks.commands(assignment)
        game = CraftingGame(world, assignment.goal, rules)
        recorded, plays_on = (values.get(name, False) for name in ("as_recorded", "play_on"))
        episode = _Episode(game, commands, recorded, plays_on)
        first = first_observation(spoken(assignment.goal), commands)
        return episode, Observation(episode.show(first))

    @property
    def grammar(self) -> Grammar:
        """The one of the version that is followed."""
        dated = self.episode.game.rules is Rules.ORIGINAL_2024
        return GRAMMAR_2024 if dated else GRAMMAR

    def step(self, action: str) -> Observation:
        episode = self.episode
        text, reached = episode.game.act(action)
        episode.steps += 1
        if not reached:
            return Observation(episode.show(text), reward=0.0)
        return Observation(
            episode.show(text),
            reward=1.0,
            terminated=not episode.plays_on,
            stop_reason=StopReason.NONE if episode.plays_on else StopReason.GOAL_REACHED,
        )

    def render_error(self, message: str, last: Observation) -> Observation:
        return Observation(self.episode.show(message), reward=0.0)

    def fork_episode(self, episode: _Episode) -> _Episode:
        game = CraftingGame(episode.game.world, episode.game.goal, episode.game.rules)
        game.inventory.update(episode.game.inventory)
        return replace(episode, game=game)

    def fingerprint(self) -> bytes:
        episode = self.episode
        game = episode.game
        carried = list(game.inventory.items())
        state = (game.world.name, game.goal, game.fixed, episode.as_recorded, carried)
        if game.rules is Rules.ORIGINAL_2024:
            state = (*state, game.rules.value)
        if episode.plays_on:
            state = (*state, "plays on")
        return repr(state).encode("utf-8", "backslashreplace")

    def render(self) -> Sequence[View]:
        return picture.draw(self.episode.game, self.episode.shown)

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        game = episode.game
        return advise(game.world, episode.shown, game.goal, game.inventory, seed + episode.steps)

    def advise_random(self, rng: random.Random) -> Advice:
        episode = self.episode
        return random_advice(episode.commands, episode.shown, episode.game.goal, rng)

    def advise_noop(self) -> Advice:
        return Advice("inventory", "I only look at what I carry.")


def _checked(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a reset; raises InvalidOption for one of another type."""
    for name, kind in _OPTIONS.items():
        value = options.get(name)
        if name in options and not isinstance(value, kind):
            raise InvalidOption(f"option {name} must be a {kind.__name__}")
        if isinstance(value, str) and len(value) > _MAX_TEXT:
            raise InvalidOption(f"option {name} is longer than {_MAX_TEXT} characters")
    return options


def _rules(options: ResetOptions) -> Rules:
    """Return whose rules hold; what is to look as recorded is played as recorded by default."""
    if options.profile == "fixed":
        if _ORIGINAL in options.options:
            raise InvalidOption("option original goes with profile agentgym, not with fixed")
        return Rules.FIXED
    recorded = options.options.get("as_recorded", False)
    versions = [Rules.ORIGINAL_2025.value, Rules.ORIGINAL_2024.value]
    return Rules(options.choose(_ORIGINAL, versions[::-1] if recorded else versions))


def _assignment(
    tasks: TextCraftTasks, assigned: Assignment, options: Mapping[str, Any]
) -> Assignment:
    """Return what is asked for: the goal and the commands of the options, else of the task.

    Raises InvalidOption for a goal or a command that does not exist in the world.
    """
    goal = item_id(options["goal"]) if "goal" in options else assigned.goal
    if goal == assigned.goal:
        assignment = assigned
    else:
        assignment = Assignment(assigned.world, goal, assigned.draw)
    if "commands" in options:
        assignment = replace(assignment, recorded=tuple(options["commands"].split("\n")))
        tasks.check_commands(assignment)
    if goal not in tasks.world(assignment).recipes:
        raise InvalidOption(f"option goal: {goal[:100]!r} cannot be crafted in this world")
    return assignment
