"""Templates of code hosting about people: members of projects, who is followed, one's profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from env_servers.environments.webarena.sites.git.content import ME, vocabulary
from env_servers.environments.webarena.sites.git.rows import (
    FOLLOWS,
    MEMBERS,
    USERS,
    Member,
    Project,
    Role,
    User,
)
from env_servers.environments.webarena.sites.people import TOWNS
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.changes import only_change
from env_servers.environments.webarena.templates.git_places import (
    change,
    find_person,
    invite,
    menu,
    my_projects,
    people,
    project_of,
)
from env_servers.environments.webarena.templates.plan import ClickOn, TypeInto, refill
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck, worded
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]


def _unfollowed(world: World) -> Sequence[User]:
    return [user for user in people(world) if world[FOLLOWS].get(f"{ME}>{user.name}") is None]


def _follow(_: World, user: User) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, FOLLOWS)
        return row is not None and (row.user, row.followed) == (ME, user.name)

    intent = worded(
        user.name, f"Follow {user.title} on GitLab.", f"I want to follow {user.title} on GitLab."
    )
    return change(intent, check, *find_person(user), ClickOn("button", "Follow"))


def _invitations(world: World) -> Sequence[tuple[Project, User, Role]]:
    projects, roles = my_projects(world), list(Role)[:4]
    found: list[tuple[Project, User, Role]] = []
    for number, user in enumerate(people(world)[::6]):
        project = projects[number % len(projects)]
        if world[MEMBERS].get(f"{project.path}@{user.name}") is None:
            found.append((project, user, roles[number % 4]))
    return found


def _added(path: str, user: User, role: Role) -> WorldCheck:
    def check(world: World) -> bool:
        row = only_change(world, MEMBERS)
        return row is not None and (row.path, row.user, row.role) == (path, user.name, role)

    return check


def _invitation(_: World, chosen: tuple[Project, User, Role]) -> SiteTask:
    project, user, role = chosen
    intent = worded(
        user.name,
        f"Invite @{user.name} to {project.path} as a {role.title}.",
        f"Add @{user.name} to my project {project.path} with the role {role.title}.",
    )
    moves = *menu(project, "Members"), *invite(user, role)
    return change(intent, _added(project.path, user, role), *moves)


def _invitation_by_name(_: World, chosen: tuple[Project, User, Role]) -> SiteTask:
    project, user, role = chosen
    return change(
        f"{user.title} wants to see {project.path}. Find the account and invite it with the role"
        f" {role.title}.",
        _added(project.path, user, role),
        TypeInto("searchbox", "Search GitLab", user.title, enter=True),
        ClickOn("link", "Users"),
        *menu(project, "Members"),
        *invite(user, role),
    )


def _my_members(world: World) -> Sequence[Member]:
    """Return the members of the agent's projects who are not their owners."""
    paths = {project.path for project in my_projects(world)}
    return [row for row in world[MEMBERS] if row.path in paths and row.role is not Role.OWNER]


def _place(world: World, member: Member) -> int:
    """Return where a member stands among those who can be changed."""
    rows = world[MEMBERS].where(path=member.path)
    rows = [row for row in sorted(rows, key=lambda r: (-r.role, r.user)) if row.role < Role.OWNER]
    return rows.index(member)


def _promote(world: World, member: Member) -> SiteTask:
    role = Role.DEVELOPER if member.role is not Role.DEVELOPER else Role.MAINTAINER

    def check(world: World) -> bool:
        row = only_change(world, MEMBERS)
        return row is not None and (row.id, row.role) == (member.id, role)

    return change(
        f"Change the role of @{member.user} in {member.path} to {role.title}.",
        check,
        *menu(project_of(world, member.path), "Members"),
        TypeInto("combobox", f"Role of {member.user}", role.title),
        ClickOn("button", "Update", _place(world, member)),
    )


def _dismiss(world: World, member: Member) -> SiteTask:
    count = len(world[MEMBERS])

    def check(world: World) -> bool:
        return world[MEMBERS].get(member.id) is None and len(world[MEMBERS]) == count - 1

    return change(
        f"@{member.user} has left the team: remove this account from {member.path}.",
        check,
        *menu(project_of(world, member.path), "Members"),
        ClickOn("button", "Remove member", _place(world, member)),
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A field of one's own profile, and how it is written and asked for."""

    field: str
    label: str
    wish: str


def _profile(entry: _Entry, texts: Callable[[World], Sequence[str]]) -> Template[str]:
    """Return the template of a change of one's own profile."""

    def make(before: World, text: str) -> SiteTask:
        old = before[USERS].get(ME)

        def check(world: World) -> bool:
            row = only_change(world, USERS)
            return row is not None and all(
                getattr(row, each.name) == (text if each.name == entry.field else same)
                for each in fields(User)
                for same in (getattr(old, each.name),)
            )

        return change(
            entry.wish.format(text=text),
            check,
            ClickOn("link", "Edit profile"),
            *refill("textbox", entry.label, text),
            ClickOn("button", "Update profile settings"),
        )

    return Template(f"git.set_{entry.field}", texts, make)


def _busy(_: World, text: str) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, USERS)
        return row is not None and (row.name, row.busy, row.status) == (ME, True, text)

    return change(
        f"Show on GitLab that I am busy, with the status “{text}”.",
        check,
        ClickOn("link", "Edit profile"),
        TypeInto("textbox", "Your status", text),
        ClickOn("checkbox", "Set yourself as busy"),
        ClickOn("button", "Update profile settings"),
    )


def _nouns(form: str) -> Callable[[World], Sequence[str]]:
    return lambda world: [form.format(noun) for noun in vocabulary()["nouns"]]


_WEBSITE: Final = "Put the website {text} on my GitLab profile."
TEMPLATES: Final[tuple[Template[Any], ...]] = (
    Template("git.follow", _unfollowed, _follow),
    Template("git.invite", _invitations, _invitation),
    Template("git.invite_by_name", _invitations, _invitation_by_name),
    Template("git.change_role", _my_members, _promote),
    Template("git.remove_member", _my_members, _dismiss),
    _profile(
        _Entry("status", "Your status", "Set my status on GitLab to “{text}”."),
        _nouns("Working on the {}"),
    ),
    _profile(_Entry("website", "Website url", _WEBSITE), _nouns("http://my-{}.example")),
    _profile(
        _Entry("location", "Location", "I have moved to {text}. Say so on my GitLab profile."),
        lambda world: [f"{town}, {state}" for town, state, *_ in TOWNS if town != "Springfield"],
    ),
    _profile(
        _Entry("organisation", "Organization", "I work for {text} now: enter it on GitLab."),
        _nouns("The {} company"),
    ),
    _profile(
        _Entry("bio", "Bio", "Make my bio on GitLab say “{text}”."), _nouns("I like a good {}")
    ),
    Template("git.set_busy", _nouns("Busy with the {}"), _busy),
)
