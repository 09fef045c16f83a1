"""The invented films, casts and people agree with each other, however they are asked about."""

from __future__ import annotations

import hashlib

from env_servers.environments.movie.catalogue import COMPANIES, FILMS, PEOPLE, Catalogue
from env_servers.environments.movie.lexicon import LANGUAGES
from env_servers.environments.movie.scenes import FILMS_PER_SCENE, PEOPLE_PER_SCENE, PERIODS
from env_servers.environments.movie.service import EmbeddedService, NameIndex


def test_there_are_tens_of_thousands_of_films_people_and_names_and_no_two_share_one() -> None:
    known = Catalogue()
    assert len({known.title(number) for number in range(FILMS)}) == FILMS == 30_000
    assert len({known.person_name(number) for number in range(PEOPLE)}) == PEOPLE == 45_000
    companies = [known.company(number) for number in range(COMPANIES)]
    assert len({company.name for company in companies}) == COMPANIES == 1_500
    assert len({company.company_id for company in companies}) == COMPANIES


def test_every_id_leads_back_to_its_number_and_no_other_id_leads_anywhere() -> None:
    known = Catalogue()
    assert all(known.film_number(known.film_id(n)) == n for n in range(0, FILMS, 7))
    assert all(known.person_number(known.person_id(n)) == n for n in range(0, PEOPLE, 7))
    found = [known.film_number(film_id) for film_id in range(-5, 5_000)]
    assert 0 < sum(number is not None for number in found) < 250
    assert {known.film_number(0), known.film_number(10**12)} == {None}
    assert {known.person_number(0), known.person_number(10**12)} == {None}


def test_films_and_filmographies_tell_the_same_credits() -> None:
    known = Catalogue()
    films = range(3 * FILMS_PER_SCENE, 4 * FILMS_PER_SCENE)
    people = range(3 * PEOPLE_PER_SCENE, 4 * PEOPLE_PER_SCENE)
    by_film = {(film, credit) for film in films for part in known.credits(film) for credit in part}
    by_person = {
        (film, (person, what))
        for person in people
        for part in known.filmography(person)
        for film, what in part
    }
    assert by_film == by_person
    assert len(by_film) > 2_000


def test_nobody_is_twice_in_a_cast_and_no_character_either() -> None:
    known = Catalogue()
    for film in range(0, FILMS, 61):
        cast, crew = known.credits(film)
        assert 4 <= len(cast) <= 14
        assert len({person for person, _ in cast}) == len(cast)
        assert len({known.character(film, place) for _, place in cast}) == len(cast)
        assert len(set(crew)) == len(crew)
        assert "Director" in {job for _, job in crew}


def test_a_few_people_act_much_and_many_little() -> None:
    known = Catalogue()
    roles = sorted(len(known.filmography(person)[0]) for person in range(220))
    assert roles[-1] > 25
    assert roles[110] < 10


def test_people_are_born_before_they_work() -> None:
    known = Catalogue()
    for film in range(0, FILMS, 499):
        year = int(known.film(film).release_date[:4])
        for person, _ in known.credits(film)[1]:
            assert int(known.person(person).birthday[:4]) + 18 <= year


def test_release_dates_lie_in_the_period_of_the_scene() -> None:
    known = Catalogue()
    for film in range(0, FILMS, 499):
        start, years = PERIODS[film // FILMS_PER_SCENE // 15]
        assert start <= int(known.film(film).release_date[:4]) < start + years


def test_a_plot_is_the_same_plot_in_every_language() -> None:
    sizes = {
        (len(told.settings), len(told.heroes), len(told.events), len(told.closings))
        for told in LANGUAGES
    }
    assert sizes == {(10, 10, 12, 7)}
    plots = {
        LANGUAGES[0].plot(a, b, c, d)
        for a in range(10)
        for b in range(10)
        for c in range(12)
        for d in range(7)
    }
    assert len(plots) == 8400


def test_search_finds_a_name_in_any_case_and_a_film_by_some_of_its_words(
    service: EmbeddedService,
) -> None:
    known = service.catalogue
    title = known.title(15_000)
    for query in (title, title.upper(), f"  {title}! "):
        found = service.get("/search/movie", {"query": query}).body["results"]
        assert [film["title"] for film in found] == [title]
    word = title.split()[-1]
    assert word in service.get("/search/movie", {"query": word}).body["results"][0]["title"]
    assert service.get("/search/movie", {"query": "no such film anywhere"}).body["results"] == []
    assert service.get("/search/person", {"query": ""}).body["results"] == []


def test_search_prefers_what_is_prominent() -> None:
    names = ["Red Moon", "Red Sun", "Red Sun", "Crème Brûlée"]
    index = NameIndex(4, names.__getitem__, [1.0, 3.0, 2.0, 0.0].__getitem__)
    assert [index.find(query) for query in ("red", "red sun", "moon", "creme brulee", "x")] == [
        1,
        1,
        0,
        3,
        None,
    ]


def test_the_catalogue_is_the_same_on_every_machine() -> None:
    known = Catalogue()
    digest = hashlib.blake2b(digest_size=8)
    for film in range(0, FILMS, 997):
        digest.update(repr((known.film(film), known.credits(film))).encode())
    for person in range(0, PEOPLE, 997):
        digest.update(repr((known.person(person), known.filmography(person))).encode())
    assert digest.hexdigest() == "0aafc9632533eb6f"


def test_no_title_ends_an_episode() -> None:
    """The word "finish" anywhere in a call does."""
    known = Catalogue()
    assert not any("finish" in known.title(number).casefold() for number in range(FILMS))
