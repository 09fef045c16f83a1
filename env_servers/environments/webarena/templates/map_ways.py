"""Templates of the map that are about ways: how far, how long, by what, where along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from env_servers.environments.webarena.evaluation.criteria import Criteria, Target
from env_servers.environments.webarena.sites.map.finding import nearest
from env_servers.environments.webarena.sites.map.pages import (
    Directions,
    distance,
    duration,
    way_between,
)
from env_servers.environments.webarena.sites.map.places import PLACES, Place, meters_between
from env_servers.environments.webarena.sites.map.roads import Engine
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

__all__ = ["AS_SHOWN", "TEMPLATES", "Trip", "ask", "at_directions"]

_START: Final = "http://openstreetmap.org"
_WORDS: Final = {Engine.CAR: "by car", Engine.BIKE: "by bicycle", Engine.FOOT: "on foot"}
AS_SHOWN: Final = "Answer with hours and minutes as the map shows them (h:mm), and nothing else."


@dataclass(frozen=True, slots=True)
class Trip:
    """From one place to another."""

    start: Place
    end: Place

    def way(self, engine: Engine) -> Directions:
        """Return the way that the map finds."""
        way = way_between(self.start, self.end, engine)
        assert way is not None, "all towns are connected"
        return way

    def time(self, engine: Engine) -> str:
        """Return how long it takes, as the map writes it."""
        return duration(self.way(engine).seconds)

    def minutes(self, engine: Engine) -> int:
        """Return how many minutes it takes, as the map has them."""
        hours, minutes = self.time(engine).split(":")
        return int(hours) * 60 + int(minutes)


def _trips(start: str, end: str, *, far: bool = False) -> Callable[[World], Sequence[Trip]]:
    """Return who draws trips between kinds of places, in a town or to the next one."""

    def candidates(world: World) -> Sequence[Trip]:
        starts, ends = world[PLACES].where(kind=start), world[PLACES].where(kind=end)
        towns = list(dict.fromkeys(place.town for place in ends))
        found: list[Trip] = []
        for number, place in enumerate(starts):
            town = towns[(towns.index(place.town) + far) % len(towns)]
            there = [each for each in ends if each.town == town]
            found.append(Trip(place, there[number % len(there)]))
        return found

    return candidates


def ask(trip: Trip, engine: Engine) -> tuple[Move, ...]:
    """Return the moves from any page of the map to the directions."""
    chosen = [TypeInto("combobox", "Means of travel", engine.title)]
    return (
        ClickOn("link", "Directions"),
        *(chosen if engine is not Engine.CAR else ()),
        TypeInto("textbox", "From", trip.start.name),
        TypeInto("textbox", "To", trip.end.name),
        ClickOn("button", "Go", 1),
    )


def _time(name: str, start: str, end: str, engine: Engine, wish: str) -> Template[Trip]:
    """Return the template of how long a way takes."""

    def make(_: World, trip: Trip) -> SiteTask:
        time = trip.time(engine)
        question = wish.format(a=trip.start.name, b=trip.end.name, town=trip.start.town)
        return SiteTask(
            intent=f"{question} {AS_SHOWN}",
            start=_START,
            criteria=answered_exactly(time),
            plan=(*ask(trip, engine), Answer(time)),
        )

    return Template(f"map.{name}", _trips(start, end), make)


def _length(name: str, start: str, end: str, engine: Engine) -> Template[Trip]:
    """Return the template of how far a way is."""

    def make(_: World, trip: Trip) -> SiteTask:
        length = distance(trip.way(engine).meters)
        return SiteTask(
            intent=f"Measure the way from {trip.start.name} to {trip.end.name} in "
            f"{trip.start.town} {_WORDS[engine]}. Answer with the distance and its unit as the "
            "map shows them, such as 2.4km or 310m.",
            start=_START,
            criteria=answered_exactly(length),
            plan=(*ask(trip, engine), Answer(length)),
        )

    return Template(f"map.{name}", _trips(start, end), make)


def _show(name: str, start: str, end: str, engine: Engine) -> Template[Trip]:
    """Return the template of directions to be shown."""

    def make(_: World, trip: Trip) -> SiteTask:
        return SiteTask(
            intent=f"Show me the directions {_WORDS[engine]} from {trip.start.name} to "
            f"{trip.end.name} in {trip.end.town}.",
            start=_START,
            criteria=at_directions(trip, engine),
            plan=(*ask(trip, engine), Answer()),
        )

    return Template(f"map.{name}", _trips(start, end), make)


def at_directions(trip: Trip, engine: Engine) -> Criteria:
    """Return the criteria of directions that are shown, however the places were typed."""
    return at_page(
        f"http://map.test/directions?engine={engine.value}",
        _found("route_from", trip.start),
        _found("route_to", trip.end),
    )


def _found(field: str, place: Place) -> Target:
    """Return that the map took what was typed for this place."""
    locator = f"document.querySelector('[name={field}]').getAttribute('value')"
    return Target("last", locator, {"exact_match": place.full_name})


def _compare(_: World, trip: Trip) -> SiteTask:
    drive, walk = trip.time(Engine.CAR), trip.time(Engine.FOOT)
    return SiteTask(
        intent=f"Compare the time for the ways by car and on foot from {trip.start.name} to "
        f'{trip.end.name} in {trip.start.town}. Answer as "car 0:05, foot 0:30".',
        start=_START,
        criteria=answered(f"car {drive}", f"foot {walk}"),
        plan=(
            *ask(trip, Engine.CAR),
            *ask(trip, Engine.FOOT),
            Answer(f"car {drive}, foot {walk}"),
        ),
    )


def _saved(_: World, trip: Trip) -> SiteTask:
    saved = str(trip.minutes(Engine.FOOT) - trip.minutes(Engine.BIKE))
    return SiteTask(
        intent=f"How many minutes do I save when I ride a bicycle from {trip.start.name} to "
        f"{trip.end.name} in {trip.start.town} instead of walking? Answer with the number only.",
        start=_START,
        criteria=answered_exactly(saved),
        plan=(*ask(trip, Engine.FOOT), *ask(trip, Engine.BIKE), Answer(saved)),
    )


def _two_trips(world: World) -> Sequence[tuple[Trip, Trip]]:
    first = _trips("hotel", "museum")(world)
    stadiums = {place.town: place for place in world[PLACES].where(kind="stadium")}
    return [(trip, Trip(trip.end, stadiums[trip.end.town])) for trip in first]


def _walk_then_drive(_: World, trips: tuple[Trip, Trip]) -> SiteTask:
    first, second = trips
    total = str(first.minutes(Engine.FOOT) + second.minutes(Engine.CAR))
    return SiteTask(
        intent=f"I walk from {first.start.name} to the {first.end.name} and then take a car to "
        f"{second.end.name}. How many minutes am I on the way in total, by the times of the map? "
        "Answer with the number only.",
        start=_START,
        criteria=answered_exactly(total),
        plan=(*ask(first, Engine.FOOT), *ask(second, Engine.CAR), Answer(total)),
    )


def _choices(world: World) -> Sequence[tuple[Trip, Trip]]:
    """Two ways to a theatre of which one is clearly shorter."""
    found: list[tuple[Trip, Trip]] = []
    for place in world[PLACES].where(kind="university") + world[PLACES].where(kind="courthouse"):
        theatres = [t for t in world[PLACES].where(kind="theatre") if t.town == place.town]
        first, second = (Trip(place, theatre) for theatre in theatres)
        lengths = sorted(trip.way(Engine.FOOT).meters for trip in (first, second))
        if lengths[0] * 1.1 < lengths[1]:
            found.append((first, second))
    return found


def _shorter(_: World, trips: tuple[Trip, Trip]) -> SiteTask:
    nearer = min(trips, key=lambda trip: trip.way(Engine.FOOT).meters)
    first, second = trips
    return SiteTask(
        intent=f"To which theatre is the walk from {first.start.name} shorter, {first.end.name} or "
        f"{second.end.name}? Answer with its name only.",
        start=_START,
        criteria=answered_exactly(nearer.end.name),
        plan=(*ask(first, Engine.FOOT), *ask(second, Engine.FOOT), Answer(nearer.end.name)),
    )


def _in_time(_: World, trip: Trip) -> SiteTask:
    limit = 15 if trip.start.id % 2 else 30
    answer = "yes" if trip.minutes(Engine.FOOT) <= limit else "no"
    return SiteTask(
        intent=f"Can I walk from {trip.start.name} to {trip.end.name} in {trip.end.town} in "
        f"{limit} minutes or less, according to the map? Answer yes or no.",
        start=_START,
        criteria=answered_exactly(answer),
        plan=(*ask(trip, Engine.FOOT), Answer(answer)),
    )


def _first_road(world: World) -> Sequence[Trip]:
    trips = _trips("bank", "post_office")(world)
    return [trip for trip in trips if len(trip.way(Engine.BIKE).legs) > 1]


def _sets_out(_: World, trip: Trip) -> SiteTask:
    road = trip.way(Engine.BIKE).legs[0].name
    return SiteTask(
        intent=f"On which street does the bicycle route from {trip.start.name} to {trip.end.name} "
        f"in {trip.start.town} begin?",
        start=_START,
        criteria=answered(road),
        plan=(*ask(trip, Engine.BIKE), Answer(road)),
    )


def _interstates(trip: Trip) -> tuple[str, ...]:
    names = [leg.name for leg in trip.way(Engine.CAR).legs if leg.name.startswith("Interstate")]
    return tuple(dict.fromkeys(names))


def _with_interstates(world: World) -> Sequence[Trip]:
    trips = _trips("aerodrome", "aerodrome", far=True)(world)
    return [trip for trip in trips if _interstates(trip)]


def _motorways(_: World, trip: Trip) -> SiteTask:
    first = _interstates(trip)[0]
    return SiteTask(
        intent=f"I drive from {trip.start.name} to {trip.end.name}. Which interstate do I take "
        'first? Answer like "Interstate 5".',
        start=_START,
        criteria=answered_exactly(first),
        plan=(*ask(trip, Engine.CAR), Answer(first)),
    )


def _between_towns(_: World, trip: Trip) -> SiteTask:
    time = trip.time(Engine.CAR)
    return SiteTask(
        intent=f"How long is the drive from {trip.start.town} to {trip.end.town}, from the one "
        f"railway station to the other? {AS_SHOWN}",
        start=_START,
        criteria=answered_exactly(time),
        plan=(*ask(trip, Engine.CAR), Answer(time)),
    )


def _to_nearest(world: World) -> Sequence[Trip]:
    """From hotels to the supermarket that is clearly nearest."""
    found: list[Trip] = []
    for place in world[PLACES].where(kind="hotel")[::2]:
        first, second = nearest(world, place.point, kind="supermarket")[:2]
        near, far = (meters_between(place.point, other.point) for other in (first, second))
        if near * 1.15 < far:
            found.append(Trip(place, first))
    return found


def _walk_to_nearest(_: World, trip: Trip) -> SiteTask:
    return SiteTask(
        intent=f"Show me how to walk from {trip.start.name} to the closest supermarket.",
        start=_START,
        criteria=at_directions(trip, Engine.FOOT),
        plan=(
            TypeInto("textbox", "Search", f"supermarkets near {trip.start.name}", enter=True),
            *ask(trip, Engine.FOOT),
            Answer(),
        ),
    )


def _how_far_to_nearest(_: World, trip: Trip) -> SiteTask:
    answer = f"{trip.end.name}, {distance(trip.way(Engine.FOOT).meters)}"
    return SiteTask(
        intent=f"Where is the supermarket nearest to {trip.start.name}, and how far is the walk? "
        'Answer with its name and the distance as the map shows it, like "Corner Market, 310m".',
        start=_START,
        criteria=answered_exactly(answer),
        plan=(
            TypeInto("textbox", "Search", f"supermarkets near {trip.start.name}", enter=True),
            *ask(trip, Engine.FOOT),
            Answer(answer),
        ),
    )


def _no_way(_: World, trip: Trip) -> SiteTask:
    return SiteTask(
        intent=f"How long does the ferry from {trip.start.name} to {trip.end.name} take?",
        start=_START,
        criteria=unachievable(),
        plan=(*ask(trip, Engine.CAR), Answer("N/A")),
    )


TEMPLATES: Final = (
    _time(
        "drive_time",
        "hotel",
        "attraction",
        Engine.CAR,
        "I stay at {a}. How long is the drive to {b} in {town}?",
    ),
    _time(
        "walk_time",
        "cafe",
        "park",
        Engine.FOOT,
        "How long does it take to walk from {a} to {b} in {town}?",
    ),
    _length("ride_length", "bicycle", "school", Engine.BIKE),
    _length("walk_length", "bus_station", "hospital", Engine.FOOT),
    _show("show_ride", "library", "stadium", Engine.BIKE),
    _show("show_drive", "university", "aerodrome", Engine.CAR),
    Template("map.compare_car_and_foot", _trips("restaurant", "cinema"), _compare),
    Template("map.minutes_saved_by_bicycle", _trips("theatre", "bar"), _saved),
    Template("map.walk_then_drive", _two_trips, _walk_then_drive),
    Template("map.shorter_walk", _choices, _shorter),
    Template("map.walk_in_time", _trips("fast_food", "police"), _in_time),
    Template("map.first_street", _first_road, _sets_out),
    Template("map.first_interstate", _with_interstates, _motorways),
    Template("map.between_towns", _trips("station", "station", far=True), _between_towns),
    Template("map.show_walk_to_nearest", _to_nearest, _walk_to_nearest),
    Template("map.walk_to_nearest", _to_nearest, _how_far_to_nearest),
    Template("map.no_ferry", _trips("aerodrome", "aerodrome", far=True), _no_way),
)
