"""What the encyclopedia knows: people, works, companies, teams and nature, before it is written up.

Drawn by fixed seeds. Titles are unique over all kinds, so that an article has one address.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from env_servers.environments.webarena.sites.map.content import places
from env_servers.environments.webarena.sites.map.places import Place
from env_servers.environments.webarena.sites.map.towns import Town, towns
from env_servers.environments.webarena.sites.people import FAMILY_NAMES, GIVEN_NAMES
from env_servers.environments.webarena.sites.wordlists import entries, words

__all__ = ["PROFESSIONS", "Nature", "Organisation", "Person", "Subjects", "Work", "subjects"]

PEOPLE: Final = 1_300
WORKS: Final = {"novel": 320, "film": 420, "album": 260}
COMPANIES: Final = 260
NATURE: Final = {"river": 130, "mountain": 170, "lake": 90, "bird": 160, "plant": 140}
PROFESSIONS: Final = words(
    "novelist director musician physicist chemist architect painter botanist mathematician "
    "engineer historian economist swimmer astronomer"
)
_ADJECTIVES: Final = words(
    "Amber Ancient Autumn Bitter Blue Borrowed Bright Broken Burning Clear Cold Copper "
    "Crimson Dark Distant Early Eastern Electric Empty Endless Fading Falling Forgotten "
    "Frozen Gentle Glass Golden Green Grey Hidden Hollow Idle Inner Iron Last Late Little "
    "Lonely Long Lost Loud Lunar Midnight Narrow Northern Old Open Paper Patient Pale Perfect "
    "Quiet Red Restless Rising Sacred Second Secret Seventh Silent Silver Sleeping Slow Small "
    "Southern Steady Stolen Stone Sudden Summer Third Tidal Tired Uncertain Vanishing Velvet "
    "Violet Wandering Western White Wild Winter"
)
_NOUNS: Final = words(
    "Alphabet Anchor Arcade Archive Atlas Balcony Bell Bicycle Border Bridge Canal Candle "
    "Cathedral Chapter Choir Circle Clock Coast Compass Corridor Country Crossing Crown "
    "Current Dance Daughter Delta Door Dream Drummer Echo Empire Engine Equation Evening Farm "
    "Ferry Fire Forest Fountain Frontier Garden Gate Ghost Harbor Harvest Horizon Hotel Hour "
    "House Island Journey Key Kingdom Ladder Language Lantern Letter Library Light Line "
    "Machine Map Market Memory Meridian Mirror Moon Mountain Museum Music Night Ocean Orchard "
    "Orchestra Painter Passage Pilot Planet Promise Queen Quarry Rain Return River Road Room "
    "Sailor School Season Shadow Shore Signal Sister Sky Song Station Storm Story Stranger "
    "Street Summer Theatre Tide Tower Traveller Tree Valley Village Voice Voyage Wall Watch "
    "Water Weaver Wind Window Winter Witness Year"
)
_COMPANY_KINDS: Final = entries(
    "Motors: vehicles; Foods: food; Systems: software; Instruments: scientific instruments; "
    "Airways: aviation; Textiles: clothing; Publishing: books; Energy: power; Pharma: medicines; "
    "Shipping: freight"
)
_TEAM_NAMES: Final = words(
    "Hawks Rivermen Comets Foxes Pioneers Herons Mariners Miners Wolves Sparks Royals Owls "
    "Rangers Storm Bisons Anchors Falcons Lynx Giants Arrows Harriers Lions Pilots Badgers "
    "Stags Waves Thunder Otters"
)
_BIRDS: Final = words("warbler finch heron thrush wren lark plover kite owl tern sandpiper jay")
_PLANTS: Final = words("sage orchid fern lily clover aster primrose thistle gentian violet sedge")
_MARKS: Final = words(
    "amber banded barred black blue bronze brown buff cinnamon copper crested crimson dusky "
    "dwarf eastern emerald golden great grey hooded ivory lesser little long-leaved marsh "
    "masked mottled mountain northern olive pale pied plain prairie purple red ringed river "
    "rock rosy ruby scarlet shore silver slender slate spotted streaked swamp tawny tufted "
    "violet western white wood yellow"
)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody."""

    name: str
    profession: str
    born: int
    died: int | None
    birthplace: Town
    university: Town
    spouse: str
    prize: str
    prize_year: int


@dataclass(frozen=True, slots=True)
class Work:
    """A novel, a film or an album by a person."""

    title: str
    kind: str
    maker: Person
    year: int
    setting: Town
    length: int
    """Pages, or minutes."""
    source: str = ""
    """The novel that a film is made of."""
    cast: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Organisation:
    """A company or a team."""

    title: str
    kind: str
    town: Town
    founded: int
    people: int
    """Employees, or titles won."""
    leader: Person
    ground: Place | None = None
    """A team's stadium."""


@dataclass(frozen=True, slots=True)
class Nature:
    """A river, a mountain, a lake, a bird or a plant."""

    title: str
    kind: str
    town: Town
    """What it is near to."""
    size: int
    """Length in km, height in m, area in square km, or size in cm."""
    found_by: Person
    year: int


@dataclass(slots=True)
class Subjects:
    """Everything, by kind."""

    people: list[Person] = field(default_factory=list[Person])
    works: list[Work] = field(default_factory=list[Work])
    organisations: list[Organisation] = field(default_factory=list[Organisation])
    nature: list[Nature] = field(default_factory=list[Nature])


