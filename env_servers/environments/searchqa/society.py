"""The people of the invented world and what they founded, made, built and discovered.

Contains how many there are and which facts each has; years agree with lives. It adds to a world
that has its places already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final

from env_servers.environments.searchqa.lexicon import (
    ADJECTIVES,
    BAND_NOUNS,
    BEASTS,
    BODIES,
    FIELDS,
    GENRES,
    INDUSTRIES,
    MONTHS,
    NOUNS,
    PROFESSIONS,
    STYLES,
)
from env_servers.environments.searchqa.world import PRESENT, Entity, World
from env_servers.toolkit.retrieval.stemmer import stem

__all__ = ["add_arts", "add_buildings", "add_enterprises", "add_nature", "add_people"]

PEOPLE: Final = 8000
COMPANIES: Final = 1400
NOVELS: Final = 1900
FILMS: Final = 1500
BANDS: Final = 400
ALBUMS: Final = 900
PAINTINGS: Final = 700
MUSEUMS: Final = 220
BRIDGES: Final = 420
SPECIES: Final = 1000
EXPEDITIONS: Final = 320
CLUBS: Final = 520
NEWSPAPERS: Final = 260
AWARDS: Final = 120
SHIPS: Final = 320
RAILWAYS: Final = 240

_LONGEST_LIFE: Final = 93
_OLD: Final = 1935
"""Who was born before this year is dead."""


def add_people(world: World) -> None:
    """People with dates, birthplaces, studies; some with teachers, spouses and other names."""
    draw, names = world.draw, world.names
    for number in range(PEOPLE):
        home = world.any("town")
        culture, woman = world.culture(home), draw.chance(0.5)
        born = draw.between(1780, 1988)
        person = world.add(
            "person",
            names.person(culture, woman=woman),
            gender="she" if woman else "he",
            profession=PROFESSIONS[number % len(PROFESSIONS)],
            born=born,
            birth_date=_date(world, born),
            birthplace=home,
        )
        if draw.chance(0.7):
            person.facts["university"] = world.any("university")
        if born < _OLD:
            died = born + draw.between(48, _LONGEST_LIFE)
            if died < PRESENT:
                person.facts |= {"died": died, "death_date": _date(world, died)}
                person.facts["deathplace"] = world.any("town")
        if draw.chance(0.12):
            first_name = person.name.split(" ", 1)[0]
            person.facts["known_as"] = names.once(
                lambda g=first_name, c=culture: f"{g} {names.surname(c)}"
            )
    _add_ties(world)


def _date(world: World, year: int) -> str:
    return f"{world.draw.between(1, 28)} {world.draw.pick(MONTHS)} {year}"


def _add_ties(world: World) -> None:
    """Marriages between people of an age, and teachers who were born earlier."""
    draw = world.draw
    by_age = sorted(world.by_kind["person"], key=lambda p: (p.amount("born"), p.number))
    index = 0
    while index + 1 < len(by_age):
        one, other = by_age[index], by_age[index + 1]
        if one.facts["gender"] != other.facts["gender"] and draw.chance(0.4):
            one.facts["spouse"], other.facts["spouse"] = other, one
        elder = by_age[draw.below(index + 1)]
        if 20 <= other.amount("born") - elder.amount("born") <= 55:
            other.facts["teacher"] = elder
        index += 2


class _Makers:
    """People by profession, and years in which they can have done something."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_profession: dict[str, list[Entity]] = {}
        for person in world.by_kind["person"]:
            self._by_profession.setdefault(str(person.facts["profession"]), []).append(person)

    def somebody(self, *professions: str, earliest: int = 0) -> tuple[Entity, int]:
        """A drawn person of these professions, and a year of working life not before `earliest`."""
        draw = self._world.draw
        while True:
            person = draw.pick(self._by_profession[draw.pick(professions)])
            born = person.amount("born")
            died = person.facts.get("died")
            last = min(born + 70, PRESENT if died is None else person.amount("died"))
            first = max(born + 22, earliest)
            if first <= last:
                return person, draw.between(first, last)


def _title(world: World, form: str = "The {a} {n}", nouns: Sequence[str] = NOUNS) -> str:
    """A new title; no two words of it stand together in another, or a search would mix them up."""
    draw = world.draw
    while True:
        adjective, noun, other = draw.pick(ADJECTIVES), draw.pick(nouns), draw.pick(nouns)
        title = form.format(a=adjective.title(), n=noun.title(), m=other.title())
        drawn = [word for word in (adjective, noun, other) if word.title() in title]
        pairs = {frozenset(pair) for pair in combinations(map(stem, drawn), 2)}
        if noun != other and world.paired.isdisjoint(pairs):
            world.paired |= pairs
            return _INDEFINITE.sub("An", title)


