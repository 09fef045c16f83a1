"""The shop's pages as HTML documents, for people to look at.

Contains their looks. The visible texts of a document are the parts of the page's observation, in
the same order, so that a person sees what the agent reads. A document carries no script and loads
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from env_servers.environments.webshop.pages import PAGE_SIZE, Kind
from env_servers.environments.webshop.visit import Visit

__all__ = ["html_page"]

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1.5rem;
  color: #1d2733; background: #f4f6f8; }
section { background: #fff; border: 1px solid #d9dfe5; border-radius: 10px; margin: .7rem 0;
  padding: .8rem 1rem; }
.task { background: #fff8e1; border-color: #eadba6; }
.btn { display: inline-block; background: #2457a6; color: #fff; border-radius: 6px;
  padding: .25rem .8rem; margin: .15rem .3rem .15rem 0; }
.option { border: 1px solid #b7c2cd; border-radius: 6px; display: inline-block; margin: .15rem;
  padding: .15rem .6rem; }
.chosen { background: #dcebff; border-color: #2457a6; font-weight: 600; }
.asin { color: #6a7683; font-size: 12px; } .price { color: #a33c1e; font-weight: 600; }
h1, h2, h3 { margin: .2rem 0; } h3 { font-size: 13px; color: #6a7683; }
"""
_BUTTONS: Final = frozenset(
    (
        "Search",
        "Back to Search",
        "< Prev",
        "Next >",
        "Description",
        "Features",
        "Reviews",
        "Buy Now",
    )
)


def html_page(visit: Visit) -> str:
    """Return the open page of a visit as a whole document."""
    parts = iter(visit.page.parts)
    body = _BODIES[visit.page.kind](visit, parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _element(tag: str, text: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f"<{tag}{mark}>{escape(text)}</{tag}>"


def _section(lines: Iterable[str], kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    joined = "\n".join(lines)
    return f"<section{mark}>\n{joined}\n</section>"


def _any(text: str) -> str:
    """Return a part whose role follows from its text alone."""
    return _element("span", text, "btn") if text in _BUTTONS else _element("p", text)


def _task(visit: Visit, parts: Iterable[str]) -> tuple[str, list[str]]:
    """Return the section with the instruction, and the parts that follow it."""
    rest = list(parts)
    count = 2 if visit.sentence.strip() else 1
    return _section((_element("p", text) for text in rest[:count]), "task"), rest[count:]


def _search(visit: Visit, parts: Iterable[str]) -> str:
    title, *rest = parts
    task, left = _task(visit, rest)
    return "\n".join((_element("h1", title), task, *map(_any, left)))


def _results(visit: Visit, parts: Iterable[str]) -> str:
    task, rest = _task(visit, parts)
    products = {asin.upper() for asin, kind in visit.page.clickables.items() if kind != "btn"}
    sections: list[list[str]] = [[]]
    for text in rest:
        if text in products and len(sections) <= PAGE_SIZE:
            products.discard(text)
            sections.append([_element("p", text, "asin")])
        elif len(sections) == 1:
            sections[0].append(_any(text))
        else:
            tag, kind = ("p", "price") if text.startswith("$") else ("h2", "")
            sections[-1].append(_element(tag, text, kind))
    return "\n".join((task, *map(_section, sections)))


def _item(visit: Visit, parts: Iterable[str]) -> str:
    task, rest = _task(visit, parts)
    product = visit.product
    taken = 2
    lines = [_section(map(_any, rest[:taken]))]
    for name, values in product.options.items():
        head = [_element("h3", name.strip())] if name.strip() else []
        shown = [value for value in values if value.strip()]
        lines.append(_section((*head, *(_value(visit, name, value) for value in shown))))
        taken += len(head) + len(shown)
    tail = [
        _element("h2", text) if text == product.title.strip() else _any(text)
        for text in rest[taken:]
    ]
    return "\n".join((task, *lines, _section(tail)))


def _value(visit: Visit, name: str, value: str) -> str:
    chosen = " chosen" if visit.chosen.get(name) == value else ""
    return _element("span", value.strip(), f"option{chosen}")


def _plain(visit: Visit, parts: Iterable[str]) -> str:
    task, rest = _task(visit, parts)
    return "\n".join((task, _section(map(_any, rest))))


def _done(visit: Visit, parts: Iterable[str]) -> str:
    title, *rest = parts
    return "\n".join((_element("h1", title), _section(map(_any, rest))))


_BODIES: Final = {
    Kind.SEARCH: _search,
    Kind.RESULTS: _results,
    Kind.ITEM: _item,
    Kind.SUB: _plain,
    Kind.DONE: _done,
}
