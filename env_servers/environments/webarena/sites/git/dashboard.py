"""Lists over all projects: explore, one's own work, search, and what is new: projects, groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.git.content import commit_id
from env_servers.environments.webarena.sites.git.filtering import matching, state_of
from env_servers.environments.webarena.sites.git.frame import (
    GIT,
    ROLES,
    invite,
    me,
    member_projects,
    named,
    require,
    seen_projects,
    stars_of,
)
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    GROUPS,
    ISSUES,
    MEMBERS,
    MERGE_REQUESTS,
    PROJECTS,
    STARS,
    TODOS,
    USERS,
    Commit,
    File,
    Group,
    Member,
    Project,
    Role,
)
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__: list[str] = []

_PER_PAGE: Final = 20
_SORTS: Final = (
    ("latest_activity_desc", "Updated date"),
    ("created_desc", "Created date"),
    ("name_asc", "Name"),
    ("stars_desc", "Most stars"),
)
_VISIBILITIES: Final = ("private", "public")
_SCOPES: Final = ("projects", "issues", "merge_requests", "users")


@GIT.page("/")
def front(visit: Visit) -> Response:
    """Lead to one's own projects, or to all."""
    return visit.redirect("/dashboard/projects" if visit.account else "/explore")


@GIT.page("/explore", "/explore/projects")
def explore(visit: Visit) -> Response:
    """Show all projects."""
    return _projects(visit, "Explore projects", seen_projects(visit))


@GIT.page("/dashboard", "/dashboard/projects", signed_in=True)
def own_projects(visit: Visit) -> Response:
    """Show the projects that one is a member of."""
    return _projects(visit, "Your projects", member_projects(visit.world, visit.account))


@GIT.page("/dashboard/projects/starred", signed_in=True)
def starred(visit: Visit) -> Response:
    """Show the projects that one has starred."""
    paths = {star.path for star in visit.world[STARS].where(user=visit.account)}
    found = [project for project in seen_projects(visit) if project.path in paths]
    return _projects(visit, "Starred projects", found)


def _projects(visit: Visit, heading: str, projects: Sequence[Project]) -> Response:
    world, wanted = visit.world, visit.query.text("name").casefold()
    sort = visit.query.choice("sort", [name for name, _ in _SORTS], _SORTS[0][0])
    language = visit.query.text("language")
    found = [
        project
        for project in projects
        if wanted in project.path.casefold() and language in ("", project.language)
    ]
    keys: dict[str, Callable[[Project], Any]] = {
        "latest_activity_desc": lambda row: -row.updated.timestamp(),
        "created_desc": lambda row: -row.created.timestamp(),
        "name_asc": lambda row: row.title.casefold(),
        "stars_desc": lambda row: -stars_of(world, row.path),
    }
    page = cut(sorted(found, key=keys[sort]), visit.query.number("page", 1), _PER_PAGE)
    stars = {project.path: stars_of(world, project.path) for project in page.items}
    languages = sorted({project.language for project in projects})
    return visit.render(
        "projects.html",
        heading=heading,
        found=page,
        stars=stars,
        sorts=_SORTS,
        sort=sort,
        languages=[("", "Any language"), *((name, name) for name in languages)],
    )


@GIT.page("/dashboard/issues", signed_in=True)
def own_issues(visit: Visit) -> Response:
    """Show issues of all projects, by default those that are assigned to oneself."""
    paths = {project.path for project in seen_projects(visit)}
    rows = [row for row in visit.world[ISSUES] if row.path in paths]
    found = matching(visit, rows, own="assignee_username")
    page = cut(found, visit.query.number("page", 1), _PER_PAGE)
    return visit.render(
        "issues.html", project=None, found=page, state=state_of(visit), heading="Issues"
    )


@GIT.page("/dashboard/merge_requests", signed_in=True)
def own_requests(visit: Visit) -> Response:
    """Show merge requests of all projects, by default those that are assigned to oneself."""
    paths = {project.path for project in seen_projects(visit)}
    rows = [row for row in visit.world[MERGE_REQUESTS] if row.path in paths]
    found = matching(visit, rows, own="assignee_username")
    page = cut(found, visit.query.number("page", 1), _PER_PAGE)
    return visit.render("merge_requests.html", project=None, found=page, state=state_of(visit))


@GIT.page("/dashboard/todos", signed_in=True)
def todos(visit: Visit) -> Response:
    """Show what waits for the user."""
    done = visit.query.text("state") == "done"
    found = [todo for todo in visit.world[TODOS].where(user=visit.account) if todo.done is done]
    return visit.render("todos.html", todos=found, done=done)


@GIT.form("/dashboard/todos/{number:int}")
def finish_todo(visit: Visit) -> Response:
    """Mark a to-do item as done."""
    todo = visit.world[TODOS].get(visit.parameters["number"])
    if todo is None or todo.user != visit.account:
        raise Missing
    visit.world[TODOS].change(todo.id, done=True)
    return visit.redirect("/dashboard/todos", "The to-do item was marked as done.")


