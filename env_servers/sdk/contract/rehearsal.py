"""Plays fixed lists of actions and writes down everything that an agent or a replay could see.

Two rehearsals agree exactly when their records are equal strings, whichever process made them.
Knows nothing of checks.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from env_servers.sdk.environment import Environment, EnvironmentConfig
from env_servers.sdk.images import proof_of
from env_servers.sdk.tasks import TaskSet
from env_servers.sdk.types import Observation, ResetOptions

__all__ = [
    "Rehearsal",
    "Script",
    "answer",
    "begin",
    "ended",
    "first_difference",
    "record",
    "rehearse",
    "rehearse_elsewhere",
    "scrambled_global_rng",
]

_TIMEOUT_S: Final = 600.0
_CHILD: Final = "from env_servers.sdk.contract.rehearsal import answer; answer()"


@dataclass(frozen=True, slots=True)
class Script:
    """One episode as data: how it opens and what is done in it."""

    item_id: str
    actions: tuple[str, ...]
    seed: int = 0
    profile: str = "agentgym"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What another process saw: its task set's digest and the records of each script."""

    digest: str
    records: tuple[tuple[str, ...], ...]


def begin(
    environment: type[Environment], tasks: TaskSet, script: Script
) -> tuple[Environment, Observation]:
    """A new episode of the script's item and its first observation; no action is played."""
    episode = environment(tasks)
    options = ResetOptions(seed=script.seed, profile=script.profile, options=script.options)
    return episode, episode.reset(tasks.get(script.item_id), options)


def ended(observation: Observation) -> bool:
    """Whether no action may follow."""
    return observation.terminated or observation.truncated


def record(episode: Environment, observation: Observation) -> str:
    """The observation and the hidden state as one comparable line of JSON."""
    fingerprint = episode.fingerprint()
    info = None if observation.info is None else dict(observation.info)
    return json.dumps(
        {
            "text": observation.text,
            "reward": observation.reward,
            "score": observation.score,
            "ended": [bool(observation.terminated), bool(observation.truncated)],
            "stop_reason": int(observation.stop_reason),
            "info": info,
            "images": proof_of(observation.images).hex(),
            "fingerprint": None if fingerprint is None else fingerprint.hex(),
        },
        default=repr,
        sort_keys=True,
    )


def rehearse(environment: type[Environment], tasks: TaskSet, script: Script) -> tuple[str, ...]:
    """Records of the reset and of each step, until the script or the episode ends."""
    episode, observation = begin(environment, tasks, script)
    records = [record(episode, observation)]
    for action in script.actions:
        if ended(observation):
            break
        observation = episode.step(action)
        records.append(record(episode, observation))
    episode.close()
    return tuple(records)


def first_difference(expected: Sequence[str], actual: Sequence[str]) -> str:
    """Where two rehearsals part and what each shows there; empty where they agree."""
    for step, (one, other) in enumerate(zip(expected, actual, strict=False)):
        if one != other:
            left, right = json.loads(one), json.loads(other)
            keys = [key for key in left if left[key] != right[key]]
            pairs = [f"{key} {left[key]!r:.120} != {right[key]!r:.120}" for key in keys]
            return f"step {step}: {'; '.join(pairs)}"
    if len(expected) != len(actual):
        return f"{len(expected) - 1} steps != {len(actual) - 1} steps"
    return ""


@contextmanager
def scrambled_global_rng(seed: int) -> Generator[None, None, None]:
    """Puts the process-wide generators, which no environment may use, into a known state."""
    state = random.getstate()
    numpy: Any = sys.modules.get("numpy")
    numpy_state = None if numpy is None else numpy.random.get_state()
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


def rehearse_elsewhere(
    environment: type[Environment],
    config: EnvironmentConfig,
    scripts: Sequence[Script],
    hash_seeds: Sequence[int],
) -> list[Rehearsal]:
    """The same rehearsals in a fresh process for each PYTHONHASHSEED, side by side.

    The class must be importable. Raises RuntimeError with the end of a process's stderr.
    """
    question = json.dumps(
        {
            "module": environment.__module__,
            "qualname": environment.__qualname__,
            "data_dir": None if config.data_dir is None else str(config.data_dir),
            "settings": dict(config.settings),
            "scripts": [asdict(script) for script in scripts],
        }
    )
    children = [_child(seed) for seed in hash_seeds]
    try:
        return [_asked(child, question) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def _child(hash_seed: int) -> subprocess.Popen[str]:
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(hash_seed)},
    )


def _asked(child: subprocess.Popen[str], question: str) -> Rehearsal:
    out, err = child.communicate(question, timeout=_TIMEOUT_S)
    if child.returncode != 0 or not out.strip():
        raise RuntimeError(f"a fresh process ended with {child.returncode}: {err[-800:]}")
    # Engines print; the answer is the last line.
    answer = json.loads(out.splitlines()[-1])
    return Rehearsal(answer["digest"], tuple(tuple(lines) for lines in answer["records"]))


def answer() -> None:
    """The fresh process: reads the question from stdin, writes the answer to stdout."""
    question = json.load(sys.stdin)
    resolved: Any = importlib.import_module(question["module"])
    for name in question["qualname"].split("."):
        resolved = getattr(resolved, name)
    environment: type[Environment] = resolved
    data_dir = question["data_dir"]
    tasks = environment.load_tasks(
        EnvironmentConfig(None if data_dir is None else Path(data_dir), question["settings"])
    )
    records = [
        rehearse(environment, tasks, replace(Script(**fields), actions=tuple(fields["actions"])))
        for fields in question["scripts"]
    ]
    digest = tasks.digest().hex()
    tasks.close()
    sys.stdout.write("\n" + json.dumps({"digest": digest, "records": records}) + "\n")
