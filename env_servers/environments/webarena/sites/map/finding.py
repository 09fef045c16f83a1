"""From what somebody typed to places: names, kinds, addresses, coordinates, `cafes near X`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from env_servers.environments.webarena.sites.map.content import KINDS, places
from env_servers.environments.webarena.sites.map.places import PLACES, Place, meters_between
from env_servers.environments.webarena.sites.map.towns import towns
from env_servers.environments.webarena.sites.world import World

__all__ = ["find", "nearest"]

_POINT: Final = re.compile(r"\s*(-?\d{1,2}(?:\.\d+)?)\s*[, ]\s*(-?\d{1,3}(?:\.\d+)?)\s*")
_NEAR: Final = re.compile(r"(.+?)\s+(?:near|around|close to|in)\s+(.+)", re.IGNORECASE)
_FOUND: Final = 60


def find(world: World, query: str) -> list[Place]:
    """Return the places that are meant, best first; none for an empty query."""
    point = _POINT.fullmatch(query)
    if point is not None:
        return nearest(world, (float(point[1]), float(point[2])))[:10]
    near = _NEAR.fullmatch(query.strip())
    if near is not None and (kind := _kind(near[1])):
        in_town = world[PLACES].where(kind=kind, town=_town(near[2]))
        if in_town:
            return in_town
        around = _whole(near[2]) or _words(world, near[2])
        if around:
            return nearest(world, around[0].point, kind=kind)[:_FOUND]
    return (_whole(query) or _words(world, query))[:_FOUND]


def nearest(world: World, point: tuple[float, float], *, kind: str = "") -> list[Place]:
    """Return places, of one kind or of any, nearest first."""
    found = world[PLACES].where(kind=kind) if kind else [*world[PLACES]]
    return sorted(found, key=lambda place: (meters_between(place.point, point), place.id))


def _whole(query: str) -> list[Place]:
    """Places of that very name, or name and address."""
    name, _, rest = query.strip().partition(",")
    wanted = set(_plain(rest))
    named = _names().get(name.strip().casefold(), ())
    return [place for place in named if wanted <= set(_plain(place.address))]


def _plain(text: str) -> list[str]:
    return text.casefold().replace(",", " ").split()


def _words(world: World, query: str) -> list[Place]:
    kind = _kind(query)
    return world[PLACES].where(kind=kind) if kind else world[PLACES].search(query)


@cache
def _names() -> Mapping[str, Sequence[Place]]:
    """Places by their names; nobody changes the map."""
    names: dict[str, list[Place]] = {}
    for place in places():
        names.setdefault(place.name.casefold(), []).append(place)
    return names


def _town(text: str) -> str:
    wanted = text.partition(",")[0].strip().casefold()
    return next((town.name for town in towns() if town.name.casefold() == wanted), "")


@cache
def _kinds() -> Mapping[str, str]:
    names: dict[str, str] = {}
    for kind in KINDS:
        for word in (kind.tag.replace("_", " "), kind.title.casefold(), *kind.searched):
            names[word] = kind.tag
            names[f"{word}s"] = kind.tag
            if word.endswith("y"):
                names[f"{word[:-1]}ies"] = kind.tag
    return names


def _kind(text: str) -> str:
    return _kinds().get(" ".join(text.casefold().split()), "")
