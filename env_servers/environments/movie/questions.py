"""Questions about the invented films: what is asked, what is right, and how it is found out.

A kind takes a film, words a goal about it and takes the answer from the catalogue's facts; its plan
finds the same answer with the functions alone, so that either proves the other. KINDS is the table
of all kinds; the functions before it make the kinds that are alike. A question depends on its kind,
its film and a number, and on nothing else: changing the order of draws changes tasks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

from env_servers.environments.movie.catalogue import Catalogue, Film
from env_servers.environments.movie.expert import (
    Run,
    about_film,
    about_person,
    find_director,
    find_person,
    find_player,
    look_into_film,
    planned_call,
    player_roles,
)
from env_servers.environments.movie.functions import SHOWN, shown_crew
from env_servers.environments.movie.lexicon import LANGUAGES
from env_servers.environments.movie.scenes import FILMS_PER_SCENE
from env_servers.environments.movie.service import EmbeddedService
from env_servers.toolkit.tool_calls import Plan

__all__ = ["KINDS", "Kind", "Question", "make_question"]


class Question(NamedTuple):
    """A goal with its answer and a plan that leads there."""

    kind: str
    goal: str
    answer: Any
    plan: Plan
    lookups: int = 0
    """Calls before `finish`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question."""

    name: str
    lookups: int
    """Calls before `finish`."""
    ask: Callable[[Subject], Question | None]
    """The question about a film, or None where the film has no such thing."""


class Subject:
    """The film that is asked about, with what a kind may draw."""

    def __init__(self, service: EmbeddedService, number: int, rng: random.Random) -> None:
        self.catalogue: Catalogue = service.catalogue
        self.film: Film = self.catalogue.film(number)
        self.rng = rng

    def pick(self, *wordings: str, **words: object) -> str:
        """Return one of several wordings, filled in."""
        return self.rng.choice(wordings).format(film=f'"{self.film.title}"', **words)

    def other(self, prefer: Callable[[Film], bool] = lambda _: True) -> Film:
        """Return another film of the same scene; one of the preferred ones in half of the cases."""
        number = self.film.number
        base = number - number % FILMS_PER_SCENE
        candidates = [base + self.rng.randrange(FILMS_PER_SCENE) for _ in range(12)]
        films = [self.catalogue.film(other) for other in candidates if other != number]
        liked = [film for film in films if prefer(film)] if self.rng.random() < 0.5 else []
        return (liked or films)[0]

    @property
    def person(self) -> int:
        """A person who is asked about with no other film."""
        return self.film.number + self.film.number // 2

    @property
    def person_name(self) -> str:
        """That person's name."""
        return self.catalogue.person_name(self.person)

    def crew(self, job: str, film: Film | None = None) -> list[int]:
        """Return the people of a job who are shown among the crew."""
        number = (film or self.film).number
        members = [{"id": who, "job": what} for who, what in self.catalogue.credits(number)[1]]
        return [member["id"] for member in shown_crew(members) if member["job"] == job]

    def cast(self) -> tuple[int, int, str]:
        """(person, place, character) of a leading cast member."""
        cast, _ = self.catalogue.credits(self.film.number)
        person, billing = self.rng.choice(cast[:6])
        return person, billing, self.catalogue.character(self.film.number, billing)

    def other_role(self, person: int) -> tuple[Film, str] | None:
        """Return another film among a person's shown ones, with the character there."""
        shown = self.catalogue.filmography(person)[0][:SHOWN]
        roles = [(film, billing) for film, billing in shown if film != self.film.number]
        if not roles:
            return None
        film, billing = self.rng.choice(roles)
        return self.catalogue.film(film), self.catalogue.character(film, billing)


# One search.


