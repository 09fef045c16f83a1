"""An invented world of films: 30,000 of them, 45,000 people, 1,500 companies.

Everything follows from a number and one seed: nothing is read, and only the credits of a scene are
kept once they were asked for. A scene is what one country's industry made in one period: 200 films
by 300 people, who work with each other again and again. Both ways of asking, a film's people and a
person's films, read the same credits, so that they always agree.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from env_servers.environments.movie.lexicon import (
    ADJECTIVES,
    ALTERNATIVES,
    COMPANY_ENDINGS,
    COMPANY_WORDS,
    COUNTRIES,
    GENRES,
    KEYWORDS,
    LANGUAGES,
    NOUNS,
    PLACES,
    PLURALS,
    ROLES,
    Country,
)
from env_servers.environments.movie.scenes import (
    COMPANIES_PER_SCENE,
    FILMS_PER_SCENE,
    INDUSTRIES,
    PEOPLE_PER_SCENE,
    PERIODS,
    Billing,
    Scene,
    build_scene,
)
from env_servers.toolkit.tool_calls.people import CULTURES, Culture, mix_bits, permuted_index

__all__ = ["COMPANIES", "FILMS", "PEOPLE", "Catalogue", "Company", "Film", "Person"]

SCENES: Final = len(INDUSTRIES) * len(PERIODS)
FILMS: Final = SCENES * FILMS_PER_SCENE
PEOPLE: Final = SCENES * PEOPLE_PER_SCENE
COMPANIES: Final = SCENES * COMPANIES_PER_SCENE
SEED: Final = 20_261_121
_FILM_IDS: Final = 1_299_709
"""A prime: ids lie permuted_index below it, as the service's do."""
_PERSON_IDS: Final = 4_256_233
_FILM, _PERSON, _COMPANY, _CREDITS, _CHARACTER = range(5)
"""What a seed is for."""


def _naming() -> tuple[tuple[Culture, int, int], ...]:
    """(culture, which of its industries, how many it has) of each industry."""
    spoken = [COUNTRIES[country].culture for country in INDUSTRIES]
    return tuple(
        (CULTURES[culture], spoken[:index].count(culture), spoken.count(culture))
        for index, culture in enumerate(spoken)
    )


_NAMING: Final = _naming()


class Company(NamedTuple):
    """A production company."""

    company_id: int
    name: str
    logo_path: str | None
    country: str
    """Country code, or empty where the service does not know it."""


@dataclass(frozen=True, slots=True)
class Film:
    """All facts of a film but its credits."""

    number: int
    film_id: int
    title: str
    plot: tuple[int, int, int, int]
    """Its plot in any language; see `Language.plot`."""
    genres: tuple[tuple[int, str], ...]
    budget: int
    """Dollars; 0 = not known."""
    revenue: int
    vote_average: float
    release_date: str
    runtime: int
    popularity: float
    keywords: tuple[str, ...]
    countries: tuple[Country, ...]
    companies: tuple[Company, ...]
    languages: tuple[int, ...]
    """Which of LANGUAGES its plot is told in."""
    alternative_titles: tuple[tuple[str, str, str], ...]
    """(country, title, type)."""

    @property
    def overview(self) -> str:
        """The plot in English."""
        return LANGUAGES[0].plot(*self.plot)


@dataclass(frozen=True, slots=True)
class Person:
    """All facts of a person but what they worked on."""

    number: int
    person_id: int
    name: str
    birthday: str
    place_of_birth: str
    biography: str
    imdb_id: str
    facebook_id: str | None
    instagram_id: str | None
    twitter_id: str | None
    popularity: float


def _film_title(number: int) -> str:
    """Return a title per number; no two are equal, within a pattern or across them."""
    k, pattern = divmod(number, 5)
    if pattern == 0:
        noun, adjective = divmod(permuted_index(k, len(NOUNS) * len(ADJECTIVES)), len(ADJECTIVES))
        return f"The {ADJECTIVES[adjective]} {NOUNS[noun]}"
    if pattern == 1:
        number = permuted_index(k, len(PLURALS) * len(ADJECTIVES))
        plural, adjective = divmod(number, len(ADJECTIVES))
        return f"{ADJECTIVES[adjective]} {PLURALS[plural]}"
    if pattern == 2:
        plural, noun = divmod(permuted_index(k, len(PLURALS) * len(NOUNS)), len(NOUNS))
        return f"{NOUNS[noun]} of {PLURALS[plural]}"
    if pattern == 3:
        place, noun = divmod(permuted_index(k, len(PLACES) * len(NOUNS)), len(NOUNS))
        return f"The {NOUNS[noun]} of {PLACES[place]}"
    other, noun = divmod(permuted_index(k, len(NOUNS) * (len(NOUNS) - 1)), len(NOUNS))
    return f"The {NOUNS[noun]}'s {NOUNS[(noun + 1 + other) % len(NOUNS)]}"


