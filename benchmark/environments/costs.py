"""What one environment costs, measured in a process of its own; prints a line of JSON.

The scripted expert plays train tasks through the object that every server steps
(`LoadedEnvironment`), so that an observation's hash counts as well. The only imports are the
standard library, psutil and `env_servers`: `python -P costs.py NAME` measures whichever checkout is
on PYTHONPATH, an older one too. CPU time of the calling thread, because machines are shared; what
other processes and threads of an environment use is in the means of the whole family.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Final

import psutil

from env_servers.sdk import EnvironmentConfig
from env_servers.server.inputs import Action
from env_servers.server.instance import EnvironmentInstance, LoadedEnvironment, ResetSpec

__all__ = ["Costs", "measure"]

HELD: Final = 200
"""Live episodes whose memory is measured together."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of CPU unless the name says otherwise."""

    items: int
    steps: int
    step_p50: float
    step_p90: float
    episode_ms: float
    """Milliseconds of a whole episode, mean: reset, advices and steps, in all of the environment's
    processes and threads."""
    first_reset_p50: float
    """Of a task that this process never saw."""
    reset_p50: float
    """Of a task that was reset before."""
    reset_p90: float
    advice_p50: float
    episodes_held: int
    kib_per_episode: float
    """Growth of the family's resident memory by an episode two steps into its play."""


@dataclass(slots=True)
class _Times:
    """Nanoseconds of every call."""

    first_resets: list[int] = field(default_factory=list[int])
    resets: list[int] = field(default_factory=list[int])
    steps: list[int] = field(default_factory=list[int])
    advices: list[int] = field(default_factory=list[int])


def measure(name: str, items: int, held: int) -> Costs:
    """Play `items` train tasks twice, then hold `held` episodes at once; raises SdkError."""
    loaded = LoadedEnvironment(name, EnvironmentConfig())
    family = psutil.Process()
    specs = [_spec(loaded, item_id) for item_id in loaded.tasks.item_ids("train", 0, items)]
    times = _Times()
    try:
        # Imports and engines that start with the first episode are nobody's cost.
        _play(loaded, specs[0], _Times())
        for spec in specs:
            _timed_open(loaded, spec, times.first_resets).environment.close()
        family_seconds = _family_cpu(family)
        for spec in specs:
            _play(loaded, spec, times)
        family_seconds = _family_cpu(family) - family_seconds
        kib = _memory(loaded, [specs[number % len(specs)] for number in range(held)], family)
    finally:
        loaded.tasks.close()
    return Costs(
        items=len(specs),
        steps=len(times.steps),
        step_p50=_microseconds(times.steps, 0.5),
        step_p90=_microseconds(times.steps, 0.9),
        episode_ms=round(family_seconds * 1e3 / len(specs), 3),
        first_reset_p50=_microseconds(times.first_resets, 0.5),
        reset_p50=_microseconds(times.resets, 0.5),
        reset_p90=_microseconds(times.resets, 0.9),
        advice_p50=_microseconds(times.advices, 0.5),
        episodes_held=held,
        kib_per_episode=round(kib, 1),
    )


def _spec(loaded: LoadedEnvironment, item_id: str) -> ResetSpec:
    spec = loaded.spec
    action_format = next(iter(spec.conversation_starts))
    return ResetSpec(spec.name, item_id, 0, spec.profiles[0], action_format, {})


def _timed_open(
    loaded: LoadedEnvironment, spec: ResetSpec, times: list[int]
) -> EnvironmentInstance:
    started = time.thread_time_ns()
    instance, _ = loaded.begin(spec)
    times.append(time.thread_time_ns() - started)
    return instance


def _play(loaded: LoadedEnvironment, spec: ResetSpec, times: _Times) -> None:
    """Play one episode to its end as the expert does."""
    clock = time.thread_time_ns
    instance = _timed_open(loaded, spec, times.resets)
    for turn in range(loaded.spec.max_rounds):
        started = clock()
        advice = instance.environment.advise_expert(turn)
        advised = clock()
        result = instance.step(Action(advice.action))
        times.steps.append(clock() - advised)
        times.advices.append(advised - started)
        if result.observation.terminated or result.observation.truncated:
            break
    instance.environment.close()


def _memory(loaded: LoadedEnvironment, specs: list[ResetSpec], family: psutil.Process) -> float:
    """KiB that one of these episodes adds, all of them live in the middle of their play."""
    gc.collect()
    before = _resident(family)
    live: list[EnvironmentInstance] = []
    for spec in specs:
        instance, _ = loaded.begin(spec)
        for turn in range(2):
            advice = instance.environment.advise_expert(turn)
            if instance.step(Action(advice.action)).observation.terminated:
                break
        live.append(instance)
    gc.collect()
    grown = _resident(family) - before
    for instance in live:
        instance.environment.close()
    return grown / 1024 / len(live)


def _resident(family: psutil.Process) -> int:
    processes = (family, *family.children(recursive=True))
    return sum(process.memory_info().rss for process in processes)


def _family_cpu(family: psutil.Process) -> float:
    """Seconds of CPU of the process and its children that are alive; theirs to 10 ms."""
    children = family.children(recursive=True)
    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in children)


def _microseconds(nanoseconds: list[int], quantile: float) -> float:
    if quantile == 0.5:
        return round(median(nanoseconds) / 1e3, 1)
    ordered = sorted(nanoseconds)
    return round(ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] / 1e3, 1)


if __name__ == "__main__":
    _name, _items, _held = sys.argv[1:]
    sys.stdout.write(json.dumps(asdict(measure(_name, int(_items), int(_held)))) + "\n")
