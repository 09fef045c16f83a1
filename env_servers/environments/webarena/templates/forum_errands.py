"""Templates of the forum for which another site has to be read first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.environments.webarena.sites.map.places import PLACES, Place
from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.forum_paths import START, submit_in
from env_servers.environments.webarena.templates.forum_writing import posted
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, Open, TypeInto
from env_servers.environments.webarena.templates.site_task import SiteTask
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]


def _read(title: str) -> tuple[Move, ...]:
    """Return the moves to an article and back to the forum."""
    return (
        Open("http://wikipedia.org"),
        TypeInto("searchbox", "Search the encyclopedia", title, enter=True),
        Open(START),
    )


def _locate(place: Place) -> tuple[Move, ...]:
    """Return the moves to a place on the map and back to the forum."""
    return (
        Open("http://openstreetmap.org"),
        TypeInto("textbox", "Search", place.name, enter=True),
        ClickOn("link", place.full_name),
        Open(START),
    )


def _films(world: World) -> Sequence[Article]:
    return world[ARTICLES].where(kind="film")


def _praise_director(world: World, film: Article) -> SiteTask:
    title = f"Why I love {film.title}"
    body = film.fact("Director")
    return SiteTask(
        intent=f'Post in the forum films under the title "{title}". The body has to be the name '
        "of the film's director as the encyclopedia has it, and nothing else.",
        start=START,
        check=posted("films", title, body),
        plan=(*_read(film.title), *submit_in(world, "films", title, body), Answer()),
    )


def _birds(world: World) -> Sequence[Article]:
    return world[ARTICLES].where(kind="bird")


def _ask_about_bird(world: World, bird: Article) -> SiteTask:
    town = bird.fact("Nearest city")
    title = f"Has anybody in {town} seen the {bird.title.lower()}?"
    return SiteTask(
        intent="Look up in the encyclopedia near which city one finds the "
        f"{bird.title.lower()}, and ask in the forum birds, without a body: "
        f'"Has anybody in CITY seen the {bird.title.lower()}?" with that city for CITY.',
        start=START,
        check=posted("birds", title),
        plan=(*_read(bird.title), *submit_in(world, "birds", title), Answer()),
    )


def _hotels(world: World) -> Sequence[Place]:
    return world[PLACES].where(kind="hotel")


def _recommend_hotel(world: World, hotel: Place) -> SiteTask:
    title, body = f"Stay at {hotel.name}", dict(hotel.tags)["phone"]
    return SiteTask(
        intent=f"Recommend {hotel.name} in {hotel.town} to the forum travel: the title is "
        f'"{title}", the body just its telephone number from the map.',
        start=START,
        check=posted("travel", title, body),
        plan=(*_locate(hotel), *submit_in(world, "travel", title, body), Answer()),
    )


TEMPLATES: Final = (
    Template("forum+wiki.praise_director", _films, _praise_director),
    Template("forum+wiki.ask_about_bird", _birds, _ask_about_bird),
    Template("forum+map.recommend_hotel", _hotels, _recommend_hotel),
)
