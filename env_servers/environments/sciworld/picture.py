"""The room with what is in it, what is carried, and which of the task's goals are met."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from env_servers.environments.sciworld.simulator import Survey
from env_servers.sdk import MediaType, View
from env_servers.toolkit.drawing import (
    Markup,
    Table,
    document,
    element,
    facts,
    join,
    section,
    text_view,
)

__all__ = ["draw"]

_GOAL_FIELDS: Final = 4
"""Of a line of the simulator's report: number, true or false, kind, description."""


def draw(survey: Survey) -> list[View]:
    """Draw what the simulator tells of a state without a move."""
    known = {
        "task": survey.description,
        "score": round(100 * survey.last.score),
        "moves": survey.last.moves,
    }
    goals = Table(["", "goal", "kind"], list(_goals(survey.progress)))
    room, carried = survey.room.strip(), survey.inventory.strip()
    lines = [f"{name}: {value}" for name, value in known.items()]
    lines += ["", "# Room", room, "", "# Inventory", carried, "", "# Goals", goals.text()]
    return [
        document(
            "room",
            "Room, inventory and goals",
            facts(known),
            section("Room", _outline(room)),
            section("Inventory", _outline(carried)),
            section("Goals", goals.html()),
        ),
        text_view("text", "Room as text", "\n".join(lines)),
        View("simulator", "What the simulator tells", MediaType.JSON, _as_json(survey)),
    ]


def _as_json(survey: Survey) -> bytes:
    told = {
        "observation": survey.room,
        "inventory": survey.inventory,
        "task_description": survey.description,
        "goal_progress": survey.progress,
        "possible_actions": survey.actions,
        "possible_objects": survey.objects,
        "moves": survey.last.moves,
    }
    return json.dumps(told).encode()


def _outline(text: str) -> Markup:
    """Lines that begin with a tab are points below those that do not."""
    parts: list[Markup] = []
    points: list[Markup] = []
    for line in (*text.splitlines(), ""):
        if line.startswith("\t"):
            points.append(element("li", line.strip()))
            continue
        if points:
            parts.append(element("ul", *points))
            points = []
        if line:
            parts.append(element("p", line))
    return join(parts)


def _goals(progress: str) -> Iterator[tuple[str, str, str]]:
    for line in progress.splitlines():
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) >= _GOAL_FIELDS and fields[1] in ("true", "false"):
            yield "✓" if fields[1] == "true" else "", fields[3], fields[2]
