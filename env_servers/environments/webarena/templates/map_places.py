"""Templates of the map that are about places: what is known, what is near, what is where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.webarena.sites.map.finding import nearest
from env_servers.environments.webarena.sites.map.places import PLACES, Place, meters_between
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    at_page,
    unachievable,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_START: Final = "http://openstreetmap.org"
_SERVED: Final = "http://map.test"
_CLEARLY: Final = 1.15
"""How many times as far the next one has to be, where the nearest is asked for."""


def _search(text: str) -> Move:
    return TypeInto("textbox", "Search", text, enter=True)


def _open(place: Place) -> tuple[Move, ...]:
    return (_search(place.name), ClickOn("link", place.full_name))


def _of(*kinds: str) -> Callable[[World], Sequence[Place]]:
    return lambda world: [place for kind in kinds for place in world[PLACES].where(kind=kind)]


def _told(
    name: str, kinds: Sequence[str], question: str, told: Callable[[Place], Sequence[str]]
) -> Template[Place]:
    """Return the template of what the page of a place says."""

    def candidates(world: World) -> Sequence[Place]:
        return [place for place in _of(*kinds)(world) if all(told(place))]

    def make(_: World, place: Place) -> SiteTask:
        parts = told(place)
        return SiteTask(
            intent=question.format(name=place.name, town=place.town),
            start=_START,
            criteria=answered(*parts),
            plan=(*_open(place), Answer(", ".join(parts))),
        )

    return Template(f"map.{name}", candidates, make)


def _tag(key: str) -> Callable[[Place], Sequence[str]]:
    return lambda place: (dict(place.tags).get(key, ""),)


def _capacity(_: World, place: Place) -> SiteTask:
    seats = dict(place.tags)["capacity"]
    return SiteTask(
        intent=f"How many cars can park at {place.name} in {place.town}? A number is enough.",
        start=_START,
        criteria=answered_exactly(seats),
        plan=(*_open(place), Answer(seats)),
    )


def _show(_: World, place: Place) -> SiteTask:
    return SiteTask(
        intent=f"Pull up what the map knows about {place.name} in {place.town}.",
        start=_START,
        criteria=at_page(f"{_SERVED}/node/{place.id}"),
        plan=(*_open(place), Answer()),
    )


_Near = tuple[Place, Place]
"""Where one is, and what is nearest to it."""


def _near(here: str, wanted: str, *, every: int = 1) -> Callable[[World], Sequence[_Near]]:
    """Return who draws places of a kind, each with the clearly nearest other one."""

    def candidates(world: World) -> Sequence[_Near]:
        found: list[_Near] = []
        for place in world[PLACES].where(kind=here)[::every]:
            first, second = nearest(world, place.point, kind=wanted)[:2]
            distances = [meters_between(place.point, each.point) for each in (first, second)]
            if distances[0] * _CLEARLY < distances[1]:
                found.append((place, first))
        return found

    return candidates


def _nearest_name(_: World, near: _Near) -> SiteTask:
    place, cafe = near
    return SiteTask(
        intent=f"I am at {place.name} in {place.town}. What is the cafe closest to it called?",
        start=_START,
        criteria=answered(cafe.name),
        plan=(_search(f"cafes near {place.name}"), Answer(cafe.name)),
    )


def _nearest_phone(_: World, near: _Near) -> SiteTask:
    hotel, pharmacy = near
    number = dict(pharmacy.tags)["phone"]
    return SiteTask(
        intent=f"I stay at {hotel.name} in {hotel.town} and need the telephone number of the "
        "nearest pharmacy.",
        start=_START,
        criteria=answered(number),
        plan=(
            _search(f"pharmacies near {hotel.name}"),
            ClickOn("link", pharmacy.full_name),
            Answer(number),
        ),
    )


def _nearest_street(_: World, near: _Near) -> SiteTask:
    school, library = near
    return SiteTask(
        intent=f"Name the library nearest to {school.name} in {school.town}, the street it is in, "
        "and its zip code.",
        start=_START,
        criteria=answered(library.name, library.street, library.postcode),
        plan=(
            _search(f"libraries near {school.name}"),
            Answer(f"{library.name}, {library.street}, {library.postcode}"),
        ),
    )


def _show_nearest(_: World, near: _Near) -> SiteTask:
    park, museum = near
    return SiteTask(
        intent=f"Open the map's page of the museum that is closest to {park.name} in {park.town}.",
        start=_START,
        criteria=at_page(f"{_SERVED}/node/{museum.id}"),
        plan=(_search(f"museums near {park.name}"), ClickOn("link", museum.full_name), Answer()),
    )


def _accessible(world: World) -> Sequence[_Near]:
    """Stations, each with the nearest hotel that takes wheelchairs, one of the nearest three."""
    found: list[_Near] = []
    for kind in ("station", "bus_station", "aerodrome"):
        for place in world[PLACES].where(kind=kind):
            hotels = nearest(world, place.point, kind="hotel")[:3]
            able = [hotel for hotel in hotels if dict(hotel.tags)["wheelchair"] == "yes"]
            if able:
                found.append((place, able[0]))
    return found


def _wheelchair(world: World, near: _Near) -> SiteTask:
    place, hotel = near
    query = f"hotels near {place.name}"
    moves: list[Move] = []
    for other in nearest(world, place.point, kind="hotel"):
        moves += [_search(query), ClickOn("link", other.full_name)]
        if other == hotel:
            break
    return SiteTask(
        intent=f"Which hotel near {place.name} is the closest of those that a wheelchair can "
        'enter (wheelchair: "yes")?',
        start=_START,
        criteria=answered(hotel.name),
        plan=(*moves, Answer(hotel.name)),
    )


def _north(world: World) -> Sequence[tuple[Place, Place]]:
    parks, cinemas = (world[PLACES].where(kind=kind) for kind in ("park", "cinema"))
    pairs = [(park, other) for park in parks for other in cinemas if park.town == other.town]
    return [pair for pair in pairs if abs(pair[0].latitude - pair[1].latitude) > 0.002]


def _farther_north(_: World, pair: tuple[Place, Place]) -> SiteTask:
    winner = max(pair, key=lambda place: place.latitude)
    a, b = pair
    return SiteTask(
        intent=f"Which lies farther to the north in {a.town}, {a.name} or {b.name}? "
        "Answer with the name only.",
        start=_START,
        criteria=answered_exactly(winner.name),
        plan=(*_open(a), *_open(b), Answer(winner.name)),
    )


def _silent(world: World) -> Sequence[Place]:
    return [place for place in _of("park", "parking")(world) if "phone" not in dict(place.tags)]


def _no_phone(_: World, place: Place) -> SiteTask:
    return SiteTask(
        intent=f"What is the telephone number of {place.name} in {place.town}?",
        start=_START,
        criteria=unachievable(),
        plan=(*_open(place), Answer("N/A")),
    )


def _nowhere(world: World) -> Sequence[Place]:
    return [place for place in world[PLACES].where(kind="museum") if "Clocks" not in place.name]


def _no_place(_: World, place: Place) -> SiteTask:
    name = f"{place.name} and Dinosaurs"
    return SiteTask(
        intent=f"What are the opening hours of the {name}?",
        start=_START,
        criteria=unachievable(),
        plan=(_search(name), Answer("N/A")),
    )


TEMPLATES: Final = (
    _told(
        "zip_code",
        ("museum", "school"),
        "What is the zip code of {name}?",
        lambda place: (place.postcode,),
    ),
    _told(
        "address",
        ("restaurant", "bank"),
        "In which street and district of {town} is {name}, and with which zip code?",
        lambda place: (place.street, place.district, place.postcode),
    ),
    _told(
        "coordinates",
        ("theatre", "library", "hospital"),
        "Tell me the coordinates of {name} in {town} in decimal degrees, as the map has them.",
        lambda place: (f"{place.latitude:.5f}", f"{place.longitude:.5f}"),
    ),
    _told("phone", ("bar", "books"), "How can I reach {name} in {town} by phone?", _tag("phone")),
    _told(
        "opening_hours",
        ("supermarket", "museum"),
        "When is {name} in {town} open? Answer as the map writes it.",
        _tag("opening_hours"),
    ),
    _told(
        "operator",
        ("hotel", "cinema", "fuel"),
        "Who runs {name} in {town}?",
        _tag("operator"),
    ),
    Template("map.parking_capacity", _of("parking"), _capacity),
    Template("map.show_place", _of("restaurant", "attraction"), _show),
    Template("map.nearest_cafe", _near("hospital", "cafe"), _nearest_name),
    Template("map.nearest_pharmacy_phone", _near("hotel", "pharmacy", every=2), _nearest_phone),
    Template("map.nearest_library_address", _near("school", "library"), _nearest_street),
    Template("map.show_nearest_museum", _near("park", "museum"), _show_nearest),
    Template("map.wheelchair_hotel", _accessible, _wheelchair),
    Template("map.farther_north", _north, _farther_north),
    Template("map.no_phone", _silent, _no_phone),
    Template("map.no_such_museum", _nowhere, _no_place),
)
