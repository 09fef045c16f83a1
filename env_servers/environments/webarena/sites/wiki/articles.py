"""Articles, and how text with links becomes HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

from env_servers.environments.webarena.sites.tables import Order, Table

__all__ = ["ARTICLES", "BY_TITLE", "Article", "address", "plain", "with_links"]

_LINK: Final = re.compile(r"\[\[([^\]]+)\]\]")


@dataclass(frozen=True, slots=True)
class Article:
    """A page of the encyclopedia. `[[Title]]` in its texts is a link."""

    title: str
    kind: str
    """What it is about: `town`, `person`, `film`."""
    lead: str
    facts: tuple[tuple[str, str], ...]
    """The infobox: labels and texts."""
    sections: tuple[tuple[str, str], ...]
    categories: tuple[str, ...]

    @property
    def address(self) -> str:
        """Its path."""
        return address(self.title)

    def fact(self, label: str) -> str:
        """Return a text of the infobox without links; raises KeyError."""
        return plain(dict(self.facts)[label])


def address(title: str) -> str:
    """Return the path of an article."""
    return f"/wiki/{quote(title.replace(' ', '_'), safe='/:')}"


def plain(text: str) -> str:
    """Return a text without the marks of links."""
    return _LINK.sub(r"\1", text)


def with_links(text: str) -> Markup:
    """Return a text as HTML."""
    parts = _LINK.split(text)
    shown = [
        Markup('<a href="{}">{}</a>').format(address(part), part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    ]
    return Markup("").join(shown)


def _text(article: Article) -> str:
    facts = " ".join(f"{label} {text}" for label, text in article.facts)
    texts = " ".join(text for _, text in article.sections)
    return plain(f"{article.title} {article.title} {article.title} {article.lead} {facts} {texts}")


ARTICLES = Table("wiki.articles", Article, key="title", indexed=("kind",), text=_text)
BY_TITLE: Order[Article] = Order("title", lambda article: article.title.casefold())
