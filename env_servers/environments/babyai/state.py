"""The hidden state of a level in writing: equal texts mean equal futures.

Contains the list of what can differ between two moments of one level. Objects are told apart by
their number in the list made at the start, never by their address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from env_servers.environments.babyai.levels import DESCRIPTIONS, PARTS, Level

__all__ = ["hidden_state", "list_objects"]


def list_objects(level: Level) -> list[Any]:
    """Doors, keys, balls and boxes of a fresh level, with what boxes contain."""
    objects = [cell for cell in level.grid.grid if cell is not None and cell.type != "wall"]
    if level.carrying is not None:
        objects.append(level.carrying)
    return objects + [thing.contains for thing in objects if thing.contains is not None]


def hidden_state(level: Level, objects: Sequence[Any]) -> str:
    """Return everything that the level's future depends on; `objects` as of its start."""
    number = {id(thing): index for index, thing in enumerate(objects)}
    standing = level.standing
    if standing is None:
        standing = level.standing = repr(
            [
                (cell_number, number[id(cell)], cell.encode())
                for cell_number, cell in enumerate(level.grid.grid)
                if cell is not None and cell.type != "wall"
            ]
        )
    x, y = level.agent_pos
    held = number.get(id(level.carrying))
    agent = (int(x), int(y), int(level.agent_dir), held, level.step_count, level.max_steps)
    return f"({level.mission!r}, {agent!r}, {standing}, {_progress(level.instrs, number)!r})"


def _progress(mission: Any, number: dict[int, int]) -> tuple[object, ...]:
    """Return what a mission remembers."""
    before = number.get(id(getattr(mission, "preCarrying", None)))
    places = [
        [(int(x), int(y)) for x, y in getattr(mission, name).obj_poss]
        for name in DESCRIPTIONS
        if hasattr(mission, name)
    ]
    parts = [_progress(getattr(mission, name), number) for name in PARTS if hasattr(mission, name)]
    done = [str(getattr(mission, name, None)) for name in ("a_done", "b_done")]
    return type(mission).__name__, before, places, parts, done
