"""Documents in HTML: sections, facts and whatever markup an environment puts between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from env_servers.sdk import MediaType, View
from env_servers.toolkit.drawing.markup import STYLE, Markup, element, join

__all__ = ["document", "facts", "section"]

_STYLE: Final = Markup(
    STYLE + "body{background:var(--paper);color:var(--ink);margin:12px;line-height:1.45;"
    "font:14px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}"
    "h1{font-size:16px;margin:0 0 8px}h2{font-size:14px;margin:16px 0 4px}"
    "table{border-collapse:collapse;margin:4px 0}caption{text-align:left;color:var(--muted)}"
    "th,td{border:1px solid var(--line);padding:2px 8px;text-align:left;vertical-align:top;"
    "white-space:pre-wrap}th{background:var(--panel)}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 12px;margin:4px 0}"
    "dt{color:var(--muted)}dd{margin:0;white-space:pre-wrap}"
    "pre{background:var(--panel);padding:8px;white-space:pre-wrap;margin:4px 0}"
    "mark{background:none;color:var(--accent);font-weight:bold}"
    ".good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}"
    ".muted{color:var(--muted)}ul{margin:4px 0;padding-left:20px}"
)


def document(name: str, title: str, *parts: object) -> View:
    """Return a view that is a whole document; parts that are no Markup are escaped."""
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        element("title", title),
        element("style", _STYLE),
    )
    html = element("html", head, element("body", join(parts)), lang="en")
    return View(name, title, MediaType.HTML, f"<!DOCTYPE html>{html}".encode())


def section(heading: str, *parts: object) -> Markup:
    """Return parts below a heading."""
    return element("section", element("h2", heading), join(parts))


def facts(values: Mapping[str, object]) -> Markup:
    """Return names and values, a line each."""
    return element(
        "dl", *(join((element("dt", key), element("dd", value))) for key, value in values.items())
    )