@cache
def subjects() -> Subjects:
    """Return all subjects."""
    taken = {town.name for town in towns()} | {place.name for place in places()}
    people = list(_people(random.Random("wiki.people"), taken))
    works = list(_works(random.Random("wiki.works"), people, taken))
    organisations = [
        *_companies(random.Random("wiki.companies"), people, taken),
        *_teams(random.Random("wiki.teams"), people),
    ]
    nature = list(_nature(random.Random("wiki.nature"), people, taken))
    return Subjects(people, works, organisations, nature)


def _people(draw: random.Random, taken: set[str]) -> Iterator[Person]:
    names = [f"{given} {family}" for given in GIVEN_NAMES for family in FAMILY_NAMES]
    chosen = draw.sample(names, PEOPLE)
    taken.update(chosen)
    for number, name in enumerate(chosen):
        born = draw.randrange(1790, 1985)
        age = draw.randrange(41, 96)
        yield Person(
            name=name,
            profession=PROFESSIONS[number % len(PROFESSIONS)],
            born=born,
            died=born + age if born + age < 2025 else None,
            birthplace=draw.choice(towns()),
            university=draw.choice(towns()),
            spouse=f"{draw.choice(GIVEN_NAMES)} {draw.choice(FAMILY_NAMES)}",
            prize=f"{draw.choice(FAMILY_NAMES)} Prize",
            prize_year=born + draw.randrange(28, 41),
        )


def _works(draw: random.Random, people: list[Person], taken: set[str]) -> Iterator[Work]:
    makers = {"novel": "novelist", "film": "director", "album": "musician"}
    actors = [f"{draw.choice(GIVEN_NAMES)} {draw.choice(FAMILY_NAMES)}" for _ in range(90)]
    novels: list[str] = []
    for kind, count in WORKS.items():
        after = 1900 if kind != "novel" else 1790
        able = [p for p in people if p.profession == makers[kind] and p.born > after]
        for number in range(count):
            maker = able[number % len(able)]
            title = _free(taken, lambda: _title(draw))
            source = draw.choice(novels) if kind == "film" and draw.random() < 0.4 else ""
            if kind == "novel":
                novels.append(title)
            yield Work(
                title=title,
                kind=kind,
                maker=maker,
                year=min(maker.born + draw.randrange(24, 41), 2024),
                setting=draw.choice(towns()),
                length=draw.randrange(120, 900) if kind == "novel" else draw.randrange(38, 190),
                source=source,
                cast=tuple(draw.sample(actors, 3)) if kind == "film" else (),
            )


def _title(draw: random.Random) -> str:
    adjective, noun = draw.choice(_ADJECTIVES), draw.choice(_NOUNS)
    other = draw.choice(_NOUNS)
    forms = (f"The {adjective} {noun}", f"{adjective} {noun}", f"The {noun} of {other}")
    return draw.choice(forms)


def _companies(
    draw: random.Random, people: list[Person], taken: set[str]
) -> Iterator[Organisation]:
    for number in range(COMPANIES):
        kind = _COMPANY_KINDS[number % len(_COMPANY_KINDS)].partition(": ")
        leader = draw.choice(people)
        yield Organisation(
            title=_free(taken, lambda name=kind[0]: f"{draw.choice(FAMILY_NAMES)} {name}"),
            kind=kind[2],
            town=draw.choice(towns()),
            founded=leader.born + draw.randrange(24, 40),
            people=draw.randrange(40, 90_000),
            leader=leader,
        )


def _teams(draw: random.Random, people: list[Person]) -> Iterator[Organisation]:
    living = [person for person in people if person.died is None]
    grounds = {place.town: place for place in places() if place.kind == "stadium"}
    for town, name in zip(towns(), _TEAM_NAMES, strict=True):
        yield Organisation(
            title=f"{town.name} {name}",
            kind="team",
            town=town,
            founded=draw.randrange(1880, 1990),
            people=draw.randrange(0, 23),
            leader=draw.choice(living),
            ground=grounds[town.name],
        )


def _nature(draw: random.Random, people: list[Person], taken: set[str]) -> Iterator[Nature]:
    sizes = {
        "river": (18, 2_400),
        "mountain": (420, 4_600),
        "lake": (2, 900),
        "bird": (9, 120),
        "plant": (5, 220),
    }
    for kind, count in NATURE.items():
        for _ in range(count):
            title = _free(taken, lambda kind=kind: _natural_name(draw, kind))
            finder = draw.choice(people)
            yield Nature(
                title=title,
                kind=kind,
                town=draw.choice(towns()),
                size=draw.randrange(*sizes[kind]),
                found_by=finder,
                year=finder.born + draw.randrange(22, 41),
            )


def _natural_name(draw: random.Random, kind: str) -> str:
    if kind in ("bird", "plant"):
        noun = draw.choice(_BIRDS if kind == "bird" else _PLANTS)
        return f"{draw.choice(_MARKS)} {noun}".capitalize()
    name = draw.choice((*_ADJECTIVES, *_NOUNS, *FAMILY_NAMES))
    return {"river": f"{name} River", "mountain": f"Mount {name}", "lake": f"Lake {name}"}[kind]


def _free(taken: set[str], make: Callable[[], str]) -> str:
    """Return a title that nothing else has."""
    title = make()
    while title in taken:
        title = make()
    taken.add(title)
    return title
