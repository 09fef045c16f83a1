"""Templates of the encyclopedia that need two articles, a category, or what is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.webarena.evaluation.criteria import Criteria
from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article, address
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    at_page,
    unachievable,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_START: Final = "http://wikipedia.org"
_SERVED: Final = "http://wiki.test"
_Pair = tuple[Article, Article]


def _search(title: str) -> Move:
    return TypeInto("searchbox", "Search the encyclopedia", title, enter=True)


def _of(*kinds: str) -> Callable[[World], Sequence[Article]]:
    return lambda world: [article for kind in kinds for article in world[ARTICLES].where(kind=kind)]


def _linked(world: World, article: Article, label: str) -> Article:
    other = world[ARTICLES].get(article.fact(label))
    assert other is not None, "infoboxes link to articles that are there"
    return other


def _second(
    name: str,
    kind: str,
    link: str,
    question: str,
    told: Callable[[Article], str],
    criteria: Callable[[str], Criteria] = answered,
) -> Template[Article]:
    """Return the template of a fact in the article to which an infobox links."""

    def candidates(world: World) -> Sequence[Article]:
        return [each for each in world[ARTICLES].where(kind=kind) if link in dict(each.facts)]

    def make(world: World, article: Article) -> SiteTask:
        other = _linked(world, article, link)
        answer = told(other)
        return SiteTask(
            intent=question.format(title=article.title),
            start=_START,
            criteria=criteria(answer),
            plan=(_search(article.title), ClickOn("link", other.title), Answer(answer)),
        )

    return Template(f"wiki.{name}", candidates, make)


def _born(person: Article) -> str:
    return person.fact("Born").partition(",")[0]


def _birthplace(person: Article) -> str:
    return person.fact("Born").partition(", ")[2]


def _number(article: Article, label: str) -> int:
    return int(article.fact(label).split()[0].replace(",", ""))


def _more(name: str, kind: str, label: str, question: str) -> Template[_Pair]:
    """Return the template of two articles of which one has the larger number."""

    def candidates(world: World) -> Sequence[_Pair]:
        found = world[ARTICLES].where(kind=kind)
        pairs = zip(found[::2], found[1::2], strict=False)
        return [(a, b) for a, b in pairs if _number(a, label) != _number(b, label)]

    def make(_: World, pair: _Pair) -> SiteTask:
        winner = max(pair, key=lambda article: _number(article, label))
        return SiteTask(
            intent=f"{question.format(a=pair[0].title, b=pair[1].title)} Answer with its name.",
            start=_START,
            criteria=answered_exactly(winner.title),
            plan=(_search(pair[0].title), _search(pair[1].title), Answer(winner.title)),
        )

    return Template(f"wiki.{name}", candidates, make)


def _years_between(world: World) -> Sequence[_Pair]:
    """Films and the novels that they are made of."""
    films = [film for film in world[ARTICLES].where(kind="film") if "Based on" in dict(film.facts)]
    return [(film, _linked(world, film, "Based on")) for film in films]


def _years(_: World, pair: _Pair) -> SiteTask:
    film, novel = pair
    years = abs(int(film.fact("Released")) - int(novel.fact("Published")))
    return SiteTask(
        intent=f"How many years lie between the film {film.title} and the publication of the novel "
        "that it is based on? Answer with the number only.",
        start=_START,
        criteria=answered_exactly(str(years)),
        plan=(_search(film.title), ClickOn("link", novel.title), Answer(str(years))),
    )


def _show_source(_: World, pair: _Pair) -> SiteTask:
    film, novel = pair
    return SiteTask(
        intent=f"Open the article about the novel behind the film {film.title}.",
        start=_START,
        criteria=at_page(_SERVED + novel.address),
        plan=(_search(film.title), ClickOn("link", novel.title), Answer()),
    )


def _categories(world: World) -> Counter[str]:
    return Counter(name for article in world[ARTICLES] for name in article.categories)


def _of_town(beginning: str) -> Callable[[World], Sequence[str]]:
    return lambda world: sorted(name for name in _categories(world) if name.startswith(beginning))


def _to_category(world: World, name: str) -> tuple[Move, ...]:
    """Return the moves to a category, by the first article that has it."""
    first = next(article for article in world[ARTICLES] if name in article.categories)
    return (_search(first.title), ClickOn("link", name))


def _count(world: World, name: str) -> SiteTask:
    count = str(_categories(world)[name])
    town = name.removeprefix("People from ")
    return SiteTask(
        intent=f"How many articles are there about people from {town}, by their category? "
        "Answer with the number only.",
        start=_START,
        criteria=answered_exactly(count),
        plan=(*_to_category(world, name), Answer(count)),
    )


def _show_category(world: World, name: str) -> SiteTask:
    town, page = name.removeprefix("Companies of "), _SERVED + address(f"Category:{name}")
    return SiteTask(
        intent=f"Show me the list of all companies of {town} in the encyclopedia.",
        start=_START,
        criteria=at_page(page),
        plan=(*_to_category(world, name), Answer()),
    )


def _show_maker(world: World, album: Article) -> SiteTask:
    artist = _linked(world, album, "Artist")
    return SiteTask(
        intent=f"Who recorded the album {album.title}? Take me to the article about the artist.",
        start=_START,
        criteria=at_page(_SERVED + artist.address),
        plan=(_search(album.title), ClickOn("link", artist.title), Answer()),
    )


def _death(_: World, person: Article) -> SiteTask:
    died = dict(person.facts).get("Died", "")
    return SiteTask(
        intent=f"In which year did {person.title} die? Answer with the year alone, or with N/A for "
        "somebody who lives.",
        start=_START,
        criteria=answered_exactly(died) if died else unachievable(),
        plan=(_search(person.title), Answer(died or "N/A")),
    )


def _no_sequel(world: World, novel: Article) -> SiteTask:
    title = f"Return to {novel.title}"
    return SiteTask(
        intent=f"How many pages does the novel {title} have?",
        start=_START,
        criteria=unachievable(),
        plan=(_search(title), Answer("N/A")),
    )


TEMPLATES: Final = (
    _second(
        "director_born",
        "film",
        "Director",
        "In which year was the director of {title} born?",
        _born,
    ),
    _second(
        "founder_birthplace",
        "company",
        "Founder",
        "In which city was the founder of {title} born?",
        _birthplace,
    ),
    _second(
        "architect_university",
        "museum",
        "Architect",
        "Where did the architect of the {title} study?",
        lambda person: person.fact("Alma mater"),
    ),
    _second(
        "mayor_spouse",
        "town",
        "Mayor",
        "Whom is the mayor of {title} married to?",
        lambda person: person.fact("Spouse"),
    ),
    _second(
        "team_ground_capacity",
        "team",
        "Home ground",
        "How many people fit into the home ground of the {title}? Answer with the number alone, as "
        "the encyclopedia writes it.",
        lambda ground: ground.fact("Capacity"),
        answered_exactly,
    ),
    _second(
        "lake_city_population",
        "lake",
        "Nearest city",
        "What is the population of the city nearest to {title}? Write it with commas.",
        lambda town: town.fact("Population"),
    ),
    _more("higher_mountain", "mountain", "Elevation", "Which is higher, {a} or {b}?"),
    _more("longer_film", "film", "Running time", "Which film runs longer, {a} or {b}?"),
    _more("larger_company", "company", "Employees", "Who employs more people, {a} or {b}?"),
    Template("wiki.years_from_novel_to_film", _years_between, _years),
    Template("wiki.show_source", _years_between, _show_source),
    Template("wiki.people_of_town", _of_town("People from "), _count),
    Template("wiki.show_companies", _of_town("Companies of "), _show_category),
    Template("wiki.show_artist", _of("album"), _show_maker),
    Template("wiki.death", _of("person"), _death),
    Template("wiki.no_sequel", _of("novel"), _no_sequel),
)
