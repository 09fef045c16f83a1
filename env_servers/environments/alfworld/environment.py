"""One ALFWorld episode: carry out a household task by typed commands.

Contains the episode's state (the game being played, how many commands were given) and what the
agent sees of it: AgentGym's observations, reward 1 and the end when the task is done, else 0, and
TextWorld's limit of 50 commands. The rules are the game's, the games the task set's.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from env_servers.environments.alfworld import picture
from env_servers.environments.alfworld.expert import advise, idle_advice, random_advice
from env_servers.environments.alfworld.play import NativePlay, Play
from env_servers.environments.alfworld.prompt import CONVERSATION_STARTS, GRAMMAR
from env_servers.environments.alfworld.tasks import (
    HELD_OUT,
    NAME,
    AlfworldTasks,
    Source,
    load_tasks,
)
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

__all__ = ["Alfworld"]

STEP_LIMIT: Final = 50
"""Commands after which the original ends an episode; 0 stands for no limit."""
_OPTIONS: Final = ("step_limit", "list_actions", "game", "as_recorded")
_MOST_STEPS: Final = 1_000_000
_ARRIVAL: Final = "You arrive at loc "
_ACTIONS: Final = "\nAVAILABLE ACTIONS: "
_UNREADABLE: Final = "Invalid Action.\n\n"
_PUT: Final = re.compile(r"(?:put|place|move) (.+?) (?:in/on|into|onto|in|on|to) (.+)")
_LONGEST: Final = 500
"""No command of a game is longer; longer texts are not looked at more closely."""


@dataclass(slots=True)
class _Episode:
    """The state of one episode."""

    play: Play
    source: Source
    fixed: bool
    step_limit: int
    list_actions: bool
    """Every observation lists the available actions, not only the first."""
    shown: str = ""
    """The last observation, without the actions."""
    steps: int = 0


class Alfworld(EpisodeEnvironment[_Episode]):
    """Household tasks of six kinds, in ALFWorld's games."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name=NAME,
        version="1.0.0",
        description="Carry out a household task: find, clean, heat, cool, place, look at things.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=30,
        has_views=True,
        profiles=("agentgym", "fixed"),
        episode_bytes=256 * 1024,
        item_prefixes=tuple(f"{NAME}_{split}" for split in HELD_OUT),
    )
    option_names = _OPTIONS
    tasks: AlfworldTasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> AlfworldTasks:
        return load_tasks(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        values = options.options
        fixed = options.profile == "fixed"
        step_limit = _whole("step_limit", values.get("step_limit", STEP_LIMIT))
        list_actions = _boolean("list_actions", values.get("list_actions", fixed))
        as_recorded = _boolean("as_recorded", values.get("as_recorded", False))
        source = task.payload
        if "game" in values:
            source = self.tasks.named(values["game"])
        play = self._play(source)
        episode = _Episode(play, source, fixed, step_limit, list_actions)
        if as_recorded:
            episode.shown = play.intro()
            return episode, Observation(episode.shown)
        # The original drops what stands before the first blank line, and joins the rest.
        episode.shown = "\n".join(play.intro().split("\n\n")[1:])
        info = {"task_type": _folder(source)} if list_actions else None
        return episode, Observation(episode.shown + _available(play), info=info)

    def step(self, action: str) -> Observation:
        episode = self.episode
        text, won = self._play_command(action)
        episode.steps += 1
        episode.shown = text
        if episode.list_actions:
            text += _available(episode.play)
        if won:
            stop = StopReason.GOAL_REACHED
            return Observation(text, reward=1.0, terminated=True, stop_reason=stop)
        if episode.step_limit and episode.steps >= episode.step_limit:
            stop = StopReason.STEP_LIMIT
            return Observation(text, reward=0.0, truncated=True, stop_reason=stop)
        return Observation(text, reward=0.0)

    def render_error(self, message: str, last: Observation) -> Observation:
        episode = self.episode
        if message.startswith(_UNREADABLE):
            message = _UNREADABLE + episode.shown + _available(episode.play)
        return Observation(message, reward=0.0)

    def fork_episode(self, episode: _Episode) -> _Episode:
        return replace(episode, play=episode.play.fork())

    def close_episode(self, episode: _Episode) -> None:
        episode.play.close()

    def fingerprint(self) -> bytes:
        episode = self.episode
        play = episode.play
        changes = play.state.difference(play.game.first)
        rules = (episode.source, episode.fixed, episode.step_limit, episode.list_actions)
        steps = episode.steps if episode.step_limit else 0
        return repr((rules, steps, episode.shown, changes)).encode("utf-8", "backslashreplace")

    def render(self) -> Sequence[View]:
        play = self.episode.play
        return picture.draw(play.game, play.state, self.episode.steps)

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        return advise(episode.play, seed + episode.steps)

    def advise_random(self, rng: random.Random) -> Advice:
        return random_advice(self.episode.play, rng)

    def advise_noop(self) -> Advice:
        return idle_advice()

    def _play(self, source: Source) -> Play:
        game = self.tasks.game(source)
        if self.tasks.engine == "native":
            return NativePlay(game)
        from env_servers.environments.alfworld.reference import ReferencePlay

        return ReferencePlay(game, self.tasks.game_file(source))

    def _play_command(self, action: str) -> tuple[str, bool]:
        """Return what the agent is told about an action, and whether the task is done."""
        episode = self.episode
        if episode.fixed:
            action = _mended(episode.play, action)
        text, won = episode.play.act(action)
        if text.startswith(_ARRIVAL):
            text = text[text.find(". ") + 2 :]
        return text, won


def _folder(source: Source) -> str:
    """Return the folder of an official game, without its split, as the original names its type."""
    return source.path.partition("/")[2]


def _available(play: Play) -> str:
    return _ACTIONS + ",".join(play.admissible())


def _mended(play: Play, action: str) -> str:
    """Return the command that is meant, whatever its case, blanks and words for putting."""
    if len(action) > _LONGEST:
        return action
    plain = " ".join(action.lower().split()).rstrip(".")
    forms = [plain]
    if put := _PUT.fullmatch(plain):
        forms += [f"put {put[1]} in/on {put[2]}", f"move {put[1]} to {put[2]}"]
    return next((form for form in forms if play.game.find(play.state, form)), plain)


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"option {name} must be a boolean")
    return value


def _whole(name: str, value: Any) -> int:
    """Return a whole number from 0 up, which may arrive as a float."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value != value or not 0 <= value <= _MOST_STEPS or value != int(value):
        raise InvalidOption(f"option {name} must be a whole number from 0 to {_MOST_STEPS}")
    return int(value)