@GIT.page("/search")
def search(visit: Visit) -> Response:
    """Search projects, issues, merge requests or users."""
    query = visit.query.text("search")
    scope = visit.query.choice("scope", _SCOPES, _SCOPES[0])
    paths = {project.path for project in seen_projects(visit)}
    world = visit.world
    rows: list[Any]
    if scope == "projects":
        rows = [row for row in world[PROJECTS].search(query) if row.path in paths]
    elif scope == "users":
        rows = [*world[USERS].search(query)]
    else:
        tables = {"issues": ISSUES, "merge_requests": MERGE_REQUESTS}
        rows = [row for row in world[tables[scope]].search(query) if row.path in paths]
    page = cut(rows, visit.query.number("page", 1), _PER_PAGE)
    return visit.render("search.html", query=query, scope=scope, scopes=_SCOPES, found=page)


@GIT.page("/projects/new", signed_in=True)
def new_project(visit: Visit) -> Response:
    """Show the form for a new project."""
    groups = [
        member.path
        for member in visit.world[MEMBERS].where(user=visit.account)
        if "/" not in member.path and member.role >= Role.DEVELOPER
    ]
    namespaces = [(name, name) for name in (visit.account, *groups)]
    return visit.render("new_project.html", namespaces=namespaces, visibilities=_VISIBILITIES)


@GIT.form("/projects")
def create_project(visit: Visit) -> Response:
    """Make a project, with a README if it is wanted."""
    form, world = visit.form, visit.world
    title, namespace = form.text("title"), form.text("namespace", visit.account)
    slug = named(form.text("slug") or title)
    path = f"{namespace}/{slug}"
    if namespace != visit.account:
        require(visit, namespace, Role.DEVELOPER)
    problem = "Say a name of letters, digits, dashes and dots." if not slug else ""
    if world[PROJECTS].get(path) is not None:
        problem = "The path has already been taken."
    if problem:
        return visit.redirect("/projects/new", problem, failed=True)
    project = Project(
        path=path,
        namespace=namespace,
        slug=slug,
        title=title or slug,
        about=form.text("about"),
        visibility=form.choice("visibility", _VISIBILITIES, "private"),
        branches=("main",),
        created=world.now,
        updated=world.now,
        language="",
    )
    world[PROJECTS].put(project)
    own = Member(f"{path}@{visit.account}", path, visit.account, Role.OWNER, world.now.date())
    world[MEMBERS].put(own)
    if "readme" in form:
        _add_readme(visit, world, project)
    return visit.redirect(f"/{path}", f"Project '{project.title}' was successfully created.")


def _add_readme(visit: Visit, world: World, project: Project) -> None:
    user, name = me(visit), "README.md"
    number = commit_id(project.path, 0)
    world[COMMITS].put(
        Commit(
            number,
            project.path,
            project.branch,
            user.name,
            user.email,
            "Initial commit",
            world.now,
            (name,),
        )
    )
    text = f"# {project.title}\n\n{project.about}\n"
    key = f"{project.path}@{project.branch}:{name}"
    world[FILES].put(File(key, project.path, project.branch, name, text, number))


@GIT.page("/groups/new", signed_in=True)
def new_group(visit: Visit) -> Response:
    """Show the form for a new group."""
    return visit.render("new_group.html", visibilities=_VISIBILITIES)


@GIT.form("/groups")
def create_group(visit: Visit) -> Response:
    """Make a group."""
    form, world = visit.form, visit.world
    name = named(form.text("path") or form.text("title"))
    taken = world[GROUPS].get(name) is not None or world[USERS].get(name) is not None
    if not name or taken:
        problem = "The path has already been taken." if taken else "Say a name for the group."
        return visit.redirect("/groups/new", problem, failed=True)
    visibility = form.choice("visibility", _VISIBILITIES, "private")
    world[GROUPS].put(Group(name, form.text("title") or name, form.text("about"), visibility))
    own = Member(f"{name}@{visit.account}", name, visit.account, Role.OWNER, world.now.date())
    world[MEMBERS].put(own)
    return visit.redirect(f"/{name}", f"Group '{name}' was successfully created.")


@GIT.page("/groups/{name}/-/group_members")
def group_members(visit: Visit) -> Response:
    """Show who belongs to a group."""
    group = _group(visit)
    members = visit.world[MEMBERS].where(path=group.name)
    return visit.render("members.html", owner=group.name, members=members, roles=ROLES, group=True)


@GIT.form("/groups/{name}/-/group_members")
def invite_to_group(visit: Visit) -> Response:
    """Add users to a group."""
    group = _group(visit)
    require(visit, group.name, Role.OWNER)
    problem = invite(visit, group.name)
    address = f"/groups/{group.name}/-/group_members"
    return visit.redirect(address, problem or "Members were added.", failed=bool(problem))


def _group(visit: Visit) -> Group:
    group = visit.world[GROUPS].get(visit.parameters["name"])
    if group is None:
        raise Missing
    return group
