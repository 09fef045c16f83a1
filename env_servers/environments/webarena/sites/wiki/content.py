"""Articles about everything that the encyclopedia and the map know."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from env_servers.environments.webarena.sites.map.content import places
from env_servers.environments.webarena.sites.map.places import Place
from env_servers.environments.webarena.sites.map.towns import towns
from env_servers.environments.webarena.sites.tables import Content
from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.wiki.subjects import (
    Nature,
    Organisation,
    Person,
    Work,
    subjects,
)

__all__ = ["build"]

_WRITTEN_UP: Final = ("museum", "university", "stadium", "theatre", "aerodrome", "library", "park")
_MAKER: Final = {"novel": "Author", "film": "Director", "album": "Artist"}
_LENGTH: Final = {"novel": "Pages", "film": "Running time", "album": "Length"}
_SIZE: Final = {
    "river": ("Length", "km"),
    "mountain": ("Elevation", "m"),
    "lake": ("Area", "km²"),
    "bird": ("Length", "cm"),
    "plant": ("Height", "cm"),
}
_FINDERS: Final = {
    "river": "Surveyed by",
    "mountain": "First ascent",
    "lake": "Surveyed by",
    "bird": "Described by",
    "plant": "Described by",
}


def build() -> Sequence[Content[Any]]:
    """Build the encyclopedia's database."""
    articles = [*_town_articles(), *_place_articles()]
    known = subjects()
    made: defaultdict[str, list[Work]] = defaultdict(list)
    for work in known.works:
        made[work.maker.name].append(work)
    articles += (_person(person, made[person.name]) for person in known.people)
    articles += map(_work, known.works)
    articles += map(_organisation, known.organisations)
    articles += map(_natural, known.nature)
    return [Content(ARTICLES, sorted(articles, key=lambda article: article.title))]


def _town_articles() -> Iterator[Article]:
    """Towns are real; what is said of them here is invented but for where they are."""
    draw = random.Random("wiki.towns")
    by_town: defaultdict[str, list[Place]] = defaultdict(list)
    for place in places():
        if place.kind in _WRITTEN_UP:
            by_town[place.town].append(place)
    teams = {team.town.name: team for team in subjects().organisations if team.kind == "team"}
    living = [person for person in subjects().people if person.died is None]
    early = [person for person in subjects().people if person.born < 1830]
    for town in towns():
        mayor, founder = draw.choice(living), draw.choice(early)
        team = teams[town.name]
        facts = (
            ("State", town.state),
            ("Founded", str(founder.born + draw.randrange(22, 40))),
            ("Founder", f"[[{founder.name}]]"),
            ("Mayor", f"[[{mayor.name}]]"),
            ("Area", f"{draw.randrange(60, 1400)} km²"),
            ("Elevation", f"{draw.randrange(2, 1700)} m"),
            ("Population", f"{draw.randrange(80_000, 3_000_000):,}"),
            ("Coordinates", f"{town.latitude}, {town.longitude}"),
        )
        sights = _listed(f"[[{place.name}]]" for place in by_town[town.name])
        yield Article(
            title=town.name,
            kind="town",
            lead=f"{town.name} is a city in {town.state}, United States.",
            facts=facts,
            sections=(
                ("Sights", f"Among the places to see are {sights}."),
                ("Sports", f"The city's team is the [[{team.title}]]."),
            ),
            categories=("Cities", f"Cities in {town.state}"),
        )


def _place_articles() -> Iterator[Article]:
    draw = random.Random("wiki.places")
    architects = [person for person in subjects().people if person.profession == "architect"]
    for place in places():
        if place.kind not in _WRITTEN_UP:
            continue
        architect = draw.choice(architects)
        year = architect.born + draw.randrange(26, 41)
        tags = dict(place.tags)
        facts = [
            ("Location", f"[[{place.town}]]"),
            ("Address", f"{place.house} {place.street}"),
            ("Opened", str(year)),
            ("Architect", f"[[{architect.name}]]"),
        ]
        if place.kind == "university":
            facts.append(("Students", f"{draw.randrange(2_000, 60_000):,}"))
        if "capacity" in tags:
            facts.append(("Capacity", f"{int(tags['capacity']):,}"))
        title = place.title.lower()
        yield Article(
            title=place.name,
            kind=place.kind,
            lead=f"{place.name} is {_a(title)} in [[{place.town}]], {place.state}.",
            facts=tuple(facts),
            sections=(
                (
                    "History",
                    f"It was opened in {year} in the district {place.district}. "
                    f"The building was designed by [[{architect.name}]].",
                ),
            ),
            categories=(_many(place.title), f"Buildings in {place.town}"),
        )


