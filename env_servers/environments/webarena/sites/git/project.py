"""A project: its front page, members, stars, forks, branches, history and settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.git.content import commit_id
from env_servers.environments.webarena.sites.git.frame import (
    GIT,
    ROLES,
    invite,
    named,
    project_of,
    stars_of,
)
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    ISSUES,
    MEMBERS,
    MERGE_REQUESTS,
    PROJECTS,
    STARS,
    USERS,
    Commit,
    Member,
    Project,
    Role,
    Star,
)
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.visit import Missing, Refused, Visit

__all__: list[str] = []

_P: Final = "/{namespace}/{slug}"
_PER_PAGE: Final = 40


def history(visit: Visit, project: Project) -> list[Commit]:
    """Return a project's commits, newest first."""
    commits = visit.world[COMMITS].where(path=project.path)
    return sorted(commits, key=lambda row: (row.created, row.id), reverse=True)


@GIT.page(_P)
def front(visit: Visit) -> Response:
    """Show what a project is and has."""
    project, world = project_of(visit), visit.world
    files = [row for row in world[FILES].where(path=project.path) if row.branch == project.branch]
    readme = next((row for row in files if row.name == "README.md"), None)
    commits = history(visit, project)
    return visit.render(
        "project.html",
        project=project,
        entries=sorted({row.name.partition("/")[0] for row in files}),
        folders={row.name.partition("/")[0] for row in files if "/" in row.name},
        readme=readme,
        commits=len(commits),
        newest=commits[0] if commits else None,
        stars=stars_of(world, project.path),
        forks=len(world[PROJECTS].where(forked_from=project.path)),
        starred=world[STARS].get(f"{project.path}@{visit.account}") is not None,
        open_issues=sum(row.open for row in world[ISSUES].where(path=project.path)),
        open_requests=sum(
            row.state == "opened" for row in world[MERGE_REQUESTS].where(path=project.path)
        ),
    )


@GIT.form(f"{_P}/toggle_star")
def toggle_star(visit: Visit) -> Response:
    """Star a project, or take the star away."""
    project = project_of(visit)
    key = f"{project.path}@{visit.account}"
    if visit.world[STARS].get(key) is None:
        visit.world[STARS].put(Star(key, project.path, visit.account))
    else:
        visit.world[STARS].remove(key)
    return visit.redirect(f"/{project.path}")


@GIT.page(f"{_P}/-/starrers")
def starrers(visit: Visit) -> Response:
    """Show who starred a project."""
    project = project_of(visit)
    names = [star.user for star in visit.world[STARS].where(path=project.path)]
    found = cut(sorted(names), visit.query.number("page", 1), _PER_PAGE)
    return visit.render("names.html", project=project, heading="Starrers", found=found)


@GIT.page(f"{_P}/-/forks")
def forks(visit: Visit) -> Response:
    """Show the forks of a project."""
    project = project_of(visit)
    paths = [row.path for row in visit.world[PROJECTS].where(forked_from=project.path)]
    found = cut(paths, visit.query.number("page", 1), _PER_PAGE)
    return visit.render("names.html", project=project, heading="Forks", found=found)


@GIT.page(f"{_P}/-/forks/new", signed_in=True)
def ask_fork(visit: Visit) -> Response:
    """Show the form that forks a project."""
    return visit.render("fork.html", project=project_of(visit))


@GIT.form(f"{_P}/-/forks")
def fork(visit: Visit) -> Response:
    """Copy a project into one's own namespace."""
    source, world = project_of(visit), visit.world
    slug = named(visit.form.text("slug") or source.slug)
    path = f"{visit.account}/{slug}"
    if not slug or world[PROJECTS].get(path) is not None:
        address = f"/{source.path}/-/forks/new"
        return visit.redirect(address, "The path has already been taken.", failed=True)
    copy = replace(
        source,
        path=path,
        namespace=visit.account,
        slug=slug,
        title=slug,
        visibility=visit.form.choice("visibility", ("public", "private"), source.visibility),
        forked_from=source.path,
        created=world.now,
        updated=world.now,
    )
    world[PROJECTS].put(copy)
    own = Member(f"{path}@{visit.account}", path, visit.account, Role.OWNER, world.now.date())
    world[MEMBERS].put(own)
    names = {row.id: commit_id(path, row.id) for row in world[COMMITS].where(path=source.path)}
    for commit in world[COMMITS].where(path=source.path):
        world[COMMITS].put(replace(commit, id=names[commit.id], path=path))
    for row in world[FILES].where(path=source.path):
        key = f"{path}@{row.branch}:{row.name}"
        world[FILES].put(replace(row, id=key, path=path, commit=names.get(row.commit, row.commit)))
    return visit.redirect(f"/{path}", "The project was successfully forked.")


@GIT.page(f"{_P}/-/project_members")
def members(visit: Visit) -> Response:
    """Show who belongs to a project."""
    project = project_of(visit)
    rows = sorted(
        visit.world[MEMBERS].where(path=project.path), key=lambda row: (-row.role, row.user)
    )
    return visit.render(
        "members.html",
        project=project,
        owner=project.path,
        members=rows,
        roles=ROLES,
        group=False,
    )


