"""Templates of the encyclopedia: facts that stand in one article or follow from two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.webarena.evaluation.criteria import Criteria
from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    at_page,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_START: Final = "http://wikipedia.org"
_QUOTE: Final = "Answer with the length alone, as the encyclopedia writes it, with its unit."


def _search(title: str) -> Move:
    return TypeInto("searchbox", "Search the encyclopedia", title, enter=True)


def _with(kind: str, label: str) -> Callable[[World], Sequence[Article]]:
    def candidates(world: World) -> Sequence[Article]:
        articles = world[ARTICLES].where(kind=kind)
        return [article for article in articles if label in dict(article.facts)]

    return candidates


def _fact(
    kind: str, label: str, question: str, criteria: Callable[[str], Criteria] = answered
) -> Template[Article]:
    """Return the template of a fact in an infobox."""

    def make(_: World, article: Article) -> SiteTask:
        fact = article.fact(label)
        return SiteTask(
            intent=question.format(title=article.title),
            start=_START,
            criteria=criteria(fact),
            plan=(_search(article.title), Answer(fact)),
        )

    return Template(f"wiki.{kind}_{label.lower().replace(' ', '_')}", _with(kind, label), make)


def _prize(fact: str) -> Criteria:
    """Return the criteria of a prize and its year, in whatever form."""
    return answered(*fact.removesuffix(")").split(" ("))


def _show(kind: str) -> Template[Article]:
    """Return the template of a page to be opened."""

    def make(_: World, article: Article) -> SiteTask:
        return SiteTask(
            intent=f"Show me the encyclopedia's article about {article.title}.",
            start=_START,
            criteria=at_page(f"http://wiki.test{article.address}"),
            plan=(_search(article.title), Answer()),
        )

    return Template(f"wiki.show_{kind}", lambda world: world[ARTICLES].where(kind=kind), make)


TEMPLATES: Final = (
    _fact("river", "Length", f"How long is the {{title}}? {_QUOTE}", answered_exactly),
    _fact("album", "Length", f"How long does the album {{title}} play? {_QUOTE}", answered_exactly),
    _fact("person", "Awards", "Which prize did {title} get, and in which year?", _prize),
    _fact("plant", "Described by", "Who described the {title} first?"),
    _fact("theatre", "Opened", "When was the {title} opened?"),
    _show("film"),
)
