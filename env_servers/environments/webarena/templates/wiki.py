"""Templates of the encyclopedia: facts that stand in one article or follow from two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import SiteTask, answered, at_page
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_START: Final = "http://wikipedia.org"


def _search(title: str) -> Move:
    return TypeInto("searchbox", "Search the encyclopedia", title, enter=True)


def _with(kind: str, label: str) -> Callable[[World], Sequence[Article]]:
    def candidates(world: World) -> Sequence[Article]:
        articles = world[ARTICLES].where(kind=kind)
        return [article for article in articles if label in dict(article.facts)]

    return candidates


def _fact(kind: str, label: str, question: str) -> Template[Article]:
    """Return the template of a fact in an infobox."""

    def make(_: World, article: Article) -> SiteTask:
        fact = article.fact(label)
        return SiteTask(
            intent=question.format(title=article.title),
            start=_START,
            criteria=answered(fact),
            plan=(_search(article.title), Answer(fact)),
        )

    return Template(f"wiki.{kind}_{label.lower().replace(' ', '_')}", _with(kind, label), make)


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
    _fact("river", "Length", "How long is the {title}? Quote the encyclopedia, with its unit."),
    _fact("album", "Length", "How long does the album {title} play?"),
    _fact("person", "Awards", "Which prize did {title} get? Quote it with its year."),
    _fact("plant", "Described by", "Who described the {title} first?"),
    _fact("theatre", "Opened", "When was the {title} opened?"),
    _show("film"),
)
