"""The fourteen film functions: which request each makes, and what it keeps of the reply.

Results are as the original's have them: only the first hit of a search, ten cast members, ten or
more of the crew, six languages. They work on any service that answers requests: the invented
catalogue and the live database alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import quote

from env_servers.environments.movie.service import Reply

__all__ = ["FUNCTIONS", "IGNORED_IN_SUBGOALS", "FilmService", "call", "comparable", "shown_crew"]

SHOWN: Final = 10
"""Credits that are shown of a longer list."""
_LEADING_JOBS: Final = ("Director", "Producer", "Writer")
_LANGUAGES: Final = ("NL", "CN", "US", "DE", "RU", "JP")
"""Countries whose translations are kept."""
IGNORED_IN_SUBGOALS: Final = (
    "overview",
    "biography",
    "vote_average",
    "genres",
    "revenue",
    "budget",
    "release_date",
)
"""Fields that do not count when a result is compared with a subgoal."""


class FilmService(Protocol):
    """Anything that answers the film database's requests."""

    def get(self, path: str, query: Mapping[str, str] = {}) -> Reply:
        """Return the reply to a request."""
        ...


class _Refused(Exception):
    """When the service answers with another status than 200; the text is the function's result."""


def call(service: FilmService, name: str, arguments: Mapping[str, Any]) -> tuple[bool, Any]:
    """(whether it succeeded, the result) of a function.

    Raises KeyError for a missing argument and IndexError for a film search without a hit, as the
    original does; the name has to be one of FUNCTIONS.
    """
    try:
        return True, FUNCTIONS[name](service, arguments)
    except _Refused as refusal:
        return False, str(refusal)


def comparable(result: Any) -> Any:
    """Return a result without the fields that are ignored in subgoals."""
    if isinstance(result, list):
        return [_without_ignored(item) for item in result]
    return _without_ignored(result)


def _without_ignored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if key not in IGNORED_IN_SUBGOALS}


def shown_crew(crew: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Directors, producers and writers; then, below ten, others who are not yet among them."""
    shown = [member for member in crew if member["job"] in _LEADING_JOBS]
    if len(shown) >= SHOWN:
        return shown
    shown_ids = {member["id"] for member in shown}
    others = [member for member in crew if member["id"] not in shown_ids]
    return shown + others[: SHOWN - len(shown)]


def _ask(service: FilmService, path: str, query: Mapping[str, str] = {}) -> Any:
    reply = service.get(path, query)
    if reply.status != 200:
        raise _Refused(reply.body)
    return reply.body


def _about(kind: str, aspect: str = "") -> Callable[[FilmService, Mapping[str, Any]], Any]:
    """A request for an aspect of one film or person; the id is quoted, it never makes a path."""
    suffix = f"/{aspect}" if aspect else ""

    def ask(service: FilmService, arguments: Mapping[str, Any]) -> Any:
        return _ask(service, f"/{kind}/{quote(str(arguments[f'{kind}_id']), safe='')}{suffix}")

    return ask


def _search(
    kind: str, fields: Sequence[str]
) -> Callable[[FilmService, Mapping[str, Any]], list[dict[str, Any]]]:
    def ask(service: FilmService, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        query = {
            "query": str(arguments[f"{kind}_name"]),
            "include_adult": "false",
            "language": "en-US",
            "page": "1",
        }
        results = _ask(service, f"/search/{kind}", query)["results"]
        if kind == "person" and not results:
            return []
        return [{name: results[0][name] for name in fields}]

    return ask


def _fields(
    ask: Callable[[FilmService, Mapping[str, Any]], Any], *names: str
) -> Callable[[FilmService, Mapping[str, Any]], dict[str, Any]]:
    def function(service: FilmService, arguments: Mapping[str, Any]) -> dict[str, Any]:
        body = ask(service, arguments)
        return {name: body[name] for name in names}

    return function


def _listed(
    ask: Callable[[FilmService, Mapping[str, Any]], Any], part: str, *names: str
) -> Callable[[FilmService, Mapping[str, Any]], dict[str, Any]]:
    """Return the first ten of a list of credits, with some of their fields."""

    def function(service: FilmService, arguments: Mapping[str, Any]) -> dict[str, Any]:
        members = ask(service, arguments)[part][:SHOWN]
        return {part: [{name: member[name] for name in names} for member in members]}

    return function


_film = _about("movie")
_film_credits = _about("movie", "credits")
_film_keywords = _about("movie", "keywords")
_film_titles = _about("movie", "alternative_titles")
_film_translations = _about("movie", "translations")
_person = _about("person")
_person_credits = _about("person", "movie_credits")
_person_ids = _about("person", "external_ids")


def _movie_crew(service: FilmService, arguments: Mapping[str, Any]) -> dict[str, Any]:
    crew = shown_crew(_film_credits(service, arguments)["crew"])
    return {"crew": [{name: member[name] for name in ("id", "name", "job")} for member in crew]}


def _movie_keywords(service: FilmService, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"keywords": [word["name"] for word in _film_keywords(service, arguments)["keywords"]]}


def _movie_translation(service: FilmService, arguments: Mapping[str, Any]) -> dict[str, Any]:
    body = _film_translations(service, arguments)
    translations = [item for item in body["translations"] if item["iso_3166_1"] in _LANGUAGES]
    overviews = [
        {**item, "data": {key: text for key, text in item["data"].items() if key != "title"}}
        for item in translations
    ]
    return {**body, "translations": overviews}


FUNCTIONS: Final[Mapping[str, Callable[[FilmService, Mapping[str, Any]], Any]]] = {
    "get_search_movie": _search("movie", ("id", "overview", "title")),
    "get_movie_details": _fields(
        _film, "title", "budget", "genres", "revenue", "vote_average", "release_date"
    ),
    "get_movie_production_companies": _fields(_film, "production_companies"),
    "get_movie_production_countries": _fields(_film, "production_countries"),
    "get_movie_cast": _listed(_film_credits, "cast", "id", "name", "character"),
    "get_movie_crew": _movie_crew,
    "get_movie_keywords": _movie_keywords,
    "get_search_person": _search("person", ("id", "name")),
    "get_person_details": _fields(_person, "name", "biography", "birthday", "place_of_birth"),
    "get_person_cast": _listed(_person_credits, "cast", "id", "title", "character"),
    "get_person_crew": _listed(_person_credits, "crew", "id", "title", "job"),
    "get_person_external_ids": _fields(
        _person_ids, "imdb_id", "facebook_id", "instagram_id", "twitter_id"
    ),
    "get_movie_alternative_titles": _film_titles,
    "get_movie_translation": _movie_translation,
}
