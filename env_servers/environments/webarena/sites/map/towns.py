"""The towns of the map: where they are, their streets, and the road graph over all of them.

Towns and their rough positions are real; streets and everything that stands at them are invented.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Final

from env_servers.environments.webarena.sites.map.places import meters_between
from env_servers.environments.webarena.sites.map.roads import Road, RoadGraph, Surface
from env_servers.environments.webarena.sites.people import STREETS, TOWNS

__all__ = ["BLOCK", "DISTRICTS", "SIDE", "Town", "road_graph", "towns"]

SIDE: Final = 8
"""Streets in each direction of a town."""
BLOCK: Final = 0.0026
"""Degrees of latitude between two streets, some 290 m."""
DISTRICTS: Final = ("Riverside", "Old Town", "Highlands", "Eastgate")
_LINKS: Final = 3
_POINTS: Final = (
    *((40.4406, -79.9959), (39.9526, -75.1652), (40.7128, -74.0060), (42.8864, -78.8784)),
    *((42.3601, -71.0589), (42.2626, -71.8023), (41.8781, -87.6298), (39.7817, -89.6501)),
    *((39.7392, -104.9903), (40.0150, -105.2705), (47.6062, -122.3321), (47.2529, -122.4443)),
    *((45.5152, -122.6784), (30.2672, -97.7431), (29.7604, -95.3698), (37.7749, -122.4194)),
    *((38.5816, -121.4944), (33.4484, -112.0740), (33.7490, -84.3880), (25.7617, -80.1918)),
    *((27.9506, -82.4572), (39.9612, -82.9988), (41.4993, -81.6944), (42.3314, -83.0458)),
    *((44.9778, -93.2650), (36.1627, -86.7816), (37.5407, -77.4360), (40.7608, -111.8910)),
)


@dataclass(frozen=True, slots=True)
class Town:
    """A grid of streets: `rows` run from west to east, `columns` from south to north."""

    number: int
    name: str
    state: str
    short_state: str
    postcode: str
    """Its first three digits."""
    latitude: float
    longitude: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def crossing(self, row: int, column: int) -> int:
        """Return the number of a crossing in the road graph."""
        return self.number * SIDE * SIDE + row * SIDE + column

    def point(self, row: float, column: float) -> tuple[float, float]:
        """Return a position in the grid as latitude and longitude."""
        middle = (SIDE - 1) / 2
        return (
            round(self.latitude + (row - middle) * BLOCK, 5),
            round(self.longitude + (column - middle) * BLOCK * 1.3, 5),
        )

    def district(self, row: float, column: float) -> str:
        """Return the quarter of the town that a position is in."""
        return DISTRICTS[(row >= SIDE / 2) * 2 + (column >= SIDE / 2)]


@cache
def towns() -> tuple[Town, ...]:
    """Return all towns."""
    found: list[Town] = []
    for number, ((name, state, short, postcode), (latitude, longitude)) in enumerate(
        zip(TOWNS, _POINTS, strict=True)
    ):
        draw = random.Random(f"map.streets/{name}")
        names = draw.sample(STREETS, 2 * SIDE)
        town = Town(
            number,
            name,
            state,
            short,
            postcode,
            latitude,
            longitude,
            tuple(names[:SIDE]),
            tuple(names[SIDE:]),
        )
        found.append(town)
    return tuple(found)


@cache
def road_graph() -> RoadGraph:
    """Return the roads of all towns and between them."""
    points = [
        town.point(row, column) for town in towns() for row in range(SIDE) for column in range(SIDE)
    ]
    roads: list[list[Road]] = [[] for _ in points]

    def connect(a: int, b: int, name: str, surface: Surface, detour: float) -> None:
        meters = meters_between(points[a], points[b]) * detour
        roads[a].append(Road(b, name, meters, surface))
        roads[b].append(Road(a, name, meters, surface))

    draw = random.Random("map.roads")
    for town in towns():
        for row in range(SIDE):
            for column in range(SIDE):
                here = town.crossing(row, column)
                detour = draw.uniform(1.0, 1.12)
                if column + 1 < SIDE:
                    east = town.crossing(row, column + 1)
                    connect(here, east, town.rows[row], Surface.STREET, detour)
                if row + 1 < SIDE:
                    north = town.crossing(row + 1, column)
                    connect(here, north, town.columns[column], Surface.STREET, detour)
    for number, (a, b) in enumerate(sorted(_links())):
        first, second = towns()[a], towns()[b]
        ends = _edge_towards(first, second), _edge_towards(second, first)
        name = f"Interstate {11 + 3 * number}"
        connect(*ends, name, Surface.MOTORWAY, draw.uniform(1.12, 1.25))
        name = f"Route {101 + 7 * number}"
        connect(*ends, name, Surface.COUNTRY, draw.uniform(1.2, 1.4))
    return RoadGraph(points, roads)


def _links() -> set[tuple[int, int]]:
    """Pairs of towns with a road between them: near ones, and what connects all of them."""
    pairs = sorted(
        (meters_between((a.latitude, a.longitude), (b.latitude, b.longitude)), a.number, b.number)
        for a in towns()
        for b in towns()
        if a.number < b.number
    )
    group = list(range(len(towns())))
    degree = [0] * len(group)
    links: set[tuple[int, int]] = set()
    for _, a, b in pairs:
        joins = group[a] != group[b]
        if joins:
            old = group[b]
            group = [group[a] if of == old else of for of in group]
        if joins or (degree[a] < _LINKS and degree[b] < _LINKS):
            links.add((a, b))
            degree[a] += 1
            degree[b] += 1
    return links


def _edge_towards(town: Town, other: Town) -> int:
    """Return the crossing at which a road to another town begins."""
    east, north = other.longitude - town.longitude, other.latitude - town.latitude
    if abs(east) > abs(north):
        return town.crossing(SIDE // 2, SIDE - 1 if east > 0 else 0)
    return town.crossing(SIDE - 1 if north > 0 else 0, SIDE // 2)