_INDEFINITE: Final = re.compile(r"\bA(?= [AEIOU])")
_TITLES: Final = (
    "The {a} {n}", "The {n} and the {m}", "A {n} for the {m}", "The {a} {n} of the {m}", "{a} {n}",
    "{n} Without {m}", "Postcards from the {a} {n}", "The {n} at the {a} {m}", "Beyond the {a} {n}",
)  # fmt: skip


def add_arts(world: World) -> None:
    """Novels, films (half of them after novels), bands, albums, museums and paintings."""
    draw, makers = world.draw, _Makers(world)
    for _ in range(NOVELS):
        author, year = makers.somebody("novelist")
        world.add(
            "novel", _title(world, draw.pick(_TITLES)), author=author, published=year,
            genre=draw.pick(GENRES), setting=world.any("town"),
        )  # fmt: skip
    adapted = draw.few([n for n in world.by_kind["novel"] if n.amount("published") < 2010], 700)
    for number in range(FILMS):
        novel = adapted[number] if number < len(adapted) else None
        earliest = max(1912, novel.amount("published") + 1) if novel else 1912
        director, year = makers.somebody("film director", earliest=earliest)
        name = f"{novel.name} (film)" if novel else _title(world, draw.pick(_TITLES))
        film = world.add(
            "film", name, director=director, released=year, genre=draw.pick(GENRES),
            star=_contemporary(makers, year, "actor"), location=world.any("town"),
        )  # fmt: skip
        if novel:
            film.facts["novel"] = novel
        else:
            film.facts["composer"] = _contemporary(makers, year, "composer", "musician")
    for _ in range(BANDS):
        singer, year = makers.somebody("musician", earliest=1955)
        name = _title(world, "The {a} {n}", BAND_NOUNS)
        world.add(
            "band", name, singer=singer, founded=year, town=world.any("town"),
            style=draw.pick(STYLES),
        )  # fmt: skip
    for _ in range(ALBUMS):
        band = world.any("band")
        year = min(PRESENT, band.amount("founded") + draw.between(1, 18))
        world.add("album", f"{_title(world, '{a} {n}')} (album)", band=band, released=year)
    _add_paintings(world, makers)


def _add_paintings(world: World, makers: _Makers) -> None:
    draw = world.draw
    for town in draw.few(world.by_kind["town"], MUSEUMS):
        architect, year = makers.somebody("architect")
        theme = draw.pick(("Art", "Maritime", "City", "Folk", "Railway", "Textile", "Natural"))
        world.add(
            "museum", f"{town.name} {theme} Museum", town=town, architect=architect, opened=year
        )
    for _ in range(PAINTINGS):
        painter, year = makers.somebody("painter")
        form = draw.pick(("{n} with {a} {m}", "Woman with a {a} {n}", "{a} {n} at Dusk"))
        world.add(
            "painting", _title(world, form), painter=painter, painted=year,
            museum=world.any("museum"),
        )  # fmt: skip


def _contemporary(makers: _Makers, year: int, *professions: str) -> Entity:
    """Somebody who was at work in that year."""
    while True:
        person, _ = makers.somebody(*professions, earliest=year)
        if person.amount("born") + 18 <= year:
            return person


def add_enterprises(world: World) -> None:
    """Companies, clubs, newspapers, awards, ships and railways."""
    draw, makers = world.draw, _Makers(world)
    for _ in range(COMPANIES):
        founder, year = makers.somebody("entrepreneur", "engineer")
        industry, product = draw.pick(INDUSTRIES)
        name = _company_name(world, founder, industry)
        world.add(
            "company", name, founder=founder, founded=year, headquarters=world.any("town"),
            product=product,
        )  # fmt: skip
    for town in draw.few(world.by_kind["town"], CLUBS):
        coach, year = makers.somebody("football coach", earliest=1885)
        ground = f"{world.names.surname(world.culture(town))} Park"
        suffix = draw.pick(("Rovers", "Athletic", "Wanderers", "United", "Sporting", "Albion"))
        world.add(
            "club", f"{town.name} {suffix}", town=town, coach=coach, ground=ground,
            founded=min(year, draw.between(1885, 1960)),
        )  # fmt: skip
    for town in draw.few(world.by_kind["town"], NEWSPAPERS):
        founder, year = makers.somebody("journalist")
        paper = draw.pick(("Courier", "Gazette", "Observer", "Herald", "Morning Post", "Echo"))
        world.add("newspaper", f"{town.name} {paper}", town=town, founder=founder, founded=year)
    for _ in range(AWARDS):
        namesake, year = makers.somebody("historian", "chemist", "mathematician", "poet")
        field = draw.pick(FIELDS)
        name = f"{namesake.name.split(' ', 1)[1]} Prize for {field.title()}"
        if not any(award.name == name for award in world.by_kind.get("award", ())):
            world.add(
                "award", name, namesake=namesake, field=field, first_awarded=year,
                winner=_contemporary(makers, year, "painter", "chemist", "architect", "poet"),
            )  # fmt: skip
    _add_transport(world, makers)