@GIT.form(f"{_P}/-/project_members")
def invite_members(visit: Visit) -> Response:
    """Add users to a project."""
    project = project_of(visit, Role.MAINTAINER)
    problem = invite(visit, project.path)
    address = f"/{project.path}/-/project_members"
    return visit.redirect(address, problem or "Members were added.", failed=bool(problem))


@GIT.form(f"{_P}/-/project_members/{{user}}")
def change_member(visit: Visit) -> Response:
    """Give a member another role, or remove the member."""
    project = project_of(visit, Role.MAINTAINER)
    key = f"{project.path}@{visit.parameters['user']}"
    member = visit.world[MEMBERS].get(key)
    if member is None:
        raise Missing
    if member.role is Role.OWNER:
        raise Refused("The owner of a project stays its owner.")
    if "remove" in visit.form:
        visit.world[MEMBERS].remove(key)
    else:
        chosen = visit.form.choice("role", [value for value, _ in ROLES], str(member.role.value))
        visit.world[MEMBERS].change(key, role=Role(int(chosen)))
    return visit.redirect(f"/{project.path}/-/project_members", "Members were changed.")


@GIT.page(f"{_P}/-/commits", f"{_P}/-/commits/{{branch:path}}")
def commits(visit: Visit) -> Response:
    """Show the history; of other branches than the default one it is the same."""
    project = project_of(visit)
    author = visit.query.text("author")
    words = visit.query.text("search").casefold()
    found = [
        row
        for row in history(visit, project)
        if author in ("", row.author) and words in row.title.casefold()
    ]
    page = cut(found, visit.query.number("page", 1), _PER_PAGE)
    return visit.render("commits.html", project=project, found=page)


@GIT.page(f"{_P}/-/commit/{{number}}")
def commit(visit: Visit) -> Response:
    """Show one commit; its number may be cut after eight digits."""
    project, number = project_of(visit), visit.parameters["number"]
    if len(number) < 8:
        raise Missing
    found = [row for row in history(visit, project) if row.id.startswith(number)]
    if not found:
        raise Missing
    return visit.render("commit.html", project=project, commit=found[0])


@GIT.page(f"{_P}/-/graphs/{{branch:path}}")
def contributors(visit: Visit) -> Response:
    """Show how many commits each author made."""
    project = project_of(visit)
    counts = Counter((row.author, row.email) for row in history(visit, project))
    users = visit.world[USERS]
    rows = [
        (users.get(name), email, number)
        for (name, email), number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return visit.render("contributors.html", project=project, rows=rows)


@GIT.page(f"{_P}/-/branches")
def branches(visit: Visit) -> Response:
    """Show the branches."""
    return visit.render("branches.html", project=project_of(visit))


@GIT.form(f"{_P}/-/branches")
def create_branch(visit: Visit) -> Response:
    """Make a branch from the default one."""
    project, world = project_of(visit, Role.DEVELOPER), visit.world
    name = visit.form.text("name")[:80]
    address = f"/{project.path}/-/branches"
    parts = name.split("/")
    if not all(parts) or not all(named(part) == part for part in parts):
        return visit.redirect(address, "This is no name of a branch.", failed=True)
    if name in project.branches:
        return visit.redirect(address, "The branch already exists.", failed=True)
    for row in world[FILES].where(path=project.path):
        if row.branch == project.branch:
            key = f"{project.path}@{name}:{row.name}"
            world[FILES].put(replace(row, id=key, branch=name))
    world[PROJECTS].change(project.path, branches=(*project.branches, name))
    return visit.redirect(address, f"Branch {name} was created.")


@GIT.page(f"{_P}/edit", signed_in=True)
def settings(visit: Visit) -> Response:
    """Show a project's settings."""
    return visit.render("project_settings.html", project=project_of(visit, Role.MAINTAINER))


@GIT.form(f"{_P}/edit")
def save_settings(visit: Visit) -> Response:
    """Change name, description and visibility; the address stays."""
    project, form = project_of(visit, Role.MAINTAINER), visit.form
    visit.world[PROJECTS].change(
        project.path,
        title=form.text("title") or project.title,
        about=form.text("about"),
        visibility=form.choice("visibility", ("public", "private"), project.visibility),
    )
    return visit.redirect(f"/{project.path}/edit", "Project was successfully updated.")


@GIT.form(f"{_P}/delete")
def delete(visit: Visit) -> Response:
    """Delete a project whose path was typed again."""
    project, world = project_of(visit, Role.OWNER), visit.world
    if visit.form.text("confirm") != project.path:
        address = f"/{project.path}/edit"
        return visit.redirect(address, "Type the path to confirm.", failed=True)
    world[PROJECTS].remove(project.path)
    return visit.redirect("/dashboard/projects", f"Project '{project.title}' was deleted.")
