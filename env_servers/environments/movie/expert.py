"""The expert's steps through the film database: what it asks for, and why.

Each step is a generator of calls; plans of questions are made of them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from env_servers.toolkit.tool_calls import PlannedCall

__all__ = [
    "Run",
    "about_film",
    "about_person",
    "find_director",
    "find_person",
    "find_player",
    "look_into_film",
    "planned_call",
    "player_roles",
]

Run = Generator[PlannedCall, Any, Any]
"""A plan under way: yields calls, is sent what they returned, returns the answer."""

_WHY: Final = (
    "I need {purpose}.",
    "Next I look up {purpose}.",
    "To go on I have to know {purpose}.",
    "What is missing is {purpose}, so I ask for it.",
)


def planned_call(tool: str, arguments: Mapping[str, Any], purpose: str) -> PlannedCall:
    """Return a call with several wordings of its reason."""
    return PlannedCall(tool, arguments, [wording.format(purpose=purpose) for wording in _WHY])


def find_film(title: str) -> Generator[PlannedCall, Any, str]:
    """Search for a film; return the id of its best match."""
    matches = yield planned_call(
        "get_search_movie", {"movie_name": title}, f'the id of the film "{title}"'
    )
    return str(matches[0]["id"])


def find_person(name: str) -> Generator[PlannedCall, Any, str]:
    """Search for a person; return the id of the best match."""
    matches = yield planned_call("get_search_person", {"person_name": name}, f"the id of {name}")
    return str(matches[0]["id"])


def about_film(function: str, title: str, purpose: str) -> Run:
    """Search for a film and return what a function says of it."""
    film = yield from find_film(title)
    return (yield planned_call(function, {"movie_id": film}, f'{purpose} of "{title}"'))


def about_person(function: str, person: str, purpose: str) -> Run:
    """Return what a function says of a person's id."""
    return (yield planned_call(function, {"person_id": person}, purpose))


def find_director(title: str) -> Run:
    """Return the entry of a film's director."""
    crew = yield from about_film("get_movie_crew", title, "the crew")
    return next(member for member in crew["crew"] if member["job"] == "Director")


def find_player(title: str, character: str) -> Run:
    """Return the entry of the cast member who plays a character."""
    cast = yield from about_film("get_movie_cast", title, "the cast")
    return next(member for member in cast["cast"] if member["character"] == character)


def look_into_film(function: str, film: object, purpose: str) -> Run:
    """Return what a function says of a film's id."""
    return (yield planned_call(function, {"movie_id": str(film)}, purpose))


def player_roles(title: str, character: str) -> Run:
    """Return the roles of the one who plays a character, as (film, character) entries."""
    member = yield from find_player(title, character)
    purpose = f"the roles of {member['name']}"
    return (yield from about_person("get_person_cast", str(member["id"]), purpose))["cast"]