def _inverse_id(identifier: int, size: int, multiplier: int) -> int:
    """Return the number behind an id of `_id`."""
    return (identifier * pow(multiplier, -1, size)) % size - 1


class Catalogue:
    """The films, people and companies, by number and by id. Shared by all episodes."""

    def __init__(self) -> None:
        self._scenes: dict[int, Scene] = {}
        self.film = lru_cache(maxsize=4096)(self._film)
        self.person = lru_cache(maxsize=4096)(self._person)

    @staticmethod
    def title(number: int) -> str:
        """Return the title of a film; cheaper than all of its facts."""
        return _film_title(number)

    @staticmethod
    def film_id(number: int) -> int:
        """Return the id of a film."""
        return (number + 1) * 104_729 % _FILM_IDS

    @staticmethod
    def film_number(film_id: int) -> int | None:
        """Return the film of an id, or None."""
        number = _inverse_id(film_id, _FILM_IDS, 104_729) if 0 < film_id < _FILM_IDS else -1
        return number if 0 <= number < FILMS else None

    @staticmethod
    def person_id(number: int) -> int:
        """Return the id of a person."""
        return (number + 1) * 611_953 % _PERSON_IDS

    @staticmethod
    def person_number(person_id: int) -> int | None:
        """Return the person of an id, or None."""
        number = _inverse_id(person_id, _PERSON_IDS, 611_953) if 0 < person_id < _PERSON_IDS else -1
        return number if 0 <= number < PEOPLE else None

    @staticmethod
    def person_name(number: int) -> str:
        """Return the name of a person; no two are equal within a culture."""
        scene, local = divmod(number, PEOPLE_PER_SCENE)
        period, industry = divmod(scene, len(INDUSTRIES))
        culture, rank, peers = _NAMING[industry]
        return culture.name((period * peers + rank) * PEOPLE_PER_SCENE + local)

    @staticmethod
    def film_popularity(number: int) -> float:
        """Return how prominent a film is; search prefers prominent ones."""
        return (mix_bits(SEED, _FILM, number, 1) >> 40) / 2**18

    @staticmethod
    def person_popularity(number: int) -> float:
        """Return how prominent a person is."""
        return (mix_bits(SEED, _PERSON, number, 1) >> 40) / 2**18

    def scene(self, number: int) -> Scene:
        """Return the credits of a scene, built when first asked for."""
        scene = self._scenes.get(number)
        if scene is None:
            scene = build_scene(random.Random(mix_bits(SEED, _CREDITS, number)))
            self._scenes[number] = scene
        return scene

    def credits(self, film: int) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
        """((person, place) in order of billing, (person, job)) of a film."""
        number, local = divmod(film, FILMS_PER_SCENE)
        scene, base = self.scene(number), number * PEOPLE_PER_SCENE
        cast = [(base + who, billing) for billing, who in enumerate(scene.cast(local))]
        crew = [(base + who, job) for who, job in scene.crew(local)]
        return cast, crew

    def filmography(self, person: int) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
        """((film, place in its billing), (film, job)) of a person, by film."""
        number, local = divmod(person, PEOPLE_PER_SCENE)
        works: Billing = self.scene(number).works(local)
        base = number * FILMS_PER_SCENE
        return (
            [(base + film, billing) for film, billing in works.cast],
            [(base + film, job) for film, job in works.crew],
        )

    def character(self, film: int, billing: int) -> str:
        """Who the cast member at a place of the billing plays; distinct within a film."""
        draw = mix_bits(SEED, _CHARACTER, film, billing)
        if billing >= 7:
            return ROLES[(mix_bits(SEED, _CHARACTER, film) + 5 * billing) % len(ROLES)]
        culture, _, _ = _NAMING[film // FILMS_PER_SCENE % len(INDUSTRIES)]
        return culture.name((draw >> 8) % (culture.size // 16) * 16 + 2 * billing)

    def _film(self, number: int) -> Film:
        scene = number // FILMS_PER_SCENE
        rng = random.Random(mix_bits(SEED, _FILM, number))
        title = _film_title(number)
        start, years = PERIODS[scene // len(INDUSTRIES)]
        day = datetime.date(start, 1, 1) + datetime.timedelta(days=rng.randrange(365 * years))
        budget, revenue = _money(rng, day.year)
        return Film(
            number=number,
            film_id=self.film_id(number),
            title=title,
            plot=(rng.randrange(10), rng.randrange(10), rng.randrange(12), rng.randrange(7)),
            genres=tuple(rng.sample(GENRES, rng.choice((1, 2, 2, 3, 3, 4)))),
            budget=budget,
            revenue=revenue,
            vote_average=round(min(9.2, max(2.1, rng.gauss(6.4, 0.9))), 3),
            release_date=day.isoformat(),
            runtime=int(rng.gauss(106, 16)),
            popularity=self.film_popularity(number),
            keywords=tuple(rng.sample(KEYWORDS, rng.randrange(3, 12))),
            countries=_countries(rng, scene % len(INDUSTRIES)),
            companies=self._companies(rng, scene),
            languages=tuple(sorted({0, *rng.sample(range(6), rng.randrange(2, 6))})),
            alternative_titles=_alternatives(rng, title, day.year),
        )

    def _companies(self, rng: random.Random, scene: int) -> tuple[Company, ...]:
        base = scene * COMPANIES_PER_SCENE
        numbers = rng.sample(range(COMPANIES_PER_SCENE), rng.choice((1, 2, 2, 3, 4)))
        return tuple(self.company(base + local) for local in numbers)

    def company(self, number: int) -> Company:
        """Return the company of a number."""
        word, ending = divmod(
            permuted_index(number, len(COMPANY_WORDS) * len(COMPANY_ENDINGS)), len(COMPANY_ENDINGS)
        )
        draw = mix_bits(SEED, _COMPANY, number)
        industry = number // COMPANIES_PER_SCENE % len(INDUSTRIES)
        logo = f"/{draw:016x}.png" if draw % 4 else None
        country = COUNTRIES[INDUSTRIES[industry]].code if draw % 11 else ""
        name = f"{COMPANY_WORDS[word]} {COMPANY_ENDINGS[ending]}"
        return Company(permuted_index(number, 170_003) + 1, name, logo, country)

    def _person(self, number: int) -> Person:
        period, industry = divmod(number // PEOPLE_PER_SCENE, len(INDUSTRIES))
        rng = random.Random(mix_bits(SEED, _PERSON, number))
        name = self.person_name(number)
        country = COUNTRIES[INDUSTRIES[industry]]
        born = datetime.date(PERIODS[period][0] - rng.randrange(18, 55), 1, 1)
        born += datetime.timedelta(days=rng.randrange(365))
        city = rng.choice(country.cities)
        handle = "".join(letter for letter in name.lower() if letter.isalpha())
        return Person(
            number=number,
            person_id=self.person_id(number),
            name=name,
            birthday=born.isoformat(),
            place_of_birth=city,
            biography=_biography(rng, name, born, city),
            imdb_id=f"nm{1_000_000 + permuted_index(number, 8_999_993)}",
            facebook_id=_handle(rng, f"{handle}official"),
            instagram_id=_handle(rng, handle),
            twitter_id=_handle(rng, f"real{handle}"),
            popularity=self.person_popularity(number),
        )


def _money(rng: random.Random, year: int) -> tuple[int, int]:
    """(budget, revenue); a few are not known, which the service writes as 0."""
    scale = 0.05 + 0.95 * (year - 1935) / 90
    budget = int(scale * 10 ** rng.uniform(5.9, 8.3))
    revenue = int(budget * rng.lognormvariate(0.5, 1.0))
    return (0 if rng.random() < 0.06 else budget, 0 if rng.random() < 0.06 else revenue)


def _countries(rng: random.Random, industry: int) -> tuple[Country, ...]:
    own = COUNTRIES[INDUSTRIES[industry]]
    partners = rng.sample(COUNTRIES, rng.choice((0, 0, 0, 0, 1, 1, 2)))
    return (own, *(country for country in partners if country is not own))


def _alternatives(rng: random.Random, title: str, year: int) -> tuple[tuple[str, str, str], ...]:
    noun = rng.choice(NOUNS)
    alternatives = rng.sample(ALTERNATIVES, rng.randrange(1, 8))
    return tuple(
        (country, pattern.format(title=title, year=year, noun=noun), kind)
        for country, pattern, kind in alternatives
    )


_LIVES: Final = (
    "{name} was born on {day} in {place}. After years on small stages, {last} came to the screen "
    "and stayed.",
    "Born in {place} on {day}, {name} first trained for another profession and turned to film by "
    "chance.",
    "{name} (born {day}) grew up in {place}, where an uncle ran the local cinema.",
    "{name} has worked in film for most of a lifetime. Born in {place} on {day}, {last} is known "
    "for careful preparation.",
    "A native of {place}, {name} was born on {day} and is remembered for long collaborations.",
)


_MONTHS: Final = (
    "January February March April May June July August September October November December"
)


def _biography(rng: random.Random, name: str, born: datetime.date, city: str) -> str:
    day = f"{_MONTHS.split()[born.month - 1]} {born.day}, {born.year}"
    return rng.choice(_LIVES).format(name=name, last=name.split()[-1], day=day, place=city)


def _handle(rng: random.Random, handle: str) -> str | None:
    """Return a handle, an empty one or none: the service has all three."""
    draw = rng.random()
    return handle if draw < 0.6 else "" if draw < 0.8 else None
