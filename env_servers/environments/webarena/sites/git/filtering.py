"""Which issues or merge requests a list shows, by what its address says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from env_servers.environments.webarena.sites.git.rows import Issue, MergeRequest
from env_servers.environments.webarena.sites.visit import Visit

__all__ = ["SORTS", "matching", "state_of"]

Ticket = TypeVar("Ticket", Issue, MergeRequest)
SORTS: Final = (
    ("created_date", "Created date"),
    ("created_asc", "Oldest first"),
    ("updated_desc", "Updated date"),
    ("title_asc", "Title"),
)
_STATES: Final = ("opened", "closed", "merged", "all")
_NONE: Final = "None"


def state_of(visit: Visit) -> str:
    """Return the state that is wanted; `opened` by default."""
    return visit.query.choice("state", _STATES, "opened")


def matching(visit: Visit, rows: Iterable[Ticket], *, own: str = "") -> list[Ticket]:
    """Return the rows that an address asks for, sorted.

    `own` is the field that stands for the visitor where the address names no user.
    """
    query = visit.query
    users = {
        name: query.text(name)
        for name in ("assignee_username", "author_username", "reviewer_username")
        if query.text(name)
    }
    if own and not users:
        users[own] = visit.account
    words = query.text("search").casefold()
    labels = [name for name in (*query.all("label_name[]"), *query.all("label_name")) if name]
    milestone, state = query.text("milestone_title"), state_of(visit)
    found = [
        row
        for row in rows
        if state in ("all", _state(row))
        and words in f"{row.title} {row.text}".casefold()
        and all(_concerns(row, field, name) for field, name in users.items())
        and all(label in row.labels or (label == _NONE and not row.labels) for label in labels)
        and milestone in ("", getattr(row, "milestone", ""))
    ]
    sort = query.choice("sort", [name for name, _ in SORTS], SORTS[0][0])
    keys: dict[str, tuple[Callable[[Any], Any], bool]] = {
        "created_date": (lambda row: (row.created, row.id), True),
        "created_asc": (lambda row: (row.created, row.id), False),
        "updated_desc": (lambda row: (row.updated, row.id), True),
        "title_asc": (lambda row: (row.title.casefold(), row.id), False),
    }
    key, reverse = keys[sort]
    return sorted(found, key=key, reverse=reverse)


def _state(row: Issue | MergeRequest) -> str:
    if isinstance(row, MergeRequest):
        return row.state
    return "opened" if row.open else "closed"


def _concerns(row: Issue | MergeRequest, field: str, name: str) -> bool:
    if field == "author_username":
        return row.author == name
    if field == "reviewer_username":
        return isinstance(row, MergeRequest) and name in row.reviewers
    return name in row.assignees or (name == _NONE and not row.assignees)
