"""What code hosting knows: users, groups, projects and what belongs to a project.

Numbers that people see (`#12`, `!4`) are `iid`; keys of such rows are made of the project's path
and that number.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum
from typing import Final

from env_servers.environments.webarena.sites.tables import Order, Table

__all__ = [
    "COMMITS",
    "FILES",
    "FOLLOWS",
    "GROUPS",
    "ISSUES",
    "LABELS",
    "MEMBERS",
    "MERGE_REQUESTS",
    "MILESTONES",
    "NEWEST_ISSUE",
    "NEWEST_REQUEST",
    "NOTES",
    "PROJECTS",
    "STARS",
    "TODOS",
    "USERS",
    "Commit",
    "File",
    "Follow",
    "Group",
    "Issue",
    "Label",
    "Member",
    "MergeRequest",
    "Milestone",
    "Note",
    "Project",
    "Role",
    "Star",
    "Todo",
    "User",
]


class Role(IntEnum):
    """What a member may do; each may do all that those before it may."""

    GUEST = 10
    """Read, and write issues."""
    REPORTER = 20
    """Label issues."""
    DEVELOPER = 30
    """Change files, merge."""
    MAINTAINER = 40
    """Add members, change settings."""
    OWNER = 50
    """Everything."""

    @property
    def title(self) -> str:
        """What a person reads."""
        return self.name.capitalize()


@dataclass(frozen=True, slots=True)
class User:
    """An account."""

    name: str
    """Name in addresses: `@name`."""
    title: str
    """The person's name."""
    email: str
    joined: date
    password: str = ""
    """Empty: nobody can sign in by it."""
    bio: str = ""
    website: str = ""
    location: str = ""
    organisation: str = ""
    status: str = ""
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A name under which several people have projects."""

    name: str
    title: str
    about: str
    visibility: str


@dataclass(frozen=True, slots=True)
class Project:
    """A repository with what belongs to it."""

    path: str
    """`namespace/slug`."""
    namespace: str
    slug: str
    title: str
    about: str
    visibility: str
    """`public` or `private`."""
    branches: tuple[str, ...]
    """The first is the default one."""
    created: datetime
    updated: datetime
    language: str
    licence: str = ""
    forked_from: str = ""

    @property
    def branch(self) -> str:
        """The default branch."""
        return self.branches[0]


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody's role in a project or a group."""

    id: str
    """`path@user`."""
    path: str
    user: str
    role: Role
    since: date


@dataclass(frozen=True, slots=True)
class Star:
    """A project that somebody likes."""

    id: str
    path: str
    user: str


@dataclass(frozen=True, slots=True)
class Follow:
    """Somebody who follows somebody."""

    id: str
    user: str
    followed: str


@dataclass(frozen=True, slots=True)
class Label:
    """A word that issues and merge requests are marked with."""

    id: str
    path: str
    name: str
    hue: int


@dataclass(frozen=True, slots=True)
class Milestone:
    """A date that issues belong to."""

    id: str
    path: str
    iid: int
    title: str
    about: str
    start: date | None
    due: date | None


@dataclass(frozen=True, slots=True)
class Issue:
    """A problem or a wish."""

    id: str
    path: str
    iid: int
    title: str
    text: str
    author: str
    assignees: tuple[str, ...]
    labels: tuple[str, ...]
    milestone: str
    due: date | None
    open: bool
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A wish to merge a branch into another."""

    id: str
    path: str
    iid: int
    title: str
    text: str
    author: str
    assignees: tuple[str, ...]
    reviewers: tuple[str, ...]
    labels: tuple[str, ...]
    source: str
    target: str
    state: str
    """`opened`, `merged` or `closed`."""
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class Note:
    """A comment on an issue or a merge request."""

    id: int
    on: str
    """Key of the issue or merge request."""
    author: str
    text: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Commit:
    """A change of files on a branch."""

    id: str
    path: str
    branch: str
    author: str
    email: str
    title: str
    created: datetime
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A file of a project's branch, as it is now."""

    id: str
    """`path@branch:name`."""
    path: str
    branch: str
    name: str
    """With folders: `src/main.py`."""
    text: str
    commit: str


@dataclass(frozen=True, slots=True)
class Todo:
    """Something that waits for a user."""

    id: int
    user: str
    author: str
    what: str
    """`assigned you`, `requested a review from you`, `mentioned you`."""
    on: str
    """Path of the page."""
    title: str
    created: datetime
    done: bool = False


USERS = Table("git.users", User, key="name", text=lambda row: f"{row.name} {row.title}")
GROUPS = Table("git.groups", Group, key="name", text=lambda row: f"{row.title} {row.about}")
PROJECTS = Table(
    "git.projects",
    Project,
    key="path",
    indexed=("namespace", "forked_from"),
    text=lambda row: f"{row.title} {row.slug} {row.namespace} {row.about}",
)
MEMBERS = Table("git.members", Member, indexed=("path", "user"))
STARS = Table("git.stars", Star, indexed=("path", "user"))
FOLLOWS = Table("git.follows", Follow, indexed=("user", "followed"))
LABELS = Table("git.labels", Label, indexed=("path",))
MILESTONES = Table("git.milestones", Milestone, indexed=("path",))
ISSUES = Table("git.issues", Issue, indexed=("path",), text=lambda row: f"{row.title} {row.text}")
MERGE_REQUESTS = Table(
    "git.merge_requests", MergeRequest, indexed=("path",), text=lambda r: f"{r.title} {r.text}"
)
NOTES = Table("git.notes", Note, indexed=("on",))
COMMITS = Table("git.commits", Commit, indexed=("path", "author"))
FILES = Table("git.files", File, indexed=("path",))
TODOS = Table("git.todos", Todo, indexed=("user",))
NEWEST_ISSUE: Final[Order[Issue]] = Order("newest", lambda row: row.created, reverse=True)
NEWEST_REQUEST: Final[Order[MergeRequest]] = Order("newest", lambda row: row.created, reverse=True)
