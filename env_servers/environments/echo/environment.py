"""An environment that repeats what it hears: the smallest episode that still has everything.

Contains nothing but a step count, so that what is measured with it is the system around it. On
request it is slow, hangs, crashes or diverges, for tests of the runtimes that must survive that.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from env_servers.environments.echo.expert import expert_advice, random_advice
from env_servers.environments.echo.options import OPTION_NAMES, EchoOptions
from env_servers.environments.echo.prompt import CONVERSATION_STARTS, GRAMMAR
from env_servers.environments.echo.tasks import echo_tasks
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    Image,
    ImageType,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    TaskSet,
    View,
)
from env_servers.toolkit.drawing import text_view
from env_servers.toolkit.png import encode_png

__all__ = ["EchoEnvironment"]

ECHOED_CHARS: Final = 64
"""How much of an action is repeated."""
EXIT_STATUS: Final = 86
"""Of a process that `exit_at` ended."""

_BAR_CHARS: Final = 60
"""Of each half of a view's bar."""
_LEAST_SIDE: Final = 8
"""Pixels of an image's side."""
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz "
_answers_of_process = itertools.count()


@dataclass(slots=True)
class _Episode:
    """The state of one episode; all values are immutable."""

    options: EchoOptions
    behaves: bool
    """No fault and no delay was asked for; kept because every step asks."""
    identity: bytes
    padding: str
    """As long as an observation has to be."""
    steps: int = 0

    def padded(self, head: str) -> str:
        """Return exactly `observation_bytes` of ASCII that begin with `head`."""
        if not self.behaves and self.options.diverge:
            head = f"Answer {next(_answers_of_process)} of this process. {head}"
        text = head + self.padding[len(head) :]
        return text[: len(self.padding)]

    def images(self) -> tuple[Image, ...]:
        """Return squares of a colour for each step and place, as many and as long as asked for."""
        count = self.options.images
        if not count:
            return ()
        side = max(math.isqrt(max(self.options.image_bytes - 1, 0)) + 1, _LEAST_SIDE)
        colors = [bytes((self.steps * 16 % 256, number * 8, 128)) for number in range(count)]
        return tuple(
            Image(ImageType.PNG, encode_png(side, bytes(side * side), color)) for color in colors
        )

    def misbehave(self) -> None:
        """Wait, hang, crash or end the process, as the options ask of this step."""
        options, step = self.options, self.steps
        if options.spin_ms and step:
            end = time.perf_counter() + options.spin_ms / 1000
            while time.perf_counter() < end:
                pass
        if options.sleep_ms and step:
            time.sleep(options.sleep_ms / 1000)
        if step == options.crash_at:
            raise RuntimeError(f"echo was asked to crash at step {step}")
        if step == options.hang_at:
            while True:
                pass
        if step == options.hang_sleep_at:
            time.sleep(3600)
        if step == options.exit_at:
            os._exit(EXIT_STATUS)


class EchoEnvironment(EpisodeEnvironment[_Episode]):
    """Counts steps and repeats the action's beginning, padded to a chosen size."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="echo",
        version="1",
        description="Repeats what it hears; for benchmarks, conformance and faults on request.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=20,
        has_views=True,
        has_images=True,
        episode_bytes=4096,
    )

    option_names = OPTION_NAMES

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        return echo_tasks()

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        behaviour = EchoOptions.read(options)
        shift = (task.payload + options.seed) % len(_ALPHABET)
        turned = _ALPHABET[shift:] + _ALPHABET[:shift]
        size = behaviour.observation_bytes
        episode = _Episode(
            options=behaviour,
            behaves=behaviour.behaves,
            identity=repr((task.item_id, options.seed, behaviour)).encode(),
            padding=(turned * (size // len(turned) + 1))[:size],
        )
        episode.misbehave()
        text = episode.padded(f"This is {task.item_id}. Say something. ")
        return episode, Observation(text, images=episode.images())

    def step(self, action: str) -> Observation:
        episode = self.episode
        episode.steps += 1
        if not episode.behaves:
            episode.misbehave()
        text = episode.padded(f"Step {episode.steps}, you said: {action[:ECHOED_CHARS]!a}. ")
        options = episode.options
        if episode.steps != options.length:
            # Asked here, too: every step of a benchmark passes.
            return Observation(text, images=episode.images() if options.images else ())
        reached = bool(action)
        return Observation(
            text,
            reward=float(reached),
            terminated=True,
            stop_reason=StopReason.GOAL_REACHED if reached else StopReason.GOAL_FAILED,
            images=episode.images(),
        )

    def fork_episode(self, episode: _Episode) -> _Episode:
        return replace(episode)

    def fingerprint(self) -> bytes | None:
        episode = self.episode
        if episode.options.diverge:
            return None  # the counter is the process's: only the transcript tells
        return b"%d %b" % (episode.steps, episode.identity)

    def render(self) -> Sequence[View]:
        steps, options = self.episode.steps, self.episode.options
        bar = "#" * min(steps, _BAR_CHARS) + "." * min(options.length - steps, _BAR_CHARS)
        text = f"step {steps} of {options.length or 'any number'}\n{bar}\n"
        return [text_view("steps", "Steps", text.ljust(options.view_bytes))]

    def advise_expert(self, seed: int) -> Advice:
        return expert_advice(self.episode.steps, seed)

    def advise_random(self, rng: random.Random) -> Advice:
        return random_advice(rng)
