"""An environment that repeats what it hears: the smallest episode that still has everything.

Owns nothing but a step count, so that what is measured with it is the system around it. On
request it is slow, hangs, crashes or diverges, for tests of the runtimes that must survive that.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import ClassVar, Final, Self

from env_servers.environments.echo.expert import expert_advice, random_advice
from env_servers.environments.echo.options import EchoOptions
from env_servers.environments.echo.prompt import CONVERSATION_STARTS, GRAMMAR
from env_servers.environments.echo.tasks import echo_tasks
from env_servers.sdk import (
    Advice,
    Environment,
    EnvironmentConfig,
    EnvironmentSpec,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    TaskSet,
)

__all__ = ["EchoEnvironment"]

ECHOED_CHARS: Final = 64
"""How much of an action is repeated."""
EXIT_STATUS: Final = 86
"""Of a process that `exit_at` ended."""

_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz "
_answers_of_process = itertools.count()


class EchoEnvironment(Environment):
    """Counts steps and repeats the action's beginning, padded to a chosen size."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="echo",
        version="1",
        description="Repeats what it hears; for benchmarks, conformance and faults on request.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=20,
        episode_bytes=4096,
    )

    def __init__(self, tasks: TaskSet) -> None:
        super().__init__(tasks)
        self._steps = 0

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        return echo_tasks()

    def reset(self, task: Task, options: ResetOptions) -> Observation:
        self._options = EchoOptions.read(options)
        self._identity = repr((task.item_id, options.seed, self._options)).encode()
        shift = (task.payload + options.seed) % len(_ALPHABET)
        turned = _ALPHABET[shift:] + _ALPHABET[:shift]
        size = self._options.observation_bytes
        self._padding = (turned * (size // len(turned) + 1))[:size]
        self._behaves = self._options.behaves
        self._length = self._options.length
        self._misbehave()
        return Observation(self._padded(f"This is {task.item_id}. Say something. "))

    def step(self, action: str) -> Observation:
        self._steps += 1
        if not self._behaves:
            self._misbehave()
        text = self._padded(f"Step {self._steps}, you said: {action[:ECHOED_CHARS]!a}. ")
        if self._steps != self._length:
            return Observation(text)
        if action:
            return Observation(
                text, reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
            )
        return Observation(text, reward=0.0, terminated=True, stop_reason=StopReason.GOAL_FAILED)

    def fork(self) -> Self:
        copy = type(self)(self.tasks)
        vars(copy).update(vars(self))  # every value is immutable
        return copy

    def fingerprint(self) -> bytes | None:
        if self._options.diverge:
            return None  # the counter is the process's: only the transcript tells
        return b"%d %b" % (self._steps, self._identity)

    def advise_expert(self, seed: int) -> Advice:
        return expert_advice(self._steps, seed)

    def advise_random(self, rng: random.Random) -> Advice:
        return random_advice(rng)

    def _padded(self, head: str) -> str:
        """Exactly `observation_bytes` of ASCII that begin with `head`."""
        if not self._behaves and self._options.diverge:
            head = f"Answer {next(_answers_of_process)} of this process. {head}"
        text = head + self._padding[len(head) :]
        return text[: len(self._padding)]

    def _misbehave(self) -> None:
        options, step = self._options, self._steps
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
