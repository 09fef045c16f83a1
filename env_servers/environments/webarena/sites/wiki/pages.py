"""Pages of the encyclopedia: articles, categories, search. Nothing can be changed here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.tables import Content
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.wiki.articles import (
    ARTICLES,
    BY_TITLE,
    Article,
    address,
    plain,
    with_links,
)

__all__ = ["WIKI"]

WIKI: Final = Site("wiki", Path(__file__).parent)
_RESULTS: Final = 25
_LISTED: Final = 100
WIKI.add_filter("with_links", with_links)
WIKI.add_filter("plain", plain)
WIKI.add_filter("address", address)


@WIKI.page("/", "/wiki")
def front(visit: Visit) -> Response:
    """Show how many articles there are, and the largest categories."""
    categories = _categories(visit)
    largest = sorted(categories, key=lambda name: (-len(categories[name]), name))[:24]
    counts = [(name, len(categories[name])) for name in largest]
    return visit.render("front.html", total=len(visit.world[ARTICLES]), categories=counts)


@WIKI.page("/wiki/Special:Search")
def search(visit: Visit) -> Response:
    """Show the article of that very title, or what has the words."""
    query = visit.query.text("search")
    article = _titled(visit, query)
    if article is not None and "full" not in visit.query:
        return visit.redirect(article.address)
    found = cut(visit.world[ARTICLES].search(query), visit.query.number("page", 1), _RESULTS)
    return visit.render("search.html", query=query, found=found)


@WIKI.page("/wiki/Special:AllPages")
def all_pages(visit: Visit) -> Response:
    """Show the titles in their order, from a beginning on."""
    start = visit.query.text("from").casefold()
    articles = [a for a in visit.world[ARTICLES].ordered(BY_TITLE) if a.title.casefold() >= start]
    found = cut(articles, visit.query.number("page", 1), _LISTED)
    return visit.render("all_pages.html", start=visit.query.text("from"), found=found)


@WIKI.page("/wiki/Category:{name:path}")
def category(visit: Visit) -> Response:
    """Show the articles of a category."""
    name = _spaced(visit.parameters["name"])
    titles = _categories(visit).get(name)
    if titles is None:
        raise Missing
    found = cut(titles, visit.query.number("page", 1), _LISTED)
    return visit.render("category.html", name=name, found=found)


@WIKI.page("/wiki/{title:path}")
def article(visit: Visit) -> Response:
    """Show an article."""
    title = _spaced(visit.parameters["title"])
    found = visit.world[ARTICLES].get(title)
    if found is None:
        other = _titled(visit, title)
        if other is None:
            raise Missing
        return visit.redirect(other.address)
    return visit.render("article.html", article=found)


def _spaced(text: str) -> str:
    return text.replace("_", " ").strip()


def _titled(visit: Visit, text: str) -> Article | None:
    """Return the article of a title in any letter case."""
    title = _titles(_content(visit)).get(_spaced(text).casefold())
    return None if title is None else visit.world[ARTICLES].get(title)


def _categories(visit: Visit) -> Mapping[str, list[str]]:
    return _by_category(_content(visit))


def _content(visit: Visit) -> Content[Article]:
    """Return the base's articles, which no world changes."""
    return visit.world.base.content(ARTICLES)


@cache
def _titles(content: Content[Article]) -> Mapping[str, str]:
    return {title.casefold(): title for title in map(str, content.rows)}


@cache
def _by_category(content: Content[Article]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in content.rows.values():
        for name in item.categories:
            found.setdefault(name, []).append(item.title)
    return found
