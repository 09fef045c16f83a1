"""AgentTraj-L conversations as episodes that can be played again.

Contains what differs between environments in how a conversation was written down; whoever plays
them needs no case for any of them. Files are those of the official release, one JSON object a line.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["SOURCES", "Recording", "Source", "read_recordings"]


@dataclass(frozen=True, slots=True)
class Recording:
    """One conversation: what was asked for, what was replied, what was seen."""

    item_id: str
    replies: tuple[str, ...]
    observations: tuple[str, ...]
    """observations[0] opened the episode; the one after the last reply is usually not recorded."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Reset options that put the environment into the recorded situation."""
    canonical: Callable[[str], str] = str
    """Observations are identical when this makes them the same text."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an environment's recordings are, and how to read one."""

    environment: str
    file: str
    options: Callable[[str, list[str], list[str]], Mapping[str, Any]]
    """Reset options from (item id, observations, replies)."""
    read: Callable[[Path], Iterator[Recording]] | None = None
    """Reads recordings of another form, below the folder of official data."""
    canonical: Callable[[str], str] = str
    """Takes out of an observation what no two recorded processes had in common."""


def _textcraft(item_id: str, observations: list[str], replies: list[str]) -> Mapping[str, Any]:
    """The transcripts of 2024 put a line before every observation and strip its end."""
    return {"as_recorded": True, "original": "2024"}


_MAZE_VIEW: Final = "given the current environment state:\n"


def _maze(item_id: str, observations: list[str], replies: list[str]) -> Mapping[str, Any]:
    """Instructions are part of the first observation, and ours are in other words."""
    end = observations[0].index(_MAZE_VIEW) + len(_MAZE_VIEW)
    return {"instructions": observations[0][:end]}


def _wordle(item_id: str, observations: list[str], replies: list[str]) -> Mapping[str, Any]:
    """The hidden word was fixed: it is the last, winning guess."""
    winning = replies[-1].split("Action:", 1)[-1]
    return {
        "vocabulary": "wordle_official_400",
        "hidden_word": "".join(winning.split()),
        "instructions": observations[0],
    }


def _babyai(item_id: str, observations: list[str], replies: list[str]) -> Mapping[str, Any]:
    """The original of 2024 read replies differently and did not list the available actions."""
    return {"original": "2024"}


_PRICE_LIMIT: Final = re.compile(r", and price lower than ([0-9.]+) dollars( \[SEP\]|$)")


def _webshop(item_id: str, observations: list[str], replies: list[str]) -> Mapping[str, Any]:
    """Where a product's tag is a price range, the original drew the price unseeded."""
    limit = _PRICE_LIMIT.search(observations[0])
    return {"price_limit": float(limit[1]) if limit else 0}


_GOAL: Final = re.compile(r"accomplish the goal: (.*)\nGive me one action\.\Z", re.DOTALL)


def _tool(item_id: str, observations: list[str], replies: list[str]) -> Mapping[str, Any]:
    """The recorded goals are worded a little differently than the published task files."""
    goal = _GOAL.search(observations[0])
    return {"as_recorded": True, "goal": goal[1] if goal else ""}


def _alfworld(data_dir: Path) -> Iterator[Recording]:
    """ALFWorld's experts, which lie beside its games: one list of {"from", "value"} each."""
    for archive in sorted((data_dir / "alfworld").glob("*.tar.*")):
        with tarfile.open(archive) as members:
            for member in members:
                stream = members.extractfile(member)
                if stream is None or not member.name.endswith("/gt_traj.json"):
                    continue
                texts = [turn["value"] for turn in json.load(stream)]
                game = "/".join(member.name.split("/")[-4:-1])
                # Any item will do: the game is named in the options.
                options = {"game": game, "as_recorded": True, "step_limit": 0}
                replies = tuple(f"Action:\n{command}" for command in texts[1::2])
                yield Recording("alfworld_1000000", replies, tuple(texts[::2]), options)


def _bird(data_dir: Path) -> Iterator[Recording]:
    """BIRD's conversations about the databases that are there, which a prompt names first."""
    folders = [data_dir / "bird" / name for name in ("train/train_databases", "dev_databases")]
    for recording in _conversations(_BIRD, data_dir):
        name = recording.observations[0].partition(" contains tables")[0]
        if any((folder / name / f"{name}.sqlite").is_file() for folder in folders):
            yield recording


def _sciworld(item_id: str, observations: list[str], replies: list[str]) -> Mapping[str, Any]:
    """The recorded server ran release 1.0 with everything made easy."""
    return {"as_recorded": True}


_PHRASE_ENDS: Final = re.compile(r"[\n\t,.():]|\bcontaining\b")


def _unordered(text: str) -> str:
    """The phrases of an observation: release 1.0 listed things in the order of identity hashes."""
    phrases = (phrase.strip() for phrase in _PHRASE_ENDS.split(text))
    return "\n".join(sorted(filter(None, phrases)))


_BIRD: Final = Source("bird", "sqlgym.jsonl.gz", lambda *_: {}, _bird)
SOURCES: Final = {
    source.environment: source
    for source in (
        Source("maze", "lmrlgym_maze.jsonl.gz", _maze),
        Source("wordle", "lmrlgym_wordle.jsonl.gz", _wordle),
        Source("textcraft", "textcraft.jsonl.gz", _textcraft),
        Source("babyai", "babyai.jsonl.gz", _babyai),
        Source("todo", "todo.jsonl.gz", _tool),
        Source("weather", "weather.jsonl.gz", _tool),
        Source("movie", "movie.jsonl.gz", _tool),
        Source("webshop", "webshop.jsonl.gz", _webshop),
        Source("alfworld", "", lambda *_: {}, _alfworld),
        _BIRD,
        Source("sciworld", "sciworld.jsonl.gz", _sciworld, canonical=_unordered),
    )
}


def read_recordings(source: Source, data_dir: Path) -> Iterator[Recording]:
    """The recordings of one environment; raises FileNotFoundError, ValueError naming the line."""
    if source.read is not None:
        yield from source.read(data_dir)
    else:
        yield from _conversations(source, data_dir)


def _conversations(source: Source, data_dir: Path) -> Iterator[Recording]:
    """All recordings of a file of AgentTraj-L."""
    path = data_dir / "agenttraj_l" / source.file
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                turns = [turn["value"] for turn in entry["conversations"][2:]]
                observations, replies = turns[::2], turns[1::2]
                options = source.options(entry["item_id"], observations, replies)
            except (ValueError, KeyError, IndexError) as error:
                raise ValueError(f"{path}, line {number}: {error!r}") from error
            yield Recording(
                entry["item_id"], tuple(replies), tuple(observations), options, source.canonical
            )
