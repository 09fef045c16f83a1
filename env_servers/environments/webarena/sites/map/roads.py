"""The road graph: crossings, roads between them, and the shortest way in time.

A way is found by Dijkstra's algorithm. Who walks or rides a bicycle does not use motorways.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["Engine", "Leg", "Road", "RoadGraph", "Route", "Surface"]


class Surface(Enum):
    """What kind of road it is."""

    STREET = 0
    """In a town; everybody uses it."""
    COUNTRY = 1
    """Between towns; everybody uses it."""
    MOTORWAY = 2
    """Between towns; cars only."""


class Engine(Enum):
    """How one travels; the values are the names that addresses have for it."""

    CAR = "fossgis_osrm_car"
    """By car."""
    BIKE = "fossgis_osrm_bike"
    """By bicycle."""
    FOOT = "fossgis_osrm_foot"
    """On foot."""

    @property
    def title(self) -> str:
        """What a person reads."""
        return {"CAR": "Car (OSRM)", "BIKE": "Bicycle (OSRM)", "FOOT": "Foot (OSRM)"}[self.name]

    def speed(self, surface: Surface) -> float:
        """Meters a second; 0 where it is not allowed."""
        return _SPEEDS[self][surface.value]


_SPEEDS: Final = {
    Engine.CAR: (35 / 3.6, 75 / 3.6, 105 / 3.6),
    Engine.BIKE: (15 / 3.6, 18 / 3.6, 0.0),
    Engine.FOOT: (5 / 3.6, 5 / 3.6, 0.0),
}


@dataclass(frozen=True, slots=True)
class Road:
    """One direction of a road between neighbouring crossings."""

    end: int
    name: str
    meters: float
    surface: Surface


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a way along one road."""

    name: str
    meters: float
    heading: str
    """`north`, `southwest`."""


@dataclass(frozen=True, slots=True)
class Route:
    """A way."""

    meters: float
    seconds: float
    legs: tuple[Leg, ...]


class RoadGraph:
    """Crossings by number, with their points and the roads that leave them."""

    def __init__(self, points: list[tuple[float, float]], roads: list[list[Road]]) -> None:
        self.points = points
        self._roads = roads

    def __len__(self) -> int:
        return len(self.points)

    @property
    def road_count(self) -> int:
        """Number of roads; both directions count."""
        return sum(map(len, self._roads))

    def route(self, start: int, end: int, engine: Engine) -> Route | None:
        """Return the fastest way, or None where there is none."""
        came: dict[int, tuple[int, Road]] = {}
        best = {start: 0.0}
        waiting = [(0.0, start)]
        while waiting:
            seconds, crossing = heapq.heappop(waiting)
            if crossing == end:
                return self._route(start, end, seconds, came)
            if seconds > best[crossing]:
                continue
            for road in self._roads[crossing]:
                speed = engine.speed(road.surface)
                arrival = seconds + road.meters / speed if speed else math.inf
                if arrival < best.get(road.end, math.inf):
                    best[road.end] = arrival
                    came[road.end] = crossing, road
                    heapq.heappush(waiting, (arrival, road.end))
        return None

    def _route(
        self, start: int, end: int, seconds: float, came: dict[int, tuple[int, Road]]
    ) -> Route:
        steps: list[tuple[int, Road]] = []
        crossing = end
        while crossing != start:
            crossing, road = came[crossing]
            steps.append((crossing, road))
        steps.reverse()
        meters = sum(road.meters for _, road in steps)
        return Route(meters, seconds, tuple(self._legs(steps)))

    def _legs(self, steps: list[tuple[int, Road]]) -> Iterator[Leg]:
        place = 0
        while place < len(steps):
            first = place
            name = steps[first][1].name
            while place < len(steps) and steps[place][1].name == name:
                place += 1
            points = self.points[steps[first][0]], self.points[steps[place - 1][1].end]
            yield Leg(name, sum(road.meters for _, road in steps[first:place]), _heading(*points))


_HEADINGS: Final = (
    *("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"),
)


def _heading(a: tuple[float, float], b: tuple[float, float]) -> str:
    east = (b[1] - a[1]) * math.cos(math.radians(a[0]))
    angle = math.degrees(math.atan2(east, b[0] - a[0])) % 360
    return _HEADINGS[round(angle / 45) % 8]
