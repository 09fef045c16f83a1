"""A task on the embedded sites: what is wanted, where it begins, what it is scored by, its plan."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from env_servers.environments.webarena.evaluation.criteria import (
    URL_RULE,
    Criteria,
    Evaluator,
    Target,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Move

__all__ = [
    "AT_ANY_PAGE",
    "SiteTask",
    "WorldCheck",
    "answered",
    "answered_exactly",
    "at_page",
    "unachievable",
    "worded",
]

WorldCheck = Callable[[World], bool]
"""Whether the sites are as the task wants them at its end."""
_PATH: Final = "document.location.pathname.replace(/[/]$/, '')"
AT_ANY_PAGE: Final = Criteria((), None, None, URL_RULE, None, ())
"""Nothing is asked of the answer or the page: what counts is the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTask:
    """One task."""

    intent: str
    start: str
    """Address where it begins, as agents know it."""
    criteria: Criteria = AT_ANY_PAGE
    check: WorldCheck | None = None
    """None = nothing is asked of the sites, as in the original's tasks of reading and finding."""
    plan: tuple[Move, ...]
    """How it is solved, from its start to its answer."""


def answered(*parts: str) -> Criteria:
    """Return the criteria of an answer that has to include all parts."""
    return Criteria((Evaluator.STRING,), {"must_include": list(parts)}, None, URL_RULE, None, ())


def answered_exactly(text: str) -> Criteria:
    """Return the criteria of an answer that has to be this alone, as numbers have to."""
    return Criteria((Evaluator.STRING,), {"exact_match": text}, None, URL_RULE, None, ())


def at_page(url: str, *targets: Target) -> Criteria:
    """Return the criteria of a task that ends on a page on which targets hold."""
    # The original's rule for addresses takes every page whose address has this one in it: order 12
    # for order 1, a project for its owner. So the whole path is compared, too.
    path = Target("last", _PATH, {"exact_match": urlsplit(url).path.rstrip("/")})
    evaluators = Evaluator.URL, Evaluator.PROGRAM
    return Criteria(evaluators, None, url, URL_RULE, None, (path, *targets))


def unachievable() -> Criteria:
    """Return the criteria of a task that cannot be done: the answer has to be N/A."""
    return answered_exactly("N/A")


def worded(key: str | int, *forms: str) -> str:
    """Return one of several wordings, always the same for a key."""
    return forms[zlib.crc32(str(key).encode()) % len(forms)]
