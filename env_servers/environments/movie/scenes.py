"""Who worked on what: the credits of one country's industry in one period.

A few people do much and many do little; directors return to the same people. Credits are kept as
small integers, once by film and once by person, and both say the same.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple

__all__ = [
    "COMPANIES_PER_SCENE",
    "FILMS_PER_SCENE",
    "INDUSTRIES",
    "PEOPLE_PER_SCENE",
    "PERIODS",
    "Billing",
    "Scene",
    "build_scene",
]

INDUSTRIES: Final = (0, 0, 0, *range(1, 13))
"""The country of each industry; the first country has three."""
PERIODS: Final = (
    (1938, 14),
    (1952, 12),
    (1964, 10),
    (1974, 9),
    (1983, 8),
    (1991, 7),
    (1998, 6),
    (2004, 6),
    (2010, 6),
    (2016, 7),
)
"""(first year, years)."""
FILMS_PER_SCENE: Final = 200
PEOPLE_PER_SCENE: Final = 300
COMPANIES_PER_SCENE: Final = 10

_ACTORS: Final = 220
_DIRECTORS: Final = range(220, 240)
_PRODUCERS: Final = range(240, 255)
_WRITERS: Final = range(255, 267)
_CRAFTS: Final = (
    "Original Music Composer",
    "Director of Photography",
    "Editor",
    "Casting",
    "Production Design",
    "Costume Design",
)
_CRAFTSPEOPLE: Final = range(267, 300)
_JOBS: Final = ("Director", "Producer", "Writer", "Screenplay", "Executive Producer", *_CRAFTS)
_TROUPE: Final = 14
"""Actors that a director knows best."""


class Billing(NamedTuple):
    """What a person did in a scene, by film."""

    cast: tuple[tuple[int, int], ...]
    """(film, place in its billing)."""
    crew: tuple[tuple[int, str], ...]
    """(film, job)."""


class Scene:
    """The credits of 200 films by 300 people; all numbers are local to the scene."""

    __slots__ = ("_cast", "_cast_ends", "_crew", "_crew_ends", "_crew_jobs")

    def __init__(self, casts: list[list[int]], crews: list[list[tuple[int, int]]]) -> None:
        self._cast = array("H", [who for cast in casts for who in cast])
        self._cast_ends = array("H", accumulate(len(cast) for cast in casts))
        self._crew = array("H", [who for crew in crews for who, _ in crew])
        self._crew_jobs = array("B", [job for crew in crews for _, job in crew])
        self._crew_ends = array("H", accumulate(len(crew) for crew in crews))

    def cast(self, film: int) -> list[int]:
        """People in order of billing."""
        start = self._cast_ends[film - 1] if film else 0
        return self._cast[start : self._cast_ends[film]].tolist()

    def crew(self, film: int) -> list[tuple[int, str]]:
        """(person, job) in the service's order."""
        start, end = self._crew_ends[film - 1] if film else 0, self._crew_ends[film]
        jobs = self._crew_jobs[start:end]
        return [(who, _JOBS[job]) for who, job in zip(self._crew[start:end], jobs, strict=True)]

    def works(self, person: int) -> Billing:
        """Return what a person did, in order of the films."""
        cast: list[tuple[int, int]] = []
        for position in _positions(self._cast, person):
            film = bisect_right(self._cast_ends, position)
            cast.append((film, position - (self._cast_ends[film - 1] if film else 0)))
        crew = [
            (bisect_right(self._crew_ends, position), _JOBS[self._crew_jobs[position]])
            for position in _positions(self._crew, person)
        ]
        return Billing(tuple(cast), tuple(crew))


def _positions(people: array[int], person: int) -> Iterator[int]:
    """Return where a person stands; the search runs inside the array."""
    start = 0
    while True:
        try:
            index = people.index(person, start)
        except ValueError:
            return
        yield index
        start = index + 1


def build_scene(rng: random.Random) -> Scene:
    """Return the credits of a scene; the generator alone decides."""
    weights = [(rank + 6) ** -0.6 for rank in range(_ACTORS)]
    ladder = list(accumulate(weights))
    troupes = {
        director: rng.choices(range(_ACTORS), cum_weights=ladder, k=_TROUPE)
        for director in _DIRECTORS
    }
    casts: list[list[int]] = []
    crews: list[list[tuple[int, int]]] = []
    for _ in range(FILMS_PER_SCENE):
        directors = rng.sample(_DIRECTORS, 2 if rng.random() < 0.06 else 1)
        casts.append(_cast(rng, troupes[directors[0]], ladder, directors[0]))
        crews.append(_crew(rng, directors))
    return Scene(casts, crews)


def _cast(rng: random.Random, troupe: list[int], ladder: list[float], director: int) -> list[int]:
    size = rng.randrange(6, 15)
    drawn = rng.choices(troupe, k=size // 3)
    drawn += rng.choices(range(_ACTORS), cum_weights=ladder, k=size)
    if rng.random() < 0.05:
        drawn.insert(2, director)
    return list(dict.fromkeys(drawn))[:size]


def _crew(rng: random.Random, directors: list[int]) -> list[tuple[int, int]]:
    """Directors, producers and writers anywhere among the first, then the crafts."""
    head = [(director, 0) for director in directors]
    producers = rng.sample(_PRODUCERS, rng.randrange(1, 4))
    if rng.random() < 0.25:
        producers[0] = directors[0]
    head += [(producer, 1) for producer in producers]
    writer = directors[0] if rng.random() < 0.3 else rng.choice(_WRITERS)
    head.append((writer, 2 if rng.random() < 0.4 else 3))
    rng.shuffle(head)
    tail = [(rng.choice(_PRODUCERS), 4)] if rng.random() < 0.6 else []
    for craft in range(len(_CRAFTS)):
        people = _CRAFTSPEOPLE[craft :: len(_CRAFTS)]
        if rng.random() < 0.85:
            tail.append((rng.choice(people), 5 + craft))
    return head + tail
