"""Pages of the map: search, places, directions. Nothing can be changed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from env_servers.environments.webarena.sites.map.finding import find, nearest
from env_servers.environments.webarena.sites.map.places import PLACES, Place, meters_between
from env_servers.environments.webarena.sites.map.roads import Engine, Leg, Surface
from env_servers.environments.webarena.sites.map.towns import road_graph
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.visit import Missing, Visit

__all__ = ["MAP", "Directions", "distance", "duration", "way_between"]

MAP: Final = Site("map", Path(__file__).parent)
_ENGINES: Final = tuple((engine.value, engine.title) for engine in Engine)
_RESULTS: Final = 10


@dataclass(frozen=True, slots=True)
class Directions:
    """A way from place to place."""

    meters: float
    seconds: float
    legs: Sequence[Leg]


def distance(meters: float) -> str:
    """Return `653m`, `2.2km`, `48km`."""
    if meters < 1000:
        return f"{round(meters)}m"
    kilometers = meters / 1000
    return f"{kilometers:.1f}km" if kilometers < 100 else f"{round(kilometers)}km"


def duration(seconds: float) -> str:
    """Return hours and minutes: `0:28`."""
    minutes = max(1, round(seconds / 60))
    return f"{minutes // 60}:{minutes % 60:02d}"


MAP.add_filter("distance", distance)
MAP.add_filter("duration", duration)


@MAP.page("/")
def front(visit: Visit) -> Response:
    """Show the search form."""
    return visit.render("front.html")


@MAP.page("/search")
def search(visit: Visit) -> Response:
    """Show what was found."""
    query = visit.query.text("query")
    found = cut(find(visit.world, query), visit.query.number("page", 1), _RESULTS)
    return visit.render("search.html", query=query, found=found)


@MAP.page("/node/{number:int}")
def node(visit: Visit) -> Response:
    """Show a place and what is near it."""
    place = visit.world[PLACES].get(visit.parameters["number"])
    if place is None:
        raise Missing
    near = [other for other in nearest(visit.world, place.point)[:9] if other is not place][:8]
    distances = [(other, meters_between(place.point, other.point)) for other in near]
    return visit.render("node.html", place=place, near=distances)


@MAP.page("/directions")
def directions(visit: Visit) -> Response:
    """Show the way between what was typed in two fields, or the empty form."""
    engine = Engine(
        visit.query.choice("engine", [value for value, _ in _ENGINES], Engine.CAR.value)
    )
    typed = visit.query.text("route_from"), visit.query.text("route_to")
    start, end = (next(iter(find(visit.world, text)), None) for text in typed)
    problem, way = "", None
    if all(typed):
        missed = [text for text, place in zip(typed, (start, end), strict=True) if place is None]
        if missed:
            problem = f"Sorry, couldn't locate '{missed[0][:100]}'."
        elif start is not None and end is not None:
            way = way_between(start, end, engine)
            problem = "" if way else "Couldn't find a route between those two places."
    return visit.render(
        "directions.html",
        engine=engine,
        engines=_ENGINES,
        typed=typed,
        start=start,
        end=end,
        way=way,
        problem=problem,
        reverse=visit.link(route_from=typed[1], route_to=typed[0]),
    )


def way_between(start: Place, end: Place, engine: Engine) -> Directions | None:
    """Return the way, with the steps from a door to the next crossing and from the last one."""
    graph = road_graph()
    route = graph.route(start.crossing, end.crossing, engine)
    if route is None:
        return None
    if start is end:
        return Directions(0.0, 0.0, ())
    doors = [meters_between(place.point, graph.points[place.crossing]) for place in (start, end)]
    seconds = route.seconds + sum(doors) / engine.speed(Surface.STREET)
    return Directions(route.meters + sum(doors), seconds, route.legs)


def directions_to(place: Place) -> str:
    """Return the address of the directions to a place."""
    return f"/directions?{urlencode({'route_from': '', 'route_to': place.full_name})}"


def directions_from(place: Place) -> str:
    """Return the address of the directions from a place."""
    return f"/directions?{urlencode({'route_from': place.full_name, 'route_to': ''})}"


MAP.add_filter("directions_to", directions_to)
MAP.add_filter("directions_from", directions_from)
