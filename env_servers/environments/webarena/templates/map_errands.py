"""Templates of the map for which the encyclopedia has to be read first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.environments.webarena.sites.map.places import PLACES, Place
from env_servers.environments.webarena.sites.map.roads import Engine
from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.map_ways import AS_SHOWN, Trip, ask, at_directions
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, Open, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_START: Final = "http://openstreetmap.org"


def _read(title: str) -> tuple[Move, ...]:
    """Return the moves to an article and back to the map."""
    return (
        Open("http://wikipedia.org"),
        TypeInto("searchbox", "Search the encyclopedia", title, enter=True),
        Open(_START),
    )


def _search(text: str) -> Move:
    return TypeInto("textbox", "Search", text, enter=True)


def _teams(world: World) -> Sequence[tuple[Article, Trip]]:
    places = {place.name: place for place in world[PLACES]}
    found: list[tuple[Article, Trip]] = []
    for team in world[ARTICLES].where(kind="team"):
        ground = places[team.fact("Home ground")]
        station = places[f"{ground.town} Union Station"]
        found.append((team, Trip(station, ground)))
    return found


def _to_the_game(_: World, chosen: tuple[Article, Trip]) -> SiteTask:
    team, trip = chosen
    return SiteTask(
        intent=f"Show me the way by car from {trip.start.name} to the home ground of the "
        f"{team.title}.",
        start=_START,
        criteria=at_directions(trip, Engine.CAR),
        plan=(
            *_read(team.title),
            *ask(trip, Engine.CAR),
            Answer(),
        ),
    )


def _physicists(world: World) -> Sequence[tuple[Article, Place]]:
    """People who studied, and where."""
    universities = {place.name: place for place in world[PLACES].where(kind="university")}
    people = world[ARTICLES].where(kind="person")
    return [
        (person, universities[person.fact("Alma mater")])
        for person in people
        if person.fact("Occupation") == "Physicist"
    ]


def _university(_: World, chosen: tuple[Article, Place]) -> SiteTask:
    person, university = chosen
    return SiteTask(
        intent=f"In which street is the university where the physicist {person.title} studied, "
        "and what is its zip code?",
        start=_START,
        criteria=answered(university.street, university.postcode),
        plan=(
            *_read(person.title),
            _search(university.name),
            Answer(f"{university.street}, {university.postcode}"),
        ),
    )


def _birthplaces(world: World) -> Sequence[tuple[Article, Trip]]:
    """Swimmers, with the drive from where they studied to where they were born."""
    stations = {place.town: place for place in world[PLACES].where(kind="station")}
    universities = {place.name: place for place in world[PLACES].where(kind="university")}
    found: list[tuple[Article, Trip]] = []
    for person in world[ARTICLES].where(kind="person"):
        town = person.fact("Born").partition(", ")[2]
        university = universities[person.fact("Alma mater")]
        if person.fact("Occupation") == "Swimmer" and university.town != town:
            found.append((person, Trip(university, stations[town])))
    return found


def _drive_home(_: World, chosen: tuple[Article, Trip]) -> SiteTask:
    person, trip = chosen
    time = trip.time(Engine.CAR)
    return SiteTask(
        intent=f"How long would the drive have been from {trip.start.name} to the railway station "
        f"of the city in which the swimmer {person.title} was born? {AS_SHOWN}",
        start=_START,
        criteria=answered_exactly(time),
        plan=(*_read(person.title), *ask(trip, Engine.CAR), Answer(time)),
    )


def _museums(world: World) -> Sequence[tuple[Article, Place]]:
    """Museums of which the encyclopedia knows the architect, on the map."""
    places = {place.name: place for place in world[PLACES].where(kind="museum")}
    return [(article, places[article.title]) for article in world[ARTICLES].where(kind="museum")]


def _visit(_: World, chosen: tuple[Article, Place]) -> SiteTask:
    article, museum = chosen
    architect, hours = article.fact("Architect"), dict(museum.tags)["opening_hours"]
    return SiteTask(
        intent=f"Who designed the {museum.name}, according to the encyclopedia, and when is it "
        "open, as the map writes it?",
        start=_START,
        criteria=answered(architect, hours),
        plan=(
            *_read(article.title),
            _search(museum.name),
            ClickOn("link", museum.full_name),
            Answer(f"{architect}; {hours}"),
        ),
    )


TEMPLATES: Final = (
    Template("map+wiki.way_to_home_ground", _teams, _to_the_game),
    Template("map+wiki.university_address", _physicists, _university),
    Template("map+wiki.drive_to_birthplace", _birthplaces, _drive_home),
    Template("map+wiki.visit_museum", _museums, _visit),
)
