"""What every loop plays: an environment's tasks in this process, and what is replied in each.

Knows no harness. The only imports are the standard library and `env_servers`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from env_servers.sdk import EnvironmentConfig, Rejected, ResetOptions, load_environment

__all__ = ["Arguments", "Outcome", "Play", "Script", "read_arguments", "write"]

NAME: Final = "textcraft"
"""The environment that is compared on: AgentGym's, and quick to step."""


class Play:
    """One episode."""

    def __init__(self, script: Script, item_id: str) -> None:
        """Reset the environment to a task."""
        self._read = script.read
        self.episode = script.environment(script.tasks)
        first = self.episode.reset(script.tasks.get(item_id), ResetOptions())
        self.text = first.text
        self.reward = 0.0
        self.ended = False
        self.steps = 0

    def reply(self, reply: str) -> None:
        """Step the environment by a reply."""
        seen = self.episode.step(self._read(reply))
        self.text, self.reward = seen.text, seen.reward or 0.0
        self.ended = seen.terminated or seen.truncated
        self.steps += 1

    def close(self) -> None:
        """Give up what the episode holds."""
        self.episode.close()


class Script:
    """The tasks and their replies."""

    def __init__(self, file: Path) -> None:
        """Read {item id: replies}; load the environment."""
        self.replies: Mapping[str, Sequence[str]] = json.loads(file.read_text())
        self.environment = load_environment(NAME)
        self.tasks = self.environment.load_tasks(EnvironmentConfig())
        starts = self.environment.spec.conversation_starts
        self.action_format = next(iter(starts))
        start = starts[self.action_format]
        self.instruction, self.acknowledgement = start.instruction, start.acknowledgement

    def read(self, reply: str) -> str:
        """Return the action in a reply; raises ValueError where there is none."""
        action = self.environment.spec.grammar.read(reply, self.action_format)
        if isinstance(action, Rejected):
            raise ValueError(f"no action in {reply!r}")
        return action

    def next_reply(self, item_id: str, turn: int) -> str:
        """Return what is said in a turn; after the last reply it is said again."""
        replies = self.replies[item_id]
        return replies[min(turn, len(replies) - 1)]


@dataclass(slots=True)
class Outcome:
    """What a loop did."""

    seconds: float = 0.0
    """From its first reset to its last step."""
    episodes: int = 0
    steps: int = 0
    rewards: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Of each item's episodes."""
    began: float = field(default_factory=time.perf_counter)

    def add(self, item_id: str, reward: float, steps: int) -> None:
        """Count an episode that has ended now."""
        self.episodes += 1
        self.steps += steps
        self.rewards.setdefault(item_id, []).append(reward)
        self.seconds = time.perf_counter() - self.began


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a loop is started with."""

    replies: Path
    samples: int
    """Episodes of each task."""
    folder: Path
    """Where it records what harnesses of its kind record."""
    url: str
    """Of a model that says these replies, for a harness that has none of its own."""


def read_arguments() -> Arguments:
    """Parse the process's arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--replies", type=Path, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--url", default="")
    read = parser.parse_args()
    return Arguments(read.replies, read.samples, read.folder, read.url)


def write(arguments: Arguments, outcome: Outcome) -> None:
    """Write `outcome.json`."""
    (arguments.folder / "outcome.json").write_text(json.dumps(asdict(outcome)))
