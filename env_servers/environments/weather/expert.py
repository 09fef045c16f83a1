"""The expert's steps: what it asks for, why, and what it reads from the replies.

Each step is a generator of calls; plans of generated tasks are made of them, and the plans of
official tasks of recorded conversations. A reason has to be true wherever its step is used.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final, NamedTuple

from env_servers.toolkit.tool_calls import PlannedCall, Recording, ToolTask, fixed_plan

__all__ = [
    "Place",
    "air_index",
    "air_level",
    "daily",
    "distance",
    "elevation",
    "here",
    "locate",
    "today",
    "with_recorded_plan",
]

Step = Generator[PlannedCall, Any, Any]


class Place(NamedTuple):
    """A city with the coordinates that the geocoding tool gave."""

    name: str
    latitude: float
    longitude: float


_KIND_WORDS: Final = {"temp": "temperature", "rain": "rainfall", "snow": "snowfall"}
_TODAY: Final = (
    "I have to know today's date first.",
    "The question depends on the current date, so I ask for it.",
    "Before anything else I find out which day it is.",
)
_HERE: Final = (
    "I need to know where the user is.",
    "The question is about the user's own city, so I ask which one that is.",
    "First I find out the user's location.",
)
_LEVEL: Final = (
    "The index is {index}; I look up which level that is.",
    "Now I turn the index {index} into its level.",
)


def today() -> Generator[PlannedCall, Any, date]:
    """Return the current date."""
    text = yield PlannedCall("get_user_current_date", {}, _TODAY)
    return date.fromisoformat(text)


def here() -> Generator[PlannedCall, Any, str]:
    """Return the user's city."""
    return (yield PlannedCall("get_user_current_location", {}, _HERE))


def locate(name: str) -> Generator[PlannedCall, Any, Place]:
    """Return a city's coordinates; its best match."""
    why = (
        f"I need the coordinates of {name}.",
        f"To ask about {name}, I first look up where it lies.",
        f"The other tools want coordinates, so I search for {name}.",
    )
    matches = yield PlannedCall("get_latitude_longitude", {"name": name}, why)
    best = matches["results"][0]
    return Place(name, best["latitude"], best["longitude"])


def daily(
    kind: str, place: Place, first: date, last: date, now: date
) -> Generator[PlannedCall, Any, dict[str, list[Any]]]:
    """Columns of daily values, from the tool that the days call for."""
    what = _KIND_WORDS[kind]
    arguments: dict[str, Any] = {"latitude": place.latitude, "longitude": place.longitude}
    if first == last == now:
        tool, days = f"get_current_{kind}", "today"
        arguments["current_date"] = now.isoformat()
    else:
        past = last < now
        tool = f"get_historical_{kind}" if past else f"get_{kind}_forecast"
        days = f"on {first}" if first == last else f"from {first} to {last}"
        arguments |= {"start_date": first.isoformat(), "end_date": last.isoformat()}
    why = (
        f"Now I get the {what} in {place.name} {days}.",
        f"With the coordinates of {place.name} I can ask for its {what} {days}.",
        f"What is missing is the {what} in {place.name} {days}.",
    )
    return (yield PlannedCall(tool, arguments, why))["daily"]


def air_index(place: Place, now: date) -> Generator[PlannedCall, Any, int]:
    """Today's air quality index."""
    arguments = {
        "latitude": place.latitude,
        "longitude": place.longitude,
        "current_date": now.isoformat(),
    }
    why = (
        f"Now I get today's air quality index of {place.name}.",
        f"With date and coordinates I can ask for the air quality in {place.name}.",
    )
    value = yield PlannedCall("get_current_air_quality_index", arguments, why)
    return value["daily"]["european_aqi_pm2_5"][0]


def air_level(index: float) -> Generator[PlannedCall, Any, str]:
    """Return an index in words."""
    why = tuple(text.format(index=index) for text in _LEVEL)
    return (yield PlannedCall("get_air_quality_level", {"air_quality_index": index}, why))


def elevation(place: Place) -> Generator[PlannedCall, Any, float]:
    """Metres above the sea."""
    arguments = {"latitude": place.latitude, "longitude": place.longitude}
    why = (
        f"Now I look up how high {place.name} lies.",
        f"With these coordinates I can ask for the elevation of {place.name}.",
    )
    return (yield PlannedCall("get_elevation", arguments, why))["elevation"][0]


def distance(one: Place, other: Place) -> Generator[PlannedCall, Any, float]:
    """Kilometres between two places."""
    arguments = {
        "latitude1": one.latitude,
        "longitude1": one.longitude,
        "latitude2": other.latitude,
        "longitude2": other.longitude,
    }
    why = (
        f"I have both pairs of coordinates, so I measure from {one.name} to {other.name}.",
        f"Now the distance between {one.name} and {other.name} can be reckoned.",
    )
    return (yield PlannedCall("get_distance", arguments, why))


_RECORDED_WHY: Final[Mapping[str, Sequence[str]]] = {
    "get_user_current_date": _TODAY,
    "get_user_current_location": _HERE,
}


def _why(tool: str, arguments: Mapping[str, Any]) -> Sequence[str]:
    if tool in _RECORDED_WHY:
        return _RECORDED_WHY[tool]
    if "name" in arguments:
        return (f"I need the coordinates of {arguments['name']}.", "I look up where that is.")
    what = tool.removeprefix("get_").replace("_", " ")
    return (f"Next I need this: {what}.", f"To answer, I ask for the {what}.")


def with_recorded_plan(task: ToolTask, recording: Recording | None) -> ToolTask:
    """Return an official task with the calls of its recorded conversation, where there is one."""
    exchanges = recording.conversations.get(task.index, ()) if recording is not None else ()
    calls = [
        PlannedCall(exchange.tool, exchange.arguments, _why(exchange.tool, exchange.arguments))
        for exchange in exchanges
        if exchange.tool not in ("finish", "check_valid_actions")
        and isinstance(exchange.arguments, dict)
    ]
    plan = fixed_plan(calls, task.subgoals[0])
    return replace(task, plan=plan, steps=len(calls) + 1)
