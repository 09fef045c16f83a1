"""What an import format is, and what the formats share."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from agentgym.episode.v1 import episode_pb2
from orchestrator.conversations import read_entries
from orchestrator.manifest import EnvironmentIdentity
from orchestrator.records import RECORD_SCHEMA

__all__ = ["IMPORTED", "EntryReader", "Source", "add_step", "begin_record", "imported_environment"]

IMPORTED: Final = "imported"
"""Version of environments that others' episodes were played in: which one, nobody recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file of others' episodes."""

    path: Path
    digest: str
    """SHA-256."""
    environment: str = ""
    """Of entries that name none; empty = they are refused."""
    policy: str
    """Of entries that name none."""
    left_out: Counter[str] = field(default_factory=Counter[str])
    """What entries have and records do not, by its name: how often."""

    def episode_id(self, number: int) -> str:
        """Return the id of an entry that has none: the same whenever the file is imported."""
        return hashlib.sha256(f"{self.digest} {number}".encode()).hexdigest()[:32]


class EntryReader(ABC):
    """Makes records of the entries of a file."""

    suffix: ClassVar[str] = ""
    """How names of files of this format end that are no JSON; empty = all of them are."""

    def entries(self, path: Path) -> Iterator[Any]:
        """Yield the entries of a file; raises EntryUnreadable, UsageError."""
        return read_entries(path)

    @abstractmethod
    def accepts(self, entry: Any) -> bool:
        """Tell whether the first JSON value of a file is one of this format."""

    @abstractmethod
    def to_episode(self, number: int, entry: Any, source: Source) -> episode_pb2.Episode:
        """Return the record of an entry, for no run yet.

        Args:
            number: Its position in the file, from 0.
            entry: Its JSON value.
            source: The file; what is left out of the record is counted there.

        Raises:
            ValueError, OverflowError: It is no entry of this format; says what is wrong.
        """


def imported_environment(name: str) -> EnvironmentIdentity:
    """Return what a manifest says of an environment that others played in."""
    return EnvironmentIdentity(name=name, version=IMPORTED, digest="")


def begin_record(environment: str, item_id: str, policy: str) -> episode_pb2.Episode:
    """Return a record of an episode that others played, without conversation and steps."""
    if not environment:
        raise ValueError("it does not name its environment: say --environment NAME")
    return episode_pb2.Episode(
        schema_version=RECORD_SCHEMA,
        environment=environment,
        environment_version=IMPORTED,
        item_id=item_id,
        policy=policy,
        attempt=1,
    )


def add_step(episode: episode_pb2.Episode, observation: str, reply: str = "") -> episode_pb2.Step:
    """Add a step to a record and return it; without a reply it is the reset."""
    step = episode.steps.add(seq=len(episode.steps), observation=observation)
    if step.seq:
        step.input.reply = reply
    return step
