"""How tasks of code hosting name projects, issues and people, and how an agent gets to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.environments.webarena.sites.git.content import ME
from env_servers.environments.webarena.sites.git.frame import role_in
from env_servers.environments.webarena.sites.git.rows import (
    ISSUES,
    MERGE_REQUESTS,
    PROJECTS,
    USERS,
    Issue,
    MergeRequest,
    Project,
    Role,
    User,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck

__all__ = [
    "HOST",
    "START",
    "all_projects",
    "change",
    "find_issue",
    "find_person",
    "find_project",
    "find_request",
    "invite",
    "issues",
    "link_of",
    "menu",
    "my_projects",
    "others_projects",
    "people",
    "project_of",
    "requests",
]

START: Final = "http://gitlab.com"
HOST: Final = "http://git.test"
_TWICE: Final = ("Issues", "Merge requests")
"""Links that are also in the head of every page."""


def all_projects(world: World) -> Sequence[Project]:
    """Return the public projects that have issues and merge requests: those that are no forks."""
    return [row for row in world[PROJECTS] if row.visibility == "public" and not row.forked_from]


def others_projects(world: World) -> Sequence[Project]:
    """Return public projects of which the agent is no member."""
    return [row for row in all_projects(world) if role_in(world, row.path, ME) is None]


def my_projects(world: World) -> Sequence[Project]:
    """Return the projects that are the agent's own, without forks."""
    return [row for row in world[PROJECTS].where(namespace=ME) if not row.forked_from]


def project_of(world: World, path: str) -> Project:
    """Return the project of a path; raises KeyError."""
    project = world[PROJECTS].get(path)
    if project is None:
        raise KeyError(path)
    return project


def people(world: World) -> Sequence[User]:
    """Return everybody but the agent."""
    return [user for user in world[USERS] if user.name != ME]


def issues(world: World, *, mine: bool = False, is_open: bool | None = True) -> Sequence[Issue]:
    """Return issues of public projects or of the agent's own; None = open and closed ones."""
    projects = my_projects(world) if mine else all_projects(world)
    paths = {project.path for project in projects}
    return [row for row in world[ISSUES] if row.path in paths and is_open in (None, row.open)]


def requests(world: World, *, mine: bool = False, state: str = "") -> Sequence[MergeRequest]:
    """Return merge requests, of states that are wanted, whose title is theirs alone there.

    `mine` leaves those of projects in which the agent may merge.
    """
    paths = {
        row.path for row in world[PROJECTS] if row.visibility == "public" or row.namespace == ME
    }
    rows = [row for row in world[MERGE_REQUESTS] if row.path in paths]
    titles = [(row.path, row.title) for row in rows]
    return [
        row
        for row in rows
        if titles.count((row.path, row.title)) == 1
        and state in ("", row.state)
        and (not mine or (role_in(world, row.path, ME) or Role.GUEST) >= Role.DEVELOPER)
    ]


def link_of(project: Project) -> Move:
    """Return the click on a project in a list of projects."""
    return ClickOn("link", f"{project.namespace} / {project.title}")


def find_project(project: Project) -> tuple[Move, ...]:
    """Return the moves from any page to a project."""
    query = f"{project.slug} {project.namespace}"
    return TypeInto("searchbox", "Search GitLab", query, enter=True), link_of(project)


def menu(project: Project, entry: str) -> tuple[Move, ...]:
    """Return the moves from any page to a page in a project's menu."""
    return *find_project(project), ClickOn("link", entry, int(entry in _TWICE))


def find_issue(world: World, issue: Issue) -> tuple[Move, ...]:
    """Return the moves from any page to an issue."""
    closed = () if issue.open else (ClickOn("link", "Closed"),)
    title = ClickOn("link", issue.title)
    return *menu(project_of(world, issue.path), "Issues"), *closed, title


def find_request(world: World, request: MergeRequest) -> tuple[Move, ...]:
    """Return the moves from any page to a merge request."""
    state = () if request.state == "opened" else (ClickOn("link", request.state.capitalize()),)
    title = ClickOn("link", request.title)
    return *menu(project_of(world, request.path), "Merge requests"), *state, title


def find_person(user: User) -> tuple[Move, ...]:
    """Return the moves from any page to somebody's profile."""
    return (
        TypeInto("searchbox", "Search GitLab", user.title, enter=True),
        ClickOn("link", "Users"),
        ClickOn("link", user.title),
    )


def change(intent: str, check: WorldCheck, *moves: Move) -> SiteTask:
    """Return the task of a change, from the first page on."""
    return SiteTask(intent=intent, start=START, check=check, plan=(*moves, Answer()))


def invite(user: User, role: Role) -> tuple[Move, ...]:
    """Return the moves on a page of members that add somebody."""
    return (
        TypeInto("textbox", "Username, several with commas", user.name),
        TypeInto("combobox", "Select a role", role.title),
        ClickOn("button", "Invite"),
    )
