"""Writes `repeats.txt`: which seeds the embedded splits leave out, so that no room is there twice.

Run when levels, splits or MiniGrid's rooms change; nothing at run time imports it:

    python -m env_servers.environments.babyai.find_repeats DATA

DATA is the folder of official data, for AgentEval's ids. It takes two minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from env_servers.environments.babyai.environment import BabyaiEnvironment
from env_servers.environments.babyai.levels import LEVELS
from env_servers.environments.babyai.tasks import (
    EVAL,
    EVAL_SEEDS,
    OFFICIAL_TRAIN,
    REPEATS,
    TRAIN,
    BabyaiTasks,
    load,
)
from env_servers.sdk import EnvironmentConfig, ResetOptions

__all__ = ["room"]

_RECORDED_LEVELS: Final = frozenset((*range(1, 12), 19, 20, 21, 30, 31, 33, 36))
"""Levels that AgentTraj-L and AgentEval use."""
_OFFICIAL: Final = range(13_000)
"""Their ids are in here."""
_HEADER: Final = """\
# Seeds that an embedded split leaves out: their room, goal and start are those of another item.
# Written for this project by find_repeats.py. Lines: split, level, seeds.
"""


def room(tasks: BabyaiTasks, index: int) -> bytes:
    """Return what identifies an item by content: cells, goal, start and all that is hidden."""
    episode = BabyaiEnvironment(tasks)
    first = episode.reset(tasks.get(f"babyai_{index}"), ResetOptions())
    return first.text.encode() + episode.fingerprint()


def find_repeats(data_dir: Path) -> Iterator[tuple[str, int, list[int]]]:
    """Yield (split, level, seeds left out).

    Eval has the first rooms of a level that are neither there already nor official, as far as the
    official ids are used; train has every room that is neither there already nor in an evaluation.
    """
    tasks = load(EnvironmentConfig(data_dir))
    listed = tasks.item_ids("official_eval", 0, len(_OFFICIAL))
    held_out = [int(item.rpartition("_")[2]) for item in listed]
    for number in range(len(LEVELS)):
        official = _OFFICIAL if number + 1 in _RECORDED_LEVELS else OFFICIAL_TRAIN
        known = {room(tasks, index) for index in _of_level(official, number)}
        seen: set[bytes] = set()
        left_out: list[int] = []
        for index in _of_level(EVAL, number):
            content = room(tasks, index)
            if content in seen | known:
                left_out.append(index)
            else:
                seen.add(content)
            if len(seen) == EVAL_SEEDS:
                break
        yield "eval", number + 1, left_out
        seen.update(room(tasks, index) for index in _of_level(held_out, number))
        left_out = []
        for index in _of_level(TRAIN, number):
            content = room(tasks, index)
            if content in seen:
                left_out.append(index)
            seen.add(content)
        yield "train", number + 1, left_out


def _of_level(indexes: Iterable[int], number: int) -> Iterator[int]:
    return (index for index in indexes if index % len(LEVELS) == number)


def _lines(split: str, level: int, indexes: list[int]) -> Iterator[str]:
    for start in range(0, len(indexes), 12):
        seeds = " ".join(str(index // len(LEVELS)) for index in indexes[start : start + 12])
        yield f"{split} {level} {seeds}\n"


if __name__ == "__main__":
    found = [line for entry in find_repeats(Path(sys.argv[1])) for line in _lines(*entry)]
    REPEATS.write_text(_HEADER + "".join(found), encoding="utf-8")