def _entry_kind(name: str, field: str, truth: Callable[[Film], Any], *wordings: str) -> Kind:
    """Return a kind that reads one field of a film's entry in the list that a search gives."""

    def ask(subject: Subject) -> Question:
        title = subject.film.title

        def plan() -> Run:
            purpose = f'the {"overview" if field == "overview" else "entry"} of "{title}"'
            matches = yield planned_call("get_search_movie", {"movie_name": title}, purpose)
            return matches[0][field]

        return Question(name, subject.pick(*wordings), truth(subject.film), plan)

    return Kind(name, 1, ask)


def _ask_person_id(subject: Subject) -> Question:
    name = subject.person_name

    def plan() -> Run:
        purpose = f"the entry of {name}"
        matches = yield planned_call("get_search_person", {"person_name": name}, purpose)
        return matches[0]["id"]

    goal = subject.pick(
        "Which id does the movie database use for {name}? Please answer with a number.",
        "Under what id does the movie database list the person {name}? Please give a number.",
        name=name,
    )
    return Question("person id", goal, subject.catalogue.person_id(subject.person), plan)


# A search and one lookup.


def _detail(
    name: str,
    function: str,
    purpose: str,
    read: Callable[[Any], Any],
    truth: Callable[[Film], Any],
    *wordings: str,
    exists: Callable[[Film], object] = lambda _: True,
) -> Kind:
    """Return a kind whose answer is read from what one function says of the film."""

    def ask(subject: Subject) -> Question | None:
        if not exists(subject.film):
            return None
        title = subject.film.title

        def plan() -> Run:
            return read((yield from about_film(function, title, purpose)))

        return Question(name, subject.pick(*wordings), truth(subject.film), plan)

    return Kind(name, 2, ask)


