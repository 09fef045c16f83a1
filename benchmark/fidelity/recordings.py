"""AgentTraj-L conversations as episodes that can be played again.

Contains what differs between environments in how a conversation was written down; whoever plays
them needs no case for any of them. Files are those of the official release, one JSON object a line.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from env_servers.toolkit.tool_calls.literals import read_python

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
    reward: float | None = 1.0
    """What the last reply earned; None = more than 0, but nothing tells how much."""
    plays_on: bool = False
    """Whether the recorder may have gone on replying after the end."""


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
    reward: float | None = 1.0
    """What every recording ends with: only successful ones were published."""
    plays_on: bool = False
    recorded_calls: tuple[str, ...] = ()
    """Values of the option of this name, where replies of services can only be looked up: the
    figures are of the first, in which no conversation is its own answer."""


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


def _answers(name: str) -> Callable[[Path], Iterator[Recording]]:
    """A reader of conversations that end in an answer, which may be wrong."""

    def read(data_dir: Path) -> Iterator[Recording]:
        goals = _subgoals(data_dir / "tools" / f"{name}.jsonl")
        for recording in _conversations(SOURCES[name], data_dir):
            number = int(recording.item_id.rpartition("_")[2])
            yield replace(recording, reward=_answer_reward(goals[number], recording))

    return read


def _subgoals(path: Path) -> list[Any]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)["subgoals"] for line in lines]


_OBSERVATION: Final = re.compile(r"Observation: (.*)\nGive me one action\.\Z", re.DOTALL)


def _answer_reward(subgoals: Sequence[Any], recording: Recording) -> float:
    """The original's rule: 1 as soon as a reply of a tool, or the answer, is a subgoal."""
    shown = [_OBSERVATION.match(text) for text in recording.observations[1:]]
    outputs = [_value(match[1]) for match in shown if match]
    handed_in = _value(recording.replies[-1].rpartition("with Action Input: ")[2])
    if isinstance(handed_in, dict):
        answer = cast("dict[str, Any]", handed_in).get("answer")
        # A list that cannot be sorted is not accepted as an answer.
        with suppress(TypeError):
            outputs.append(
                sorted(cast("list[Any]", answer)) if isinstance(answer, list) else answer
            )
    return float(any(output == goal for output in outputs for goal in subgoals))


def _value(text: str) -> Any:
    try:
        return read_python(text)
    except ValueError:
        return text


_PHRASE_ENDS: Final = re.compile(r"[\n\t,.():]|\bcontaining\b")


def _unordered(text: str) -> str:
    """The phrases of an observation: release 1.0 listed things in the order of identity hashes."""
    phrases = (phrase.strip() for phrase in _PHRASE_ENDS.split(text))
    return "\n".join(sorted(filter(None, phrases)))


_LOOKED_UP: Final = ("other_tasks", "none", "all")
_BIRD: Final = Source("bird", "sqlgym.jsonl.gz", lambda *_: {}, _bird)
SOURCES: Final = {
    source.environment: source
    for source in (
        Source("maze", "lmrlgym_maze.jsonl.gz", _maze),
        Source("wordle", "lmrlgym_wordle.jsonl.gz", _wordle),
        Source("textcraft", "textcraft.jsonl.gz", _textcraft),
        Source("babyai", "babyai.jsonl.gz", _babyai, reward=None),
        Source("todo", "todo.jsonl.gz", _tool),
        Source(
            "weather", "weather.jsonl.gz", _tool, _answers("weather"), recorded_calls=_LOOKED_UP
        ),
        Source("movie", "movie.jsonl.gz", _tool, _answers("movie"), recorded_calls=_LOOKED_UP),
        Source("webshop", "webshop.jsonl.gz", _webshop),
        Source("alfworld", "", lambda *_: {}, _alfworld),
        _BIRD,
        Source(
            "sciworld",
            "sciworld.jsonl.gz",
            _sciworld,
            canonical=_unordered,
            reward=100.0,
            plays_on=True,
        ),
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
                entry["item_id"],
                tuple(replies),
                tuple(observations),
                options,
                source.canonical,
                source.reward,
                source.plays_on,
            )
