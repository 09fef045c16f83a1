"""Templates of code hosting that make projects and groups, and change projects and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from env_servers.environments.webarena.sites.git.content import ME, vocabulary
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    GROUPS,
    MEMBERS,
    PROJECTS,
    STARS,
    Project,
    Role,
    User,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.changes import changed_rows, only_change
from env_servers.environments.webarena.templates.git_places import (
    change,
    find_project,
    invite,
    menu,
    my_projects,
    others_projects,
    people,
)
from env_servers.environments.webarena.templates.plan import ClickOn, TypeInto, refill
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck, worded
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_CREATE: Final = ClickOn("button", "Create project")


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
    return change(intent, _new_project(name, "private"), *moves, _CREATE)


def _public(_: World, name: str) -> SiteTask:
    made = _new_project(name, "public")

    def check(world: World) -> bool:
        return made(world) and changed_rows(world, FILES) == []

    return change(
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


def _team_project(_: World, chosen: tuple[str, User, Role]) -> SiteTask:
    name, user, role = chosen
    made = _new_project(name, "private")

    def check(world: World) -> bool:
        rows = changed_rows(world, MEMBERS)
        others = [(row.path, row.user, row.role) for row in rows or () if row.user != ME]
        return made(world) and others == [(f"{ME}/{name}", user.name, role)]

    return change(
        f"Make a private project {name} and let @{user.name} take part in it as a {role.title}.",
        check,
        ClickOn("link", "New project"),
        TypeInto("textbox", "Project name", name),
        _CREATE,
        ClickOn("link", "Members"),
        *invite(user, role),
    )


def _group(_: World, chosen: tuple[str, User, Role]) -> SiteTask:
    name, user, role = f"{chosen[0]}-club", *chosen[1:]

    def check(world: World) -> bool:
        group = only_change(world, GROUPS)
        rows = changed_rows(world, MEMBERS)
        others = [(row.path, row.user, row.role) for row in rows or () if row.user != ME]
        return group is not None and group.name == name and others == [(name, user.name, role)]

    return change(
        f"Create the group {name} and add @{user.name} to it as a {role.title}.",
        check,
        ClickOn("link", "New group"),
        TypeInto("textbox", "Group name", name, enter=True),
        ClickOn("link", "Group members"),
        *invite(user, role),
    )


def _public_group(_: World, name: str) -> SiteTask:
    def check(world: World) -> bool:
        row = only_change(world, GROUPS)
        return row is not None and (row.name, row.visibility) == (f"{name}-guild", "public")

    return change(
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
    return change(intent, check, *find_project(project), ClickOn("button", "Star"))


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
    return change(intent, check, *find_project(project), *clicks)


def _renamed_fork(_: World, project: Project) -> SiteTask:
    slug = f"my-{project.slug}"

    def check(world: World) -> bool:
        row = only_change(world, PROJECTS)
        wanted = (f"{ME}/{slug}", project.path, "private")
        return row is not None and (row.path, row.forked_from, row.visibility) == wanted

    return change(
        f"Make a private fork of {project.path} whose slug is {slug}.",
        check,
        *find_project(project),
        ClickOn("link", "Fork"),
        *refill("textbox", "Project slug", slug),
        TypeInto("combobox", "Visibility level", "Private"),
        ClickOn("button", "Fork project"),
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
    return change(intent, check, *menu(project, "Branches"), typed)


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
    return change(
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
    return change(
        f"Replace the whole text of {name} in {project.path} (default branch) with “{text}”, with"
        f" the commit message “{message}”.",
        _written(project, name, text, message),
        *find_project(project),
        ClickOn("link", name),
        ClickOn("link", "Edit"),
        *refill("textbox", "Content", text),
        *refill("textbox", "Commit message", message),
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
    return change(
        f"Set the description of {project.path} to “{text}”.",
        _settings(project, "about", text),
        *menu(project, "Settings"),
        *refill("textbox", "Project description", text),
        ClickOn("button", "Save changes"),
    )


def _rename(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, word = chosen
    title = f"The {word} project"
    return change(
        f"Rename {project.path} in its settings; its new name is “{title}”.",
        _settings(project, "title", title),
        *menu(project, "Settings"),
        *refill("textbox", "Project name", title),
        ClickOn("button", "Save changes"),
    )


TEMPLATES: Final[tuple[Template[Any], ...]] = (
    Template("git.new_private_project", _names, _private),
    Template("git.new_empty_project", _names, _public),
    Template("git.new_team_project", _teams, _team_project),
    Template("git.new_group", _teams, _group),
    Template("git.new_public_group", _names, _public_group),
    Template("git.star", _unstarred, _star),
    Template("git.fork", others_projects, _fork),
    Template("git.private_fork", others_projects, _renamed_fork),
    Template("git.new_branch", _parts, _branch),
    Template("git.new_file", _parts, _new_file),
    Template("git.edit_file", _parts, _edit_file),
    Template("git.describe", _parts, _describe),
    Template("git.rename", _parts, _rename),
)