def _company_name(world: World, founder: Entity, industry: str) -> str:
    """After the founder, or after a drawn place where that name is taken."""
    first = [founder.name.split(" ", 1)[1]]
    culture = world.culture(founder.to("birthplace"))

    def make() -> str:
        stem = first.pop() if first else world.names.place(culture)
        return f"{stem} {industry}"

    return world.names.once(make)


def _add_transport(world: World, makers: _Makers) -> None:
    draw = world.draw
    yards = [c for c in world.by_kind["company"] if c.facts["product"] == "cargo ships"]
    for _ in range(SHIPS):
        yard = draw.pick(yards)
        captain, year = makers.somebody("sea captain", earliest=yard.amount("founded"))
        world.add(
            "ship", f"MS {world.names.place(draw.below(10))}", shipyard=yard, launched=year,
            captain=captain, port=world.any("town"),
        )  # fmt: skip
    for _ in range(RAILWAYS):
        start, end = draw.few(world.by_kind["town"], 2)
        engineer, year = makers.somebody("engineer", earliest=1840)
        name = world.names.once(lambda s=start, e=end: f"{s.name}\u2013{e.name} Railway")
        world.add(
            "railway", name, start=start, end=end, engineer=engineer, opened=year,
            length=draw.between(14, 620),
        )  # fmt: skip


def add_buildings(world: World) -> None:
    """Bridges over the rivers of their towns."""
    draw, makers = world.draw, _Makers(world)
    for town in draw.few(world.by_kind["town"], BRIDGES):
        architect, year = makers.somebody("architect", "engineer")
        name = f"{architect.name.split(' ', 1)[1]} Bridge"
        name = _title(world, "{a} {n} Bridge") if draw.chance(0.3) else name
        unique = _distinguished(world, name, town)
        world.add(
            "bridge", unique, river=town.to("river"), town=town, architect=architect, opened=year,
            span=draw.between(24, 1400),
        )  # fmt: skip


def _distinguished(world: World, name: str, town: Entity) -> str:
    """Return the name, with the town before it where it is taken."""
    tries = iter((name, f"{town.name} {name}", f"Old {town.name} {name}"))
    return world.names.once(lambda: next(tries))


def add_nature(world: World) -> None:
    """Species with those who described them, and expeditions to mountains and lakes."""
    draw, makers = world.draw, _Makers(world)
    for _ in range(SPECIES):
        finder, year = makers.somebody("biologist", "botanist")
        beast, body = draw.pick(BEASTS), draw.pick(BODIES)
        place = world.any(draw.pick(("mountain", "lake", "river")))
        forms: list[Callable[[], str]] = [
            lambda f=finder, b=beast: f"{f.name.split(' ', 1)[1]}'s {b}",
            lambda p=place, y=body, b=beast: f"{_stem(p)} {y} {b}",
        ]
        name = world.names.once(lambda o=forms: (o.pop(0) if len(o) > 1 else o[0])())
        world.add("species", name, finder=finder, described=year, habitat=place, body=body)
    for _ in range(EXPEDITIONS):
        leader, year = makers.somebody("explorer", "mountaineer")
        goal = world.any(draw.pick(("mountain", "lake")))
        name = f"{leader.name.split(' ', 1)[1]} {_stem(goal)} Expedition"
        if not any(e.name == name for e in world.by_kind.get("expedition", ())):
            world.add(
                "expedition", name, leader=leader, year=year, goal=goal, start=world.any("town")
            )


def _stem(place: Entity) -> str:
    """Return the word that names a mountain, lake or river."""
    return place.name.removeprefix("Mount ").removeprefix("Lake ").removesuffix(" River")
