"""Real cities and where they lie: the packaged table, searched as a geocoding service would.

The table is `cities.tsv` (GeoNames, CC BY 4.0). Search ignores case and accents; exact names come
first, then names that begin so, each by population.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

__all__ = ["City", "Gazetteer", "load_gazetteer"]

COUNT: Final = 3
"""Matches that a search shows, as the original asks for."""
_LONGEST: Final = 100
_SHORTEST_PREFIX: Final = 3


class City(NamedTuple):
    """A place by its name."""

    name: str
    latitude: float
    longitude: float
    country: str
    """Two-letter code."""
    population: int


class Gazetteer:
    """All cities, largest first."""

    def __init__(self, cities: Sequence[City]) -> None:
        self.cities = tuple(cities)
        by_name: dict[str, list[int]] = {}
        for number, city in enumerate(self.cities):
            by_name.setdefault(folded(city.name), []).append(number)
        self._by_name = {name: tuple(numbers) for name, numbers in by_name.items()}
        self._names = sorted(self._by_name)

    def search(self, name: str) -> list[City]:
        """At most three cities, best match first; of those with the name the largest leads."""
        key = folded(name[:_LONGEST])
        cities = list(self._by_name.get(key, ()))[:COUNT]
        if len(cities) < COUNT and len(key) >= _SHORTEST_PREFIX:
            cities += self._beginning_with(key)
        return [self.cities[number] for number in dict.fromkeys(cities)][:COUNT]

    def _beginning_with(self, prefix: str) -> list[int]:
        cities: list[int] = []
        for position in range(bisect_left(self._names, prefix), len(self._names)):
            name = self._names[position]
            if not name.startswith(prefix):
                break
            cities += self._by_name[name]
        return sorted(cities)

    def is_first_match(self, city: City) -> bool:
        """Return whether a search for its name shows this city first."""
        return self.search(city.name)[:1] == [city]


def folded(name: str) -> str:
    """Return a name without case, accents and surplus blanks."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return " ".join("".join(c for c in plain if not unicodedata.combining(c)).split())


@cache
def load_gazetteer() -> Gazetteer:
    """Return the packaged table; read once per process."""
    text = (
        files("env_servers.environments.weather").joinpath("cities.tsv").read_text(encoding="utf-8")
    )
    cities: list[City] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            name, latitude, longitude, country, population = line.split("\t")
            cities.append(City(name, float(latitude), float(longitude), country, int(population)))
    return Gazetteer(cities)
