"""Templates of the home page: the calculator and the scratchpad, alone and with other sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.environments.webarena.evaluation.criteria import (
    URL_RULE,
    Criteria,
    Evaluator,
    Target,
)
from env_servers.environments.webarena.sites.map.places import PLACES, Place
from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, Open, TypeInto
from env_servers.environments.webarena.templates.site_task import SiteTask, answered_exactly
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_START: Final = "http://homepage.com"
_Sum = tuple[int, int, int]


def _noted(text: str) -> Criteria:
    """Return the criteria of a task that ends on the scratchpad with a text in it."""
    target = Target("last", "document.getElementById('notes').value", {"exact_match": text})
    return Criteria((Evaluator.PROGRAM,), None, None, URL_RULE, None, (target,))


def _calculate(expression: str) -> tuple[Move, ...]:
    return (
        ClickOn("link", "Calculator"),
        TypeInto("textbox", "Expression", expression, enter=True),
    )


def _sums(_: World) -> Sequence[_Sum]:
    return [(10 + 7 * n, 113 + 29 * n, 3 + n) for n in range(40)]


def _cups(_: World, numbers: _Sum) -> SiteTask:
    boxes, cups, broken = numbers
    left = str(boxes * cups - broken)
    return SiteTask(
        intent=f"We got {boxes} boxes with {cups} cups each, and {broken} cups are broken. How "
        "many can be sold? Use the calculator of the homepage and answer with the number only.",
        start=_START,
        criteria=answered_exactly(left),
        plan=(*_calculate(f"{boxes}*{cups}-{broken}"), Answer(left)),
    )


def _rivers(world: World) -> Sequence[tuple[Article, Article]]:
    rivers = world[ARTICLES].where(kind="river")
    return list(zip(rivers[::2], rivers[1::2], strict=False))


def _both_rivers(_: World, pair: tuple[Article, Article]) -> SiteTask:
    lengths = [int(river.fact("Length").removesuffix(" km").replace(",", "")) for river in pair]
    total = str(sum(lengths))
    search = [
        TypeInto("searchbox", "Search the encyclopedia", river.title, enter=True) for river in pair
    ]
    return SiteTask(
        intent=f"How long are the {pair[0].title} and the {pair[1].title} together, in kilometers? "
        "The encyclopedia has both. Answer with the number only, without a comma.",
        start=_START,
        criteria=answered_exactly(total),
        plan=(
            ClickOn("link", "Encyclopedia"),
            *search,
            Open(_START),
            *_calculate("+".join(map(str, lengths))),
            Answer(total),
        ),
    )


def _theatres(world: World) -> Sequence[Place]:
    return world[PLACES].where(kind="theatre")


def _note_phone(_: World, theatre: Place) -> SiteTask:
    phone = dict(theatre.tags)["phone"]
    return SiteTask(
        intent=f"Find the telephone number of {theatre.name} in {theatre.town} on the map, write "
        "it into the empty scratchpad and leave that open.",
        start=_START,
        criteria=_noted(phone),
        plan=(
            ClickOn("link", "Map"),
            TypeInto("textbox", "Search", theatre.name, enter=True),
            ClickOn("link", theatre.full_name),
            Open(_START),
            ClickOn("link", "Scratchpad"),
            TypeInto("textbox", "Notes", phone),
            Answer(),
        ),
    )


TEMPLATES: Final = (
    Template("home.cups", _sums, _cups),
    Template("home+wiki.rivers_together", _rivers, _both_rivers),
    Template("home+map.note_phone", _theatres, _note_phone),
)