def _names(items: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(item["name"] for item in items)


def _crew_kind(name: str, job: str, *wordings: str) -> Kind:
    def ask(subject: Subject) -> Question | None:
        people = subject.crew(job)
        if len(people) != 1:
            return None
        title = subject.film.title

        def plan() -> Run:
            crew = yield from about_film("get_movie_crew", title, "the crew")
            return next(member["name"] for member in crew["crew"] if member["job"] == job)

        return Question(
            name, subject.pick(*wordings), subject.catalogue.person_name(people[0]), plan
        )

    return Kind(name, 2, ask)


def _cast_kind(name: str, given_field: str, field: str, *wordings: str) -> Kind:
    """Return a kind that finds a cast member by one field and reads another (name, character)."""

    def ask(subject: Subject) -> Question:
        person, _, character = subject.cast()
        member = {"name": subject.catalogue.person_name(person), "character": character}

        def plan() -> Run:
            cast = yield from about_film("get_movie_cast", subject.film.title, "the cast")
            return next(
                each[field] for each in cast["cast"] if each[given_field] == member[given_field]
            )

        return Question(name, subject.pick(*wordings, **member), member[field], plan)

    return Kind(name, 2, ask)


def _ask_translation(subject: Subject) -> Question:
    translated = [which for which in subject.film.languages if which]
    language, title = LANGUAGES[subject.rng.choice(translated or [0])], subject.film.title

    def plan() -> Run:
        reply = yield from about_film("get_movie_translation", title, "the translations")
        return next(
            item["data"]["overview"]
            for item in reply["translations"]
            if item["iso_3166_1"] == language.country
        )

    goal = subject.pick(
        "Please give me the overview of {film} in {language}, as a string.",
        "How does the {language} overview of the movie {film} read? Please answer with a string.",
        language=language.english_name,
    )
    return Question("translation", goal, language.plot(*subject.film.plot), plan)


def _ask_alternative(subject: Subject) -> Question | None:
    listed = [country for country, _, _ in subject.film.alternative_titles]
    single = [entry for entry in subject.film.alternative_titles if listed.count(entry[0]) == 1]
    if not single:
        return None
    country, answer, _ = subject.rng.choice(single)

    def plan() -> Run:
        reply = yield from about_film(
            "get_movie_alternative_titles", subject.film.title, "the alternative titles"
        )
        return next(item["title"] for item in reply["titles"] if item["iso_3166_1"] == country)

    goal = subject.pick(
        "Under what alternative title is {film} known in the country with the code {country}? "
        "Please answer with the title.",
        'Which alternative title does {film} have for the country code "{country}"? Please answer '
        "with the title.",
        country=country,
    )
    return Question("alternative title", goal, answer, plan)


def _person_kind(
    name: str,
    function: str,
    field: str,
    purpose: str,
    truth: Callable[[Catalogue, int], Any],
    *wordings: str,
) -> Kind:
    def ask(subject: Subject) -> Question | None:
        answer, who = (
            truth(subject.catalogue, subject.person),
            subject.catalogue.person_name(subject.person),
        )
        if not answer:
            return None

        def plan() -> Run:
            person = yield from find_person(who)
            return (yield from about_person(function, person, f"{purpose} {who}"))[field]

        return Question(name, subject.pick(*wordings, name=who), answer, plan)

    return Kind(name, 2, ask)


# A film, one of its people, and what is known of that person.


def _chain_kind(
    name: str,
    function: str,
    field: str,
    truth: Callable[[Catalogue, int], Any],
    *wordings: str,
    of_director: bool = False,
) -> Kind:
    def ask(subject: Subject) -> Question | None:
        title = subject.film.title
        if of_director:
            people, character = subject.crew("Director"), ""
        else:
            person, _, character = subject.cast()
            people = [person]
        if len(people) != 1 or not truth(subject.catalogue, people[0]):
            return None

        def plan() -> Run:
            member = yield from (
                find_director(title) if of_director else find_player(title, character)
            )
            purpose = f"what is known about {member['name']}"
            return (yield from about_person(function, str(member["id"]), purpose))[field]

        goal = subject.pick(*wordings, character=character)
        return Question(name, goal, truth(subject.catalogue, people[0]), plan)

    return Kind(name, 3, ask)


def _ask_other_role(subject: Subject) -> Question | None:
    person, _, character = subject.cast()
    other_role = subject.other_role(person)
    if other_role is None:
        return None
    film, answer = other_role

    def plan() -> Run:
        roles = yield from player_roles(subject.film.title, character)
        return next(role["character"] for role in roles if role["title"] == film.title)

    goal = subject.pick(
        'The actor who played {character} in {film}, what role did that actor play in "{other}"? '
        "Please answer with the character name.",
        'Which character in "{other}" is played by the same actor as {character} in {film}? Please '
        "answer with the character name.",
        character=character,
        other=film.title,
    )
    return Question("other role", goal, answer, plan)


def _ask_role_film_date(subject: Subject) -> Question | None:
    person, _, character = subject.cast()
    other_role = subject.other_role(person)
    if other_role is None:
        return None
    film, role = other_role

    def plan() -> Run:
        roles = yield from player_roles(subject.film.title, character)
        other = next(entry for entry in roles if entry["character"] == role)
        purpose = f'the release date of "{other["title"]}"'
        return (yield from look_into_film("get_movie_details", other["id"], purpose))[
            "release_date"
        ]

    if _ambiguous(subject, person, role):
        return None
    goal = subject.pick(
        "The actor who played {character} in {film} has also played {role}. When was that other "
        "movie released? Please answer in the format YYYY-MM-DD.",
        "In one movie {role} is played by the actor who was {character} in {film}. What is the "
        "release date of that movie? Please answer in the format YYYY-MM-DD.",
        character=character,
        role=role,
    )
    return Question("date of another role's film", goal, film.release_date, plan)


def _ask_role_film_director(subject: Subject) -> Question | None:
    person, _, character = subject.cast()
    other_role = subject.other_role(person)
    if other_role is None or _ambiguous(subject, person, other_role[1]):
        return None
    film, role = other_role
    directors = subject.crew("Director", film)
    if len(directors) != 1:
        return None

    def plan() -> Run:
        roles = yield from player_roles(subject.film.title, character)
        other = next(entry for entry in roles if entry["character"] == role)
        purpose = f'the director of "{other["title"]}"'
        crew = yield from look_into_film("get_movie_crew", other["id"], purpose)
        boss = next(member for member in crew["crew"] if member["job"] == "Director")
        purpose = f"where {boss['name']} was born"
        details = yield from about_person("get_person_details", str(boss["id"]), purpose)
        return details["place_of_birth"]

    goal = subject.pick(
        "The actor who played {character} in {film} played {role} in another movie. Where was the "
        "director of that other movie born? Please answer with the place of birth.",
        "Take the actor who was {character} in {film}, and the movie in which that actor was "
        "{role}. What is the place of birth of its director? Please answer with a string.",
        character=character,
        role=role,
    )
    answer = subject.catalogue.person(directors[0]).place_of_birth
    return Question("birthplace behind another role", goal, answer, plan)


def _ambiguous(subject: Subject, person: int, role: str) -> bool:
    """Return whether a person has several roles of that name among the shown films, or none."""
    shown = subject.catalogue.filmography(person)[0][:SHOWN]
    return sum(subject.catalogue.character(film, billing) == role for film, billing in shown) != 1


# Two and three films.


def _compare_kind(
    name: str,
    function: str,
    decide: Callable[[Sequence[Any]], Any],
    truth: Callable[[Sequence[Film]], Any],
    *wordings: str,
    films: int = 2,
    prefer: Callable[[Film, Film], bool] = lambda _, __: True,
    exists: Callable[[Film], object] = lambda _: True,
) -> Kind:
    """Return a kind that asks one function about several films and decides between the replies.

    `decide` sees (title, reply) pairs.
    """

    def ask(subject: Subject) -> Question | None:
        compared = [subject.film]
        while len(compared) < films:
            other = subject.other(partial(prefer, subject.film))
            if other not in compared:
                compared.append(other)
        if not all(exists(film) for film in compared):
            return None
        answer = truth(compared)
        if answer is None:
            return None
        titles = [film.title for film in compared]

        def plan() -> Run:
            replies: dict[str, Any] = {}
            for title in titles:
                replies[title] = yield from about_film(function, title, "the facts")
            return decide(list(replies.items()))

        others = {f"other{index}": f'"{title}"' for index, title in enumerate(titles[1:], start=1)}
        return Question(name, subject.pick(*wordings, **others), answer, plan)

    return Kind(name, 2 * films, ask)


def _greatest(field: str, sign: int = 1) -> Callable[[Sequence[Any]], Any]:
    """Return the title whose reply has the greatest (or least) value of a field."""

    def decide(replies: Sequence[Any]) -> Any:
        order = sorted(replies, key=lambda pair: pair[1][field], reverse=sign > 0)
        return order[0][0]

    return decide


def _best(value: Callable[[Film], Any], *, least: bool = False) -> Callable[[Sequence[Film]], Any]:
    """Return the title of the film with the greatest (or least) value; None where two are equal."""

    def truth(films: Sequence[Film]) -> Any:
        values = [value(film) for film in films]
        if len(set(values)) < len(values):
            return None
        return films[values.index(min(values) if least else max(values))].title

    return truth


def _shared(field: str, replies: Sequence[Any]) -> list[str]:
    first, second = ({item["name"] for item in reply[field]} for _, reply in replies)
    return sorted(first & second)


def _yes(value: object) -> str:
    return "Yes" if value else "No"


def _mean_vote(votes: Sequence[float]) -> float:
    return round(sum(votes) / len(votes), 3)


def _shared_names(films: Sequence[Film], names: Callable[[Film], set[str]]) -> list[str]:
    return sorted(names(films[0]) & names(films[1]))


def _genres(film: Film) -> set[str]:
    return {name for _, name in film.genres}


def _countries(film: Film) -> set[str]:
    return {country.name for country in film.countries}


def _companies(film: Film) -> set[str]:
    return {company.name for company in film.companies}


def _ask_same_director(subject: Subject) -> Question:
    bosses = subject.crew("Director")
    more = [film for film, job in subject.catalogue.filmography(bosses[0])[1] if job == "Director"]
    more.remove(subject.film.number)
    liked = more and subject.rng.random() < 0.5
    other = subject.catalogue.film(subject.rng.choice(more)) if liked else subject.other()
    answer = _yes(set(bosses) & set(subject.crew("Director", other)))
    titles = (subject.film.title, other.title)

    def plan() -> Run:
        directors: list[set[int]] = []
        for title in titles:
            crew = yield from about_film("get_movie_crew", title, "the crew")
            directors.append({who["id"] for who in crew["crew"] if who["job"] == "Director"})
        return _yes(directors[0] & directors[1])

    goal = subject.pick(
        'Do {film} and "{other}" have a director in common? Please answer with Yes or No.',
        'Was {film} directed by someone who also directed "{other}"? Please answer with Yes or No.',
        other=other.title,
    )
    return Question("same director", goal, answer, plan)


def _ask_common_actor(subject: Subject) -> Question | None:
    leads = [person for person, _ in subject.catalogue.credits(subject.film.number)[0][:SHOWN]]
    other = subject.other(lambda film: len(_common(subject, leads, film)) == 1)
    common = _common(subject, leads, other)
    if len(common) != 1:
        return None
    titles = (subject.film.title, other.title)

    def plan() -> Run:
        casts: list[list[str]] = []
        for title in titles:
            cast = yield from about_film("get_movie_cast", title, "the cast")
            casts.append([member["name"] for member in cast["cast"]])
        return next(name for name in casts[0] if name in casts[1])

    goal = subject.pick(
        'Which actor is among the leading cast of both {film} and "{other}"? Please answer with '
        "the name.",
        'Who acted in both {film} and "{other}"? Please answer with the name of the actor.',
        other=other.title,
    )
    return Question("common actor", goal, subject.catalogue.person_name(common[0]), plan)


def _common(subject: Subject, leads: Sequence[int], film: Film) -> list[int]:
    others = {person for person, _ in subject.catalogue.credits(film.number)[0][:SHOWN]}
    return [person for person in leads if person in others]


def _ask_older_director(subject: Subject) -> Question | None:
    films = (subject.film, subject.other())
    bosses = [subject.crew("Director", film) for film in films]
    if any(len(people) != 1 for people in bosses) or bosses[0] == bosses[1]:
        return None
    people = [subject.catalogue.person(who[0]) for who in bosses]
    if people[0].birthday == people[1].birthday:
        return None
    titles = [film.title for film in films]

    def plan() -> Run:
        born: list[tuple[str, str]] = []
        for title in titles:
            boss = yield from find_director(title)
            purpose = f"the birthday of {boss['name']}"
            details = yield from about_person("get_person_details", str(boss["id"]), purpose)
            born.append((details["birthday"], boss["name"]))
        return min(born)[1]

    goal = subject.pick(
        'Who was born earlier, the director of {film} or the director of "{other}"? Please answer '
        "with the name.",
        'Of the directors of {film} and "{other}", which one is older? Please answer with the '
        "name of that director.",
        other=titles[1],
    )
    return Question("older director", goal, min(people, key=lambda p: p.birthday).name, plan)


_LIST: Final = "Please answer with a list of strings."
_NUMBER: Final = "Please answer with a number."
_TITLE: Final = "Please answer with the title of the movie."
_YES_NO: Final = "Please answer with Yes or No."
_DATE: Final = "Please answer in the format YYYY-MM-DD."

KINDS: Final[tuple[Kind, ...]] = (
    _entry_kind(
        "film id",
        "id",
        lambda film: film.film_id,
        "Which id does the database use for the movie {film}? Please answer with a number.",
        "Under what id is {film} stored in the movie database? Please give the id as a number.",
    ),
    _entry_kind(
        "overview",
        "overview",
        lambda film: film.overview,
        "What is the movie {film} about? Please answer with its overview as a string.",
        "Please give me the overview of {film}, word for word, as a string.",
    ),
    Kind("person id", 1, _ask_person_id),
    _detail(
        "release date",
        "get_movie_details",
        "the release date",
        itemgetter("release_date"),
        lambda film: film.release_date,
        f"When was {{film}} released? {_DATE}",
        f"What is the release date of the movie {{film}}? {_DATE}",
    ),
    _detail(
        "budget",
        "get_movie_details",
        "the budget",
        itemgetter("budget"),
        lambda film: film.budget,
        f"What was the budget of {{film}} in dollars? {_NUMBER}",
        f"How much money was the movie {{film}} allowed to cost? {_NUMBER}",
        exists=lambda film: film.budget,
    ),
    _detail(
        "revenue",
        "get_movie_details",
        "the revenue",
        itemgetter("revenue"),
        lambda film: film.revenue,
        f"What was the revenue of {{film}} in dollars? {_NUMBER}",
        f"How many dollars did the movie {{film}} bring in? {_NUMBER}",
        exists=lambda film: film.revenue,
    ),
    _detail(
        "vote average",
        "get_movie_details",
        "the average vote",
        itemgetter("vote_average"),
        lambda film: film.vote_average,
        f"What is the average vote of {{film}}? {_NUMBER}",
        f"How is the movie {{film}} rated on average? {_NUMBER}",
    ),
    _detail(
        "genres",
        "get_movie_details",
        "the genres",
        lambda reply: _names(reply["genres"]),
        lambda film: sorted(_genres(film)),
        f"Which genres does {{film}} belong to? {_LIST}",
        f"What are the genres of the movie {{film}}? {_LIST}",
    ),
    _detail(
        "companies",
        "get_movie_production_companies",
        "the production companies",
        lambda reply: _names(reply["production_companies"]),
        lambda film: sorted(_companies(film)),
        f"Which companies produced {{film}}? {_LIST}",
        f"What are the production companies of the movie {{film}}? {_LIST}",
    ),
    _detail(
        "countries",
        "get_movie_production_countries",
        "the production countries",
        lambda reply: _names(reply["production_countries"]),
        lambda film: sorted(_countries(film)),
        f"In which countries was {{film}} produced? {_LIST}",
        f"What are the production countries of the movie {{film}}, by name? {_LIST}",
    ),
    _detail(
        "keywords",
        "get_movie_keywords",
        "the keywords",
        lambda reply: sorted(reply["keywords"]),
        lambda film: sorted(film.keywords),
        f"Which keywords is {{film}} filed under? {_LIST}",
        f"What are all keywords of the movie {{film}}? {_LIST}",
    ),
    _detail(
        "number of keywords",
        "get_movie_keywords",
        "the keywords",
        lambda reply: len(reply["keywords"]),
        lambda film: len(film.keywords),
        f"How many keywords does {{film}} have? {_NUMBER}",
        f"Under how many keywords is the movie {{film}} filed? {_NUMBER}",
    ),
    _detail(
        "profit",
        "get_movie_details",
        "the money figures",
        lambda reply: reply["revenue"] - reply["budget"],
        lambda film: film.revenue - film.budget,
        "By how many dollars did the revenue of {film} exceed its budget? Please answer with a "
        "number, negative if it lost money.",
        "What is the revenue of {film} minus its budget, in dollars? Please answer with a number.",
        exists=lambda film: film.budget and film.revenue,
    ),
    _crew_kind(
        "director",
        "Director",
        "Who directed {film}? Please answer with the name.",
        "Who is the director of the movie {film}? Please answer with the name as a string.",
    ),
    _crew_kind(
        "composer",
        "Original Music Composer",
        "Who composed the music for {film}? Please answer with the name.",
        "Whose original music is heard in the movie {film}? Please answer with a name.",
    ),
    _cast_kind(
        "character",
        "name",
        "character",
        "What character did {name} play in {film}? Please answer with the name of the character.",
        "Which role does {name} have in the movie {film}? Please answer with the character name.",
    ),
    _cast_kind(
        "player",
        "character",
        "name",
        "Who played {character} in {film}? Please answer with the name of the actor.",
        "Which actor plays {character} in the movie {film}? Please answer with a name.",
    ),
    Kind("translation", 2, _ask_translation),
    Kind("alternative title", 2, _ask_alternative),
    _person_kind(
        "birthday",
        "get_person_details",
        "birthday",
        "the birthday of",
        lambda catalogue, person: catalogue.person(person).birthday,
        f"When was {{name}} born? {_DATE}",
        f"What is the birthday of {{name}} from the movies? {_DATE}",
    ),
    _person_kind(
        "place of birth",
        "get_person_details",
        "place_of_birth",
        "the place of birth of",
        lambda catalogue, person: catalogue.person(person).place_of_birth,
        "Where was {name} born? Please answer with the place of birth as a string.",
        "What is the place of birth of {name}, as the movie database has it? Please answer with a "
        "string.",
    ),
    _person_kind(
        "imdb id",
        "get_person_external_ids",
        "imdb_id",
        "the external ids of",
        lambda catalogue, person: catalogue.person(person).imdb_id,
        "What is the IMDB id of {name}? Please answer with a string.",
        "Which id does {name} have at IMDB? Please answer with the id as a string.",
    ),
    _person_kind(
        "twitter id",
        "get_person_external_ids",
        "twitter_id",
        "the external ids of",
        lambda catalogue, person: catalogue.person(person).twitter_id,
        "What is the Twitter id of {name}? Please answer with a string.",
        "Under what name can {name} be found on Twitter? Please answer with the id as a string.",
    ),
    _chain_kind(
        "director's birthplace",
        "get_person_details",
        "place_of_birth",
        lambda catalogue, person: catalogue.person(person).place_of_birth,
        "Where was the director of {film} born? Please answer with the place of birth.",
        "What is the place of birth of the person who directed {film}? Please answer with a "
        "string.",
        of_director=True,
    ),
    _chain_kind(
        "player's birthday",
        "get_person_details",
        "birthday",
        lambda catalogue, person: catalogue.person(person).birthday,
        f"When was the actor who played {{character}} in {{film}} born? {_DATE}",
        f"What is the birthday of the actor behind {{character}} in {{film}}? {_DATE}",
    ),
    _chain_kind(
        "player's imdb id",
        "get_person_external_ids",
        "imdb_id",
        lambda catalogue, person: catalogue.person(person).imdb_id,
        "What is the IMDB id of the actor who played {character} in {film}? Please answer with a "
        "string.",
        "I liked {character} in {film}. What is the IMDB id of the actor? Please answer with a "
        "string.",
    ),
    _chain_kind(
        "player's biography",
        "get_person_details",
        "biography",
        lambda catalogue, person: catalogue.person(person).biography,
        "What does the biography of the actor who played {character} in {film} say? Please answer "
        "with the whole text.",
        "Please give me the biography of the actor who was {character} in {film}, as a string.",
    ),
    Kind("other role", 3, _ask_other_role),
    Kind("date of another role's film", 4, _ask_role_film_date),
    _compare_kind(
        "higher revenue",
        "get_movie_details",
        _greatest("revenue"),
        _best(lambda film: film.revenue),
        f"Which movie brought in more money, {{film}} or {{other1}}? {_TITLE}",
        f"Between {{film}} and {{other1}}, which had the higher revenue? {_TITLE}",
        exists=lambda film: film.revenue,
    ),
    _compare_kind(
        "earlier release",
        "get_movie_details",
        _greatest("release_date", -1),
        _best(lambda film: film.release_date, least=True),
        f"Which movie came out first, {{film}} or {{other1}}? {_TITLE}",
        f"Of {{film}} and {{other1}}, which was released earlier? {_TITLE}",
    ),
    _compare_kind(
        "mean vote",
        "get_movie_details",
        lambda replies: _mean_vote([reply["vote_average"] for _, reply in replies]),
        lambda films: _mean_vote([film.vote_average for film in films]),
        "What is the mean of the average votes of {film} and {other1}, rounded to three decimals? "
        f"{_NUMBER}",
        f"Taking {{film}} and {{other1}} together, what is their mean average vote? Round to three "
        f"decimals. {_NUMBER}",
    ),
    _compare_kind(
        "common genre",
        "get_movie_details",
        lambda replies: _yes(_shared("genres", replies)),
        lambda films: _yes(_shared_names(films, _genres)),
        f"Do {{film}} and {{other1}} share a genre? {_YES_NO}",
        f"Is there any genre that both {{film}} and {{other1}} belong to? {_YES_NO}",
        prefer=lambda one, two: bool(_genres(one) & _genres(two)),
    ),
    _compare_kind(
        "common companies",
        "get_movie_production_companies",
        lambda replies: _shared("production_companies", replies),
        lambda films: _shared_names(films, _companies) or None,
        f"Which companies took part in producing both {{film}} and {{other1}}? {_LIST}",
        f"What production companies do {{film}} and {{other1}} have in common? {_LIST}",
        prefer=lambda one, two: bool(_companies(one) & _companies(two)),
    ),
    _compare_kind(
        "same countries",
        "get_movie_production_countries",
        lambda replies: _yes(
            _names(replies[0][1]["production_countries"])
            == _names(replies[1][1]["production_countries"])
        ),
        lambda films: _yes(_countries(films[0]) == _countries(films[1])),
        f"Were {{film}} and {{other1}} produced in exactly the same countries? {_YES_NO}",
        f"Are the production countries of {{film}} and {{other1}} the same? {_YES_NO}",
        prefer=lambda one, two: _countries(one) == _countries(two),
    ),
    Kind("same director", 4, _ask_same_director),
    Kind("common actor", 4, _ask_common_actor),
    Kind("birthplace behind another role", 5, _ask_role_film_director),
    Kind("older director", 6, _ask_older_director),
    _compare_kind(
        "highest revenue of three",
        "get_movie_details",
        _greatest("revenue"),
        _best(lambda film: film.revenue),
        f"Which of {{film}}, {{other1}} and {{other2}} had the highest revenue? {_TITLE}",
        f"{{film}}, {{other1}}, {{other2}}: which of these brought in the most money? {_TITLE}",
        films=3,
        exists=lambda film: film.revenue,
    ),
    _compare_kind(
        "sum of budgets",
        "get_movie_details",
        lambda replies: sum(reply["budget"] for _, reply in replies),
        lambda films: sum(film.budget for film in films),
        f"What do the budgets of {{film}}, {{other1}} and {{other2}} add up to, in dollars? "
        f"{_NUMBER}",
        f"How many dollars were the budgets of {{film}}, {{other1}} and {{other2}} together? "
        f"{_NUMBER}",
        films=3,
        exists=lambda film: film.budget,
    ),
)
"""All kinds, from short plans to long ones. Their order decides which task asks what."""


def make_question(service: EmbeddedService, kind: int, film: int, seed: int) -> Question:
    """Return the question about a film of a kind, or of the next kind that the film allows."""
    for offset in range(len(KINDS)):
        subject = Subject(service, film, random.Random(seed + offset))
        candidate = KINDS[(kind + offset) % len(KINDS)]
        question = candidate.ask(subject)
        if question is not None:
            return question._replace(lookups=candidate.lookups)
    raise AssertionError(f"no question fits film {film}")  # the first kinds fit every film
