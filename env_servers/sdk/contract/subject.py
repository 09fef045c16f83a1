"""What a contract is checked on: one environment, its tasks, and sample episodes of it.

Samples are made once and shared by all checks; they depend on nothing but the terms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from env_servers.sdk.contract.hostile import SHORT_TEXTS
from env_servers.sdk.contract.rehearsal import (
    Script,
    begin,
    ended,
    rehearse,
    scrambled_global_rng,
)
from env_servers.sdk.environment import Environment, EnvironmentConfig, EnvironmentSpec
from env_servers.sdk.errors import InvalidOption
from env_servers.sdk.tasks import TaskSet
from env_servers.sdk.types import Advice, Observation

__all__ = ["ExpertPlay", "NotApplicable", "Subject", "Terms", "final_score"]


class NotApplicable(Exception):
    """Raised when an environment does not promise what a check asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How much is played, and what an environment's players must reach."""

    items: tuple[str, ...] = ()
    """Item ids to play; empty = evenly spaced ones of every split."""
    items_per_split: int = 3
    """Items of each split in the samples that most checks play."""
    expert_items_per_split: int = 10
    """Items of each split that the expert must solve."""
    steps: int = 30
    """Steps of a random sample episode."""
    expert_success: float = 1.0
    """Least share of items that the expert solves within `max_rounds`."""
    noop_score: float = 0.0
    """Highest score that doing nothing may earn."""
    image_options: Mapping[str, Any] = field(default_factory=lambda: {"images": True})
    """Options of a reset that ask for images, where the environment has some."""


@dataclass(frozen=True, slots=True)
class ExpertPlay:
    """An episode that the scripted expert played."""

    script: Script
    advices: tuple[Advice, ...]
    last: Observation


class Subject:
    """An environment under check."""

    def __init__(
        self,
        environment: type[Environment],
        config: EnvironmentConfig,
        terms: Terms,
        *,
        registered_name: str = "",
    ) -> None:
        """Loads the tasks; raises EnvironmentUnavailable.

        `registered_name` is what the registry was asked for; empty = it was handed over as a class.
        """
        self.registered_name = registered_name
        self.environment = environment
        self.config = config
        self.terms = terms
        self.tasks: TaskSet = environment.load_tasks(config)
        self._records: dict[int, tuple[str, ...]] = {}

    @property
    def spec(self) -> EnvironmentSpec:
        return self.environment.spec

    def items(self, per_split: int) -> tuple[str, ...]:
        """The items of the terms, or `per_split` evenly spaced ones of every split."""
        if self.terms.items:
            return self.terms.items
        item_ids: list[str] = []
        for split, size in self.tasks.splits().items():
            indexes = sorted({size * k // per_split for k in range(min(per_split, size))})
            for index in indexes:
                item_ids += self.tasks.item_ids(split, index, index + 1)
        return tuple(item_ids)

    def script(self, item_id: str, seed: int = 0) -> Script:
        """An empty script in the default profile."""
        return Script(item_id, (), seed, self.spec.profiles[0])

    def unplayed_scripts(self, per_split: int) -> tuple[Script, ...]:
        """Empty scripts of the items, and of a few of them in each further profile."""
        scripts = [
            self.script(item, seed=number) for number, item in enumerate(self.items(per_split))
        ]
        for profile in self.spec.profiles[1:]:
            scripts += [replace(self.script(item), profile=profile) for item in self.items(1)]
        return tuple(scripts)

    def begin(self, script: Script) -> tuple[Environment, Observation]:
        """Start a new episode of the script."""
        return begin(self.environment, self.tasks, script)

    def rehearse(self, script: Script) -> tuple[str, ...]:
        """The records of one more rehearsal."""
        return rehearse(self.environment, self.tasks, script)

    def reference(self, index: int) -> tuple[str, ...]:
        """The records of the first rehearsal of `scripts[index]`, played alone."""
        if index not in self._records:
            with scrambled_global_rng(index):
                self._records[index] = self.rehearse(self.scripts[index])
        return self._records[index]

    @cached_property
    def scripts(self) -> tuple[Script, ...]:
        """For each sample item a random episode with some nonsense in it, and the expert's."""
        scripts: list[Script] = []
        for unplayed in self.unplayed_scripts(self.terms.items_per_split):
            scripts.append(self._random_script(unplayed))
            if self.spec.has_expert:
                scripts.append(self.play_expert(unplayed).script)
        return tuple(scripts)

    @cached_property
    def expert_plays(self) -> tuple[ExpertPlay, ...]:
        """The expert on its items; raises NotApplicable where there is none."""
        if not self.spec.has_expert:
            raise NotApplicable("the environment has no expert")
        unplayed_scripts = self.unplayed_scripts(self.terms.expert_items_per_split)
        return tuple(
            self.play_expert(unplayed, wording) for wording, unplayed in enumerate(unplayed_scripts)
        )

    def play_expert(self, unplayed: Script, wording: int = 0) -> ExpertPlay:
        """The expert's episode, ended by the game or by `max_rounds`."""
        return self._play(unplayed, lambda episode: episode.advise_expert(wording))

    def play_noop(self, unplayed: Script) -> ExpertPlay:
        """An episode in which nothing is done, for `max_rounds`."""
        return self._play(unplayed, lambda episode: episode.advise_noop())

    def _play(self, unplayed: Script, advise: Callable[[Environment], Advice]) -> ExpertPlay:
        episode, observation = self.begin(unplayed)
        advices: list[Advice] = []
        while not ended(observation) and len(advices) < self.spec.max_rounds:
            advices.append(advise(episode))
            observation = episode.step(advices[-1].action)
        episode.close()
        actions = tuple(advice.action for advice in advices)
        return ExpertPlay(replace(unplayed, actions=actions), tuple(advices), observation)

    def _random_script(self, unplayed: Script) -> Script:
        rng = random.Random(unplayed.seed)
        episode, observation = self.begin(unplayed)
        actions: list[str] = []
        while not ended(observation) and len(actions) < self.terms.steps:
            actions.append(self._random_action(episode, rng, len(actions)))
            observation = episode.step(actions[-1])
        episode.close()
        return replace(unplayed, actions=tuple(actions))

    def _random_action(self, episode: Environment, rng: random.Random, step: int) -> str:
        nonsense = SHORT_TEXTS[step % len(SHORT_TEXTS)]
        if step % 5 == 4:
            return nonsense
        try:
            return episode.advise_random(rng).action
        except InvalidOption:
            return nonsense


def final_score(observation: Observation) -> float | None:
    """What an episode that ended here would score."""
    return observation.reward if observation.score is None else observation.score
