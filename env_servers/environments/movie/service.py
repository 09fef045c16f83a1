"""The film database's replies, endpoint by endpoint, out of the invented catalogue.

Replies have the shapes of The Movie Database's interface, version 3, as far as the tools look at
them. A search gives the most prominent film or person whose name is the query, otherwise one that
has all of its words. The live service answers the same paths.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from env_servers.environments.movie.catalogue import FILMS, PEOPLE, Catalogue, Film
from env_servers.environments.movie.lexicon import LANGUAGES

__all__ = ["EmbeddedService", "NameIndex", "Reply"]

_LONGEST_QUERY: Final = 256
"""Characters of a query that are read."""
_PATH: Final = re.compile(r"/(movie|person)/([^/]*)(?:/([a-z_]+))?")
_IDENTIFIER: Final = re.compile(r"([0-9]{1,9})(?:-[\w-]*)?", re.ASCII)
"""A number, or a number with a name behind it, which the service accepts as well."""
_WORD: Final = re.compile(r"[^\W_]+")

NOT_FOUND: Final = (
    '{"success":false,"status_code":34,'
    '"status_message":"The resource you requested could not be found."}'
)
INVALID_ID: Final = (
    '{"success":false,"status_code":6,'
    '"status_message":"Invalid id: The pre-requisite id is invalid or not found."}'
)


class Reply(NamedTuple):
    """An answer: its status, and the decoded body or, unless the status is 200, its text."""

    status: int
    body: Any


class NameIndex:
    """Finds the most prominent thing by its name or by words of it."""

    def __init__(
        self, size: int, name: Callable[[int], str], prominence: Callable[[int], float]
    ) -> None:
        self._prominence = prominence
        self._exact: dict[str, int] = {}
        self._words: dict[str, array[int]] = {}
        for number in range(size):
            words = _words(name(number))
            key = " ".join(words)
            namesake = self._exact.get(key)
            if namesake is None or prominence(number) > prominence(namesake):
                self._exact[key] = number
            for word in set(words):
                self._words.setdefault(word, array("I")).append(number)

    def find(self, query: str) -> int | None:
        """Return the number of the best match, or None."""
        words = _words(query[:_LONGEST_QUERY])
        exact = self._exact.get(" ".join(words))
        if exact is not None or not words:
            return exact
        lists = sorted((self._words.get(word, array("I")) for word in set(words)), key=len)
        matches = set(lists[0])
        for numbers in lists[1:]:
            matches.intersection_update(numbers)
        return max(sorted(matches), key=self._prominence, default=None)


def _words(text: str) -> list[str]:
    if not text.isascii():
        plain = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return _WORD.findall(text.casefold())


class EmbeddedService:
    """Answers requests out of the catalogue; shared by all episodes of a process."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._movie: dict[str, Callable[[int], Any]] = {
            "": self._details,
            "credits": self._credits,
            "keywords": self._keywords,
            "alternative_titles": self._alternative_titles,
            "translations": self._translations,
        }
        self._people: dict[str, Callable[[int], Any]] = {
            "": self._person,
            "movie_credits": self._movie_credits,
            "external_ids": self._external_ids,
        }

    @cached_property
    def _film_names(self) -> NameIndex:
        return NameIndex(FILMS, self.catalogue.title, self.catalogue.film_popularity)

    @cached_property
    def _person_names(self) -> NameIndex:
        return NameIndex(PEOPLE, self.catalogue.person_name, self.catalogue.person_popularity)

    def prepare(self) -> None:
        """Build the name indexes, so that no episode waits for them."""
        _ = self._film_names, self._person_names

    def get(self, path: str, query: Mapping[str, str] = {}) -> Reply:
        """Return what the service answers to a request."""
        if path == "/search/movie":
            return Reply(200, {"page": 1, "results": self._search_movie(query.get("query", ""))})
        if path == "/search/person":
            return Reply(200, {"page": 1, "results": self._search_person(query.get("query", ""))})
        match = _PATH.fullmatch(path)
        if match is None:
            return Reply(404, NOT_FOUND)
        kind, identifier, aspect = match[1], match[2], match[3] or ""
        digits = _IDENTIFIER.fullmatch(identifier)
        if digits is None:
            return Reply(404, INVALID_ID)
        return self._one(kind, int(digits[1]), aspect)

    def _one(self, kind: str, identifier: int, aspect: str) -> Reply:
        aspects = self._movie if kind == "movie" else self._people
        find_number = (
            self.catalogue.film_number if kind == "movie" else self.catalogue.person_number
        )
        number, answer = find_number(identifier), aspects.get(aspect)
        if number is None or answer is None:
            return Reply(404, NOT_FOUND)
        return Reply(200, answer(number))

    def _search_movie(self, query: str) -> list[dict[str, Any]]:
        number = self._film_names.find(query)
        if number is None:
            return []
        film = self.catalogue.film(number)
        return [{"id": film.film_id, "overview": film.overview, "title": film.title}]

    def _search_person(self, query: str) -> list[dict[str, Any]]:
        number = self._person_names.find(query)
        if number is None:
            return []
        name = self.catalogue.person_name(number)
        return [{"id": self.catalogue.person_id(number), "name": name}]

    def _details(self, number: int) -> dict[str, Any]:
        film = self.catalogue.film(number)
        return {
            "id": film.film_id,
            "title": film.title,
            "overview": film.overview,
            "budget": film.budget,
            "genres": [{"id": key, "name": name} for key, name in film.genres],
            "revenue": film.revenue,
            "vote_average": film.vote_average,
            "release_date": film.release_date,
            "runtime": film.runtime,
            "production_companies": [
                {
                    "id": company.company_id,
                    "logo_path": company.logo_path,
                    "name": company.name,
                    "origin_country": company.country,
                }
                for company in film.companies
            ],
            "production_countries": [
                {"iso_3166_1": country.code, "name": country.name} for country in film.countries
            ],
        }

    def _credits(self, number: int) -> dict[str, Any]:
        catalogue = self.catalogue
        cast, crew = catalogue.credits(number)
        return {
            "id": catalogue.film_id(number),
            "cast": [
                {
                    "id": catalogue.person_id(person),
                    "name": catalogue.person_name(person),
                    "character": catalogue.character(number, billing),
                }
                for person, billing in cast
            ],
            "crew": [
                {
                    "id": catalogue.person_id(person),
                    "name": catalogue.person_name(person),
                    "job": job,
                }
                for person, job in crew
            ],
        }

    def _keywords(self, number: int) -> dict[str, Any]:
        film = self.catalogue.film(number)
        return {
            "id": film.film_id,
            "keywords": [{"id": 1 + len(word), "name": word} for word in film.keywords],
        }

    def _alternative_titles(self, number: int) -> dict[str, Any]:
        film = self.catalogue.film(number)
        return {
            "id": film.film_id,
            "titles": [
                {"iso_3166_1": country, "title": title, "type": kind}
                for country, title, kind in film.alternative_titles
            ],
        }

    def _translations(self, number: int) -> dict[str, Any]:
        film = self.catalogue.film(number)
        translations = [_translation(film, which) for which in film.languages]
        return {"id": film.film_id, "translations": translations}

    def _person(self, number: int) -> dict[str, Any]:
        person = self.catalogue.person(number)
        return {
            "id": person.person_id,
            "name": person.name,
            "biography": person.biography,
            "birthday": person.birthday,
            "place_of_birth": person.place_of_birth,
        }

    def _movie_credits(self, number: int) -> dict[str, Any]:
        catalogue = self.catalogue
        cast, crew = catalogue.filmography(number)
        return {
            "id": catalogue.person_id(number),
            "cast": [
                {
                    "id": catalogue.film_id(film),
                    "title": catalogue.title(film),
                    "character": catalogue.character(film, billing),
                }
                for film, billing in cast
            ],
            "crew": [
                {"id": catalogue.film_id(film), "title": catalogue.title(film), "job": job}
                for film, job in crew
            ],
        }

    def _external_ids(self, number: int) -> dict[str, Any]:
        person = self.catalogue.person(number)
        return {
            "id": person.person_id,
            "imdb_id": person.imdb_id,
            "facebook_id": person.facebook_id,
            "instagram_id": person.instagram_id,
            "twitter_id": person.twitter_id,
        }


def _translation(film: Film, which: int) -> dict[str, Any]:
    language = LANGUAGES[which]
    return {
        "iso_3166_1": language.country,
        "iso_639_1": language.code,
        "name": language.name,
        "english_name": language.english_name,
        "data": {
            "homepage": "",
            "overview": language.plot(*film.plot),
            "runtime": film.runtime,
            "tagline": "",
            "title": film.title if which == 0 else "",
        },
    }
