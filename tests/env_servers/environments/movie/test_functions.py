"""The film functions return what the original's return, of the same replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from env_servers.environments.movie import Movie
from env_servers.environments.movie.functions import FUNCTIONS, call, comparable
from env_servers.environments.movie.prompt import TOOLS
from env_servers.environments.movie.service import EmbeddedService, Reply
from env_servers.sdk import EMBEDDED_BASE, ResetOptions
from env_servers.toolkit.tool_calls import ToolTaskSet


class Canned:
    """A service with one answer, which keeps what it was asked."""

    def __init__(self, body: Any, status: int = 200) -> None:
        self.reply = Reply(status, body)
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def get(self, path: str, query: Mapping[str, str] = {}) -> Reply:
        self.asked.append((path, query))
        return self.reply


def test_every_declared_tool_is_a_function() -> None:
    declared = [name for name in TOOLS.names() if name not in ("check_valid_actions", "finish")]
    assert declared == sorted(FUNCTIONS, key=declared.index)


def test_a_search_returns_the_first_hit_alone() -> None:
    hits = [{"id": n, "overview": f"o{n}", "title": f"t{n}", "more": 1} for n in (7, 8)]
    service = Canned({"results": hits})
    found = call(service, "get_search_movie", {"movie_name": "t"})
    assert found == (True, [{"id": 7, "overview": "o7", "title": "t7"}])
    assert service.asked == [
        (
            "/search/movie",
            {"query": "t", "include_adult": "false", "language": "en-US", "page": "1"},
        )
    ]


def test_no_film_is_an_error_and_no_person_an_empty_list() -> None:
    with pytest.raises(IndexError, match="list index out of range"):
        call(Canned({"results": []}), "get_search_movie", {"movie_name": "t"})
    assert call(Canned({"results": []}), "get_search_person", {"person_name": "p"}) == (True, [])


def test_ten_of_a_longer_cast_are_shown() -> None:
    cast = [{"id": n, "name": f"n{n}", "character": f"c{n}", "order": n} for n in range(14)]
    _, found = call(Canned({"cast": cast}), "get_movie_cast", {"movie_id": "1"})
    assert found == {"cast": [{k: m[k] for k in ("id", "name", "character")} for m in cast[:10]]}


def _crew(*jobs: str) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}", "job": job, "department": ""} for n, job in enumerate(jobs)]


def test_directors_producers_and_writers_lead_the_crew_and_are_never_cut() -> None:
    crew = _crew("Editor", *["Producer"] * 11, "Director")
    _, found = call(Canned({"crew": crew}), "get_movie_crew", {"movie_id": "1"})
    assert [member["id"] for member in found["crew"]] == list(range(1, 13))


def test_others_fill_the_crew_up_to_ten_unless_they_are_in_it_already() -> None:
    crew = _crew("Editor", "Director", *["Stunts"] * 11)
    crew.insert(0, {"id": 1, "name": "n1", "job": "Screenplay", "department": ""})
    _, found = call(Canned({"crew": crew}), "get_movie_crew", {"movie_id": "1"})
    assert [(m["id"], m["job"]) for m in found["crew"][:3]] == [
        (1, "Director"),
        (0, "Editor"),
        (2, "Stunts"),
    ]
    assert len(found["crew"]) == 10


def test_six_languages_are_kept_and_titles_are_not() -> None:
    items = [
        {"iso_3166_1": country, "name": country, "data": {"title": "t", "overview": country}}
        for country in ("FR", "NL", "CN", "US", "DE", "RU", "JP", "TW")
    ]
    _, found = call(
        Canned({"id": 1, "translations": items}), "get_movie_translation", {"movie_id": 1}
    )
    assert [item["iso_3166_1"] for item in found["translations"]] == [
        "NL",
        "CN",
        "US",
        "DE",
        "RU",
        "JP",
    ]
    assert all(item["data"].keys() == {"overview"} for item in found["translations"])
    assert items[1]["data"] == {"title": "t", "overview": "NL"}


def test_an_answer_other_than_200_is_shown_as_it_is_and_counts_for_nothing() -> None:
    assert call(Canned("gone", 404), "get_movie_details", {"movie_id": "1"}) == (False, "gone")


def test_an_id_never_makes_another_path() -> None:
    service = Canned({}, 404)
    call(service, "get_movie_details", {"movie_id": "1/../../account?x=1#"})
    assert service.asked[0][0] == "/movie/1%2F..%2F..%2Faccount%3Fx%3D1%23"


@pytest.mark.parametrize(
    ("identifier", "code"),
    [("999999999", 34), ("0", 34), ("", 6), ("x", 6), ("1%2F2", 6), ("-1", 6), ("٣", 6)],
)
def test_unknown_ids_get_the_services_own_words(
    service: EmbeddedService, identifier: str, code: int
) -> None:
    succeeded, text = call(service, "get_movie_details", {"movie_id": identifier})
    assert not succeeded
    assert text.startswith(f'{{"success":false,"status_code":{code},')


def test_an_id_may_carry_the_title_behind_it(service: EmbeddedService) -> None:
    film = service.catalogue.film(5)
    found = call(service, "get_movie_details", {"movie_id": f"{film.film_id}-any-title"})
    assert found[1]["title"] == film.title


def test_fields_that_do_not_count_for_subgoals_are_left_out_at_the_top_only() -> None:
    assert comparable([{"id": 1, "overview": "x"}, "a"]) == [{"id": 1}, "a"]
    assert comparable({"title": "t", "budget": 1, "genres": [], "vote_average": 1.0}) == {
        "title": "t"
    }
    nested = {"translations": [{"data": {"overview": "x"}}]}
    assert comparable(nested) == nested


def test_the_tools_errors_are_the_originals(tasks: ToolTaskSet) -> None:
    episode = Movie(tasks)
    episode.reset(tasks.get(f"movie_{EMBEDDED_BASE}"), ResetOptions())
    for call_text, expected in (
        (
            'get_search_movie with Action Input: {"movie_name": "qqqq"}',
            "IndexError(list index out of range)",
        ),
        ("get_movie_details with Action Input: {}", "KeyError('movie_id')"),
        (
            'finish with Action Input: {"answer": [{}, {}]}',
            "TypeError('<' not supported between instances of 'dict' and 'dict')",
        ),
    ):
        seen = episode.step(f"Thought: x\n\nAction: {call_text}")
        assert seen.text == f"Observation: ERROR | {expected}\nGive me one action."
        assert (seen.reward, seen.terminated) == (0.0, False)
    seen = episode.step("Action: check_valid_actions with Action Input: {}")
    names = [tool.name for tool in TOOLS.tools]
    assert names[0] == "get_search_movie"
    assert seen.text == (
        f"Observation: You can use following valid actions: {names}\nGive me one action."
    )
