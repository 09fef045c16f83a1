"""Templates of code hosting that change projects, their members and files, groups and profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from env_servers.environments.webarena.sites.git.content import ME, vocabulary
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    FOLLOWS,
    GROUPS,
    MEMBERS,
    PROJECTS,
    STARS,
    USERS,
    Member,
    Project,
    Role,
    User,
)
from env_servers.environments.webarena.sites.people import TOWNS
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.tasks.changes import changed_rows, only_change
from env_servers.environments.webarena.tasks.git_places import (
    START,
    find_person,
    find_project,
    menu,
    my_projects,
    others_projects,
    people,
    project_of,
    replace_text,
    worded,
)
from env_servers.environments.webarena.tasks.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.tasks.site_task import SiteTask, WorldCheck
from env_servers.environments.webarena.tasks.template import Template

__all__ = ["TEMPLATES"]

_CREATE: Final = ClickOn("button", "Create project")


def _change(intent: str, check: WorldCheck, *moves: Move) -> SiteTask:
    return SiteTask(intent=intent, start=START, check=check, plan=(*moves, Answer()))


def _names(_: World) -> Sequence[str]:
    """Names that no project or group has."""
    nouns = vocabulary()["nouns"]
    return [f"{first}-{second}" for first, second in zip(nouns, nouns[7:], strict=False)][:40]


def _new_project(name: str, visibility: str) -> WorldCheck:
    def check(world: World) -> bool:
        row = only_change(world, PROJECTS)
        return row is not None and (row.path, row.visibility) == (f"{ME}/{name}", visibility)

    return check


def _private(_: World, name: str) -> SiteTask:
    intent = worded(
        name,
        f"Start a private project named {name}.",
        f"I need a new project {name} that nobody else can see.",
    )
    moves = ClickOn("link", "New project"), TypeInto("textbox", "Project name", name)
    return _change(intent, _new_project(name, "private"), *moves, _CREATE)


def _public(_: World, name: str) -> SiteTask:
    made = _new_project(name, "public")

    def check(world: World) -> bool:
        return made(world) and changed_rows(world, FILES) == []

    return _change(
        f"Create a public project {name} that is empty, without a README.",
        check,
        ClickOn("link", "New project"),
        TypeInto("textbox", "Project name", name),
        ClickOn("radio", "Public"),
        ClickOn("checkbox", "Initialize repository with a README"),
        _CREATE,
    )


def _teams(world: World) -> Sequence[tuple[str, User, Role]]:
    users, roles = people(world), (Role.REPORTER, Role.DEVELOPER, Role.MAINTAINER)
    return [
        (name, users[number * 5], roles[number % 3]) for number, name in enumerate(_names(world))
    ]


def _invite(user: User, role: Role) -> tuple[Move, ...]:
    return (
        TypeInto("textbox", "Username, several with commas", user.name),
        TypeInto("combobox", "Select a role", role.title),
        ClickOn("button", "Invite"),
    )


def _team_project(_: World, chosen: tuple[str, User, Role]) -> SiteTask:
    name, user, role = chosen
    made = _new_project(name, "private")

    def check(world: World) -> bool:
        rows = changed_rows(world, MEMBERS)
        others = [(row.path, row.user, row.role) for row in rows or () if row.user != ME]
        return made(world) and others == [(f"{ME}/{name}", user.name, role)]

    return _change(
        f"Make a private project {name} and let @{user.name} take part in it as a {role.title}.",
        check,
        ClickOn("link", "New project"),
        TypeInto("textbox", "Project name", name),
        _CREATE,
        ClickOn("link", "Members"),
        *_invite(user, role),
    )


def _group(_: World, chosen: tuple[str, User, Role]) -> SiteTask:
    name, user, role = f"{chosen[0]}-club", *chosen[1:]

    def check(world: World) -> bool:
        group = only_change(world, GROUPS)
        rows = changed_rows(world, MEMBERS)
        others = [(row.path, row.user, row.role) for row in rows or () if row.user != ME]
        return group is not None and group.name == name and others == [(name, user.name, role)]

    return _change(
        f"Create the group {name} and add @{user.name} to it as a {role.title}.",
        check,
        ClickOn("link", "New group"),
        TypeInto("textbox", "Group name", name, enter=True),
        ClickOn("link", "Group members"),
        *_invite(user, role),
    )


def _public_group(_: World, name: str) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, GROUPS)
        return row is not None and (row.name, row.visibility) == (f"{name}-guild", "public")

    return _change(
        f"Set up a group {name}-guild that everybody can see.",
        check,
        ClickOn("link", "New group"),
        TypeInto("textbox", "Group name", f"{name}-guild"),
        ClickOn("radio", "Public"),
        ClickOn("button", "Create group"),
    )


def _star(_: World, project: Project) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, STARS)
        return row is not None and (row.path, row.user) == (project.path, ME)

    intent = worded(
        project.path, f"Star the project {project.path}.", f"Give {project.path} a star of mine."
    )
    return _change(intent, check, *find_project(project), ClickOn("button", "Star"))


def _unstarred(world: World) -> Sequence[Project]:
    return [row for row in others_projects(world) if world[STARS].get(f"{row.path}@{ME}") is None]


def _fork(_: World, project: Project) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, PROJECTS)
        return row is not None and (row.namespace, row.forked_from) == (ME, project.path)

    intent = worded(
        project.path, f"Fork {project.path}.", f"I want a fork of {project.path} under my account."
    )
    clicks = ClickOn("link", "Fork"), ClickOn("button", "Fork project")
    return _change(intent, check, *find_project(project), *clicks)


def _renamed_fork(_: World, project: Project) -> SiteTask:
    slug = f"my-{project.slug}"

    def check(world: World) -> bool:
        row = only_change(world, PROJECTS)
        wanted = (f"{ME}/{slug}", project.path, "private")
        return row is not None and (row.path, row.forked_from, row.visibility) == wanted

    return _change(
        f"Make a private fork of {project.path} whose slug is {slug}.",
        check,
        *find_project(project),
        ClickOn("link", "Fork"),
        *replace_text("Project slug", slug),
        TypeInto("combobox", "Visibility level", "Private"),
        ClickOn("button", "Fork project"),
    )


def _unfollowed(world: World) -> Sequence[User]:
    return [user for user in people(world) if world[FOLLOWS].get(f"{ME}>{user.name}") is None]


def _follow(_: World, user: User) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, FOLLOWS)
        return row is not None and (row.user, row.followed) == (ME, user.name)

    intent = worded(
        user.name, f"Follow {user.title} on GitLab.", f"I want to follow {user.title} on GitLab."
    )
    return _change(intent, check, *find_person(user), ClickOn("button", "Follow"))


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
    moves = *menu(project, "Members"), *_invite(user, role)
    return _change(intent, _added(project.path, user, role), *moves)


def _invitation_by_name(_: World, chosen: tuple[Project, User, Role]) -> SiteTask:
    project, user, role = chosen
    return _change(
        f"{user.title} wants to see {project.path}. Find the account and invite it with the role"
        f" {role.title}.",
        _added(project.path, user, role),
        TypeInto("searchbox", "Search GitLab", user.title, enter=True),
        ClickOn("link", "Users"),
        *menu(project, "Members"),
        *_invite(user, role),
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

    return _change(
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

    return _change(
        f"@{member.user} has left the team: remove this account from {member.path}.",
        check,
        *menu(project_of(world, member.path), "Members"),
        ClickOn("button", "Remove member", _place(world, member)),
    )


def _parts(world: World) -> Sequence[tuple[Project, str]]:
    words = ("login", "export", "search", "manual")
    return [(project, word) for project in my_projects(world) for word in words]


def _branch(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, word = chosen
    name = f"topic/{word}"

    def check(world: World) -> bool:
        row = only_change(world, PROJECTS)
        return row is not None and row.branches == (*project.branches, name)

    typed = TypeInto("textbox", "Branch name", name, enter=True)
    intent = f"Create the branch {name} in {project.path}."
    return _change(intent, check, *menu(project, "Branches"), typed)


def _written(project: Project, name: str, text: str, message: str = "") -> WorldCheck:
    """Return whether a file alone changed, has a text, and maybe its commit a message."""

    def check(world: World) -> bool:
        row, commit = only_change(world, FILES), only_change(world, COMMITS)
        wanted = (project.path, project.branch, name, text)
        return (
            row is not None
            and commit is not None
            and (row.path, row.branch, row.name, row.text.strip()) == wanted
            and (not message or commit.title == message)
        )

    return check


def _new_file(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, word = chosen
    name, text = f"notes/{word}.txt", f"What we know about {word}"
    return _change(
        f"Add a folder notes to {project.path} (default branch) with a file {word}.txt in it that"
        f" says “{text}”.",
        _written(project, name, text),
        *find_project(project),
        ClickOn("link", "New file"),
        TypeInto("textbox", "Filename", name),
        TypeInto("textbox", "Content", text),
        ClickOn("button", "Commit changes"),
    )


def _edit_file(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, word = chosen
    name, text = "CONTRIBUTING.md", f"Write to the {word} team first."
    message = f"Point to the {word} team"
    return _change(
        f"Replace the whole text of {name} in {project.path} (default branch) with “{text}”, with"
        f" the commit message “{message}”.",
        _written(project, name, text, message),
        *find_project(project),
        ClickOn("link", name),
        ClickOn("link", "Edit"),
        *replace_text("Content", text),
        *replace_text("Commit message", message),
        ClickOn("button", "Commit changes"),
    )


def _settings(project: Project, field: str, value: str) -> WorldCheck:
    def check(world: World) -> bool:
        row = only_change(world, PROJECTS)
        return row is not None and row.path == project.path and getattr(row, field) == value

    return check


def _describe(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, word = chosen
    text = f"Now with a better {word}"
    return _change(
        f"Set the description of {project.path} to “{text}”.",
        _settings(project, "about", text),
        *menu(project, "Settings"),
        *replace_text("Project description", text),
        ClickOn("button", "Save changes"),
    )


def _rename(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, word = chosen
    title = f"The {word} project"
    return _change(
        f"Rename {project.path} in its settings; its new name is “{title}”.",
        _settings(project, "title", title),
        *menu(project, "Settings"),
        *replace_text("Project name", title),
        ClickOn("button", "Save changes"),
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

        return _change(
            entry.wish.format(text=text),
            check,
            ClickOn("link", "Edit profile"),
            *replace_text(entry.label, text),
            ClickOn("button", "Update profile settings"),
        )

    return Template(f"git.set_{entry.field}", texts, make)


def _busy(_: World, text: str) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, USERS)
        return row is not None and (row.name, row.busy, row.status) == (ME, True, text)

    return _change(
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
    Template("git.new_private_project", _names, _private),
    Template("git.new_empty_project", _names, _public),
    Template("git.new_team_project", _teams, _team_project),
    Template("git.new_group", _teams, _group),
    Template("git.new_public_group", _names, _public_group),
    Template("git.star", _unstarred, _star),
    Template("git.fork", others_projects, _fork),
    Template("git.private_fork", others_projects, _renamed_fork),
    Template("git.follow", _unfollowed, _follow),
    Template("git.invite", _invitations, _invitation),
    Template("git.invite_by_name", _invitations, _invitation_by_name),
    Template("git.change_role", _my_members, _promote),
    Template("git.remove_member", _my_members, _dismiss),
    Template("git.new_branch", _parts, _branch),
    Template("git.new_file", _parts, _new_file),
    Template("git.edit_file", _parts, _edit_file),
    Template("git.describe", _parts, _describe),
    Template("git.rename", _parts, _rename),
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
