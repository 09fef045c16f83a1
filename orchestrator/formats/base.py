"""What an export format is, and what the text formats share: one JSON value per episode.

Memory does not grow with the number of episodes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from agentgym.episode.v1 import episode_pb2
from orchestrator.records import summarise

__all__ = ["EpisodeWriter", "JsonLinesWriter", "dump_json", "metadata", "trained_turns"]

_METADATA: Final = (
    "episode_id",
    "environment",
    "item_id",
    "sample",
    "policy",
    "category",
    "split",
    "reward",
    "score",
    "success",
    "stop_reason",
    "fault",
    "rounds",
)


class EpisodeWriter(ABC):
    """Writes episodes to one new file, or into one folder."""

    is_folder: ClassVar[bool] = False
    """Whether it writes into an empty folder that is there, in place of a file."""
    keeps_images: ClassVar[bool] = False
    """Whether the images of observations are in it; most formats have texts only."""

    @abstractmethod
    def __init__(self, path: Path) -> None:
        """Open the file. Raises ExtraMissing where a library of the format is not installed."""

    @abstractmethod
    def write(self, episode: episode_pb2.Episode) -> None:
        """Add one episode."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file and close it."""


class JsonLinesWriter(EpisodeWriter):
    """One JSON object per line."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("w", encoding="utf-8", newline="\n")

    def write(self, episode: episode_pb2.Episode) -> None:
        self._stream.write(dump_json(self.to_data(episode)) + "\n")

    def close(self) -> None:
        self._stream.close()

    @abstractmethod
    def to_data(self, episode: episode_pb2.Episode) -> dict[str, Any]:
        """Return the JSON object of one episode."""


def dump_json(value: Any) -> str:
    """Return compact JSON on one line; line separators that are not ASCII stay escaped.

    Some readers split JSON lines at U+2028, U+2029 and U+0085, too.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "), allow_nan=False)
    for separator in ("\u2028", "\u2029", "\u0085"):
        text = text.replace(separator, f"\\u{ord(separator):04x}")
    return text


def metadata(episode: episode_pb2.Episode) -> dict[str, Any]:
    """Return the columns by which a reader of an export filters; None = absent."""
    summary = summarise(episode)
    return {name: getattr(summary, name) for name in _METADATA}


def trained_turns(episode: episode_pb2.Episode) -> Iterator[episode_pb2.Message]:
    """Yield the conversation up to the policy's last reply; empty where it never replied.

    The observation after the last action is nothing to learn from, and AgentTraj ends before it.
    """
    replies = [index for index, message in enumerate(episode.messages) if message.sampled]
    yield from episode.messages[: replies[-1] + 1] if replies else []