def _person(person: Person, works: Sequence[Work]) -> Article:
    life = f"{person.born}–{person.died}" if person.died else f"born {person.born}"  # noqa: RUF001
    facts = [("Born", f"{person.born}, [[{person.birthplace.name}]]")]
    if person.died:
        facts.append(("Died", str(person.died)))
    facts += [
        ("Occupation", person.profession.capitalize()),
        ("Alma mater", f"[[{person.university.name} University]]"),
        ("Spouse", person.spouse),
        ("Awards", f"{person.prize} ({person.prize_year})"),
    ]
    sections = [
        (
            "Life",
            f"{person.name} was born in [[{person.birthplace.name}]] in {person.born} and studied "
            f"at [[{person.university.name} University]].",
        ),
        ("Recognition", f"The {person.prize} was awarded in {person.prize_year}."),
    ]
    if works:
        titles = _listed(f"[[{work.title}]] ({work.year})" for work in works)
        sections.insert(1, ("Works", f"Known works are {titles}."))
    return Article(
        title=person.name,
        kind="person",
        lead=f"{person.name} ({life}) "
        f"{'was' if person.died else 'is'} {_a(person.profession)} from "
        f"[[{person.birthplace.name}]].",
        facts=tuple(facts),
        sections=tuple(sections),
        categories=(
            _many(person.profession).capitalize(),
            f"People from {person.birthplace.name}",
            f"{person.born // 10 * 10}s births",
        ),
    )


def _work(work: Work) -> Article:
    minutes = "" if work.kind == "novel" else " minutes"
    facts = [
        (_MAKER[work.kind], f"[[{work.maker.name}]]"),
        ("Published" if work.kind == "novel" else "Released", str(work.year)),
        (_LENGTH[work.kind], f"{work.length}{minutes}"),
    ]
    sections = [("Content", f"It is about a {_plot(work)} in [[{work.setting.name}]].")]
    if work.cast:
        facts.append(("Starring", ", ".join(work.cast)))
    if work.source:
        facts.append(("Based on", f"[[{work.source}]]"))
        sections.append(("Origin", f"The film is based on the novel [[{work.source}]]."))
    return Article(
        title=work.title,
        kind=work.kind,
        lead=f"{work.title} is {_a(work.kind)} of {work.year} by [[{work.maker.name}]].",
        facts=tuple(facts),
        sections=tuple(sections),
        categories=(_many(work.kind).capitalize(), f"{work.year} {_many(work.kind)}"),
    )


def _plot(work: Work) -> str:
    themes = ("family", "journey", "trial", "friendship", "strike", "lost letter", "rivalry")
    return themes[(work.length + work.year) % len(themes)]


def _organisation(item: Organisation) -> Article:
    if item.kind == "team":
        assert item.ground is not None
        facts = (
            ("City", f"[[{item.town.name}]]"),
            ("Home ground", f"[[{item.ground.name}]]"),
            ("Founded", str(item.founded)),
            ("Championships", str(item.people)),
            ("Head coach", f"[[{item.leader.name}]]"),
        )
        lead = f"The {item.title} are a basketball team from [[{item.town.name}]]."
        text = f"They play at [[{item.ground.name}]] and have won {item.people} championships."
        return Article(item.title, "team", lead, facts, (("History", text),), ("Teams",))
    facts = (
        ("Industry", item.kind.capitalize()),
        ("Headquarters", f"[[{item.town.name}]]"),
        ("Founded", str(item.founded)),
        ("Founder", f"[[{item.leader.name}]]"),
        ("Employees", f"{item.people:,}"),
    )
    lead = f"{item.title} is a company from [[{item.town.name}]] that deals in {item.kind}."
    text = f"[[{item.leader.name}]] founded it in {item.founded}."
    categories = ("Companies", f"Companies of {item.town.name}")
    return Article(item.title, "company", lead, facts, (("History", text),), categories)


def _natural(item: Nature) -> Article:
    label, unit = _SIZE[item.kind]
    facts = (
        (label, f"{item.size:,} {unit}"),
        (_FINDERS[item.kind], f"[[{item.found_by.name}]]"),
        ("Year", str(item.year)),
        ("Nearest city", f"[[{item.town.name}]]"),
    )
    lead = f"{item.title} is {_a(item.kind)} near [[{item.town.name}]], {item.town.state}."
    text = f"It was first written about by [[{item.found_by.name}]] in {item.year}."
    categories = (_many(item.kind).capitalize(), f"Nature of {item.town.state}")
    return Article(item.title, item.kind, lead, facts, (("Study", text),), categories)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"


def _many(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def _listed(parts: Iterable[str]) -> str:
    found = list(parts)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
