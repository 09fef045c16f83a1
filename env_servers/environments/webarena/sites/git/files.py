"""Folders and files of a branch: read, raw, changed and added by forms."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.git.content import commit_id
from env_servers.environments.webarena.sites.git.frame import GIT, me, project_of
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    PROJECTS,
    Commit,
    File,
    Project,
    Role,
)
from env_servers.environments.webarena.sites.visit import Missing, Visit

__all__: list[str] = []

_P: Final = "/{namespace}/{slug}/-"
MAX_PATH: Final = 200


def _split(visit: Visit, project: Project) -> tuple[str, str]:
    """Return branch and path of an address; branches may have slashes."""
    rest = visit.parameters["rest"].rstrip("/")
    for branch in sorted(project.branches, key=len, reverse=True):
        if rest == branch:
            return branch, ""
        if rest.startswith(f"{branch}/"):
            return branch, rest.removeprefix(f"{branch}/")
    raise Missing


def _file(visit: Visit, project: Project) -> File:
    branch, name = _split(visit, project)
    found = visit.world[FILES].get(f"{project.path}@{branch}:{name}")
    if found is None:
        raise Missing
    return found


@GIT.page(f"{_P}/tree/{{rest:path}}")
def tree(visit: Visit) -> Response:
    """Show a folder."""
    project = project_of(visit)
    branch, folder = _split(visit, project)
    start = f"{folder}/" if folder else ""
    names = [
        row.name.removeprefix(start)
        for row in visit.world[FILES].where(path=project.path)
        if row.branch == branch and row.name.startswith(start)
    ]
    if not names and folder:
        raise Missing
    return visit.render(
        "tree.html",
        project=project,
        branch=branch,
        folder=folder,
        folders=sorted({name.partition("/")[0] for name in names if "/" in name}),
        files=sorted(name for name in names if "/" not in name),
    )


@GIT.page(f"{_P}/blob/{{rest:path}}")
def blob(visit: Visit) -> Response:
    """Show a file."""
    project = project_of(visit)
    file = _file(visit, project)
    commit = visit.world[COMMITS].get(file.commit)
    return visit.render("blob.html", project=project, file=file, commit=commit)


@GIT.page(f"{_P}/raw/{{rest:path}}")
def raw(visit: Visit) -> Response:
    """Answer with a file's text alone."""
    return visit.text(_file(visit, project_of(visit)).text)


@GIT.page(f"{_P}/edit/{{rest:path}}", signed_in=True)
def edit(visit: Visit) -> Response:
    """Show a file in a form."""
    project = project_of(visit, Role.DEVELOPER)
    file = _file(visit, project)
    return visit.render("edit.html", project=project, file=file, branch=file.branch, folder="")


@GIT.form(f"{_P}/edit/{{rest:path}}")
def save(visit: Visit) -> Response:
    """Commit a changed file."""
    project = project_of(visit, Role.DEVELOPER)
    file = _file(visit, project)
    return _commit(visit, project, file.branch, file.name, f"Update {file.name}")


@GIT.page(f"{_P}/new/{{rest:path}}", signed_in=True)
def new(visit: Visit) -> Response:
    """Show the form for a new file in a folder."""
    project = project_of(visit, Role.DEVELOPER)
    branch, folder = _split(visit, project)
    return visit.render("edit.html", project=project, file=None, branch=branch, folder=folder)


@GIT.form(f"{_P}/new/{{rest:path}}")
def create(visit: Visit) -> Response:
    """Commit a new file; its name may have folders in it."""
    project = project_of(visit, Role.DEVELOPER)
    branch, folder = _split(visit, project)
    typed = visit.form.text("name").strip("/")
    name = f"{folder}/{typed}" if folder else typed
    address = f"/{project.path}/-/new/{visit.parameters['rest']}"
    parts = typed.split("/")
    if not all(parts) or ".." in parts or len(name) > MAX_PATH or not typed.isprintable():
        return visit.redirect(address, "This is no name of a file.", failed=True)
    if visit.world[FILES].get(f"{project.path}@{branch}:{name}") is not None:
        return visit.redirect(address, "A file with this name already exists.", failed=True)
    return _commit(visit, project, branch, name, f"Add new file {name}")


def _commit(visit: Visit, project: Project, branch: str, name: str, title: str) -> Response:
    world, user = visit.world, me(visit)
    message = visit.form.text("message") or title
    texts = visit.form.all("text")
    number = commit_id(project.path, world.changes, name)
    when = world.now
    row = Commit(number, project.path, branch, user.name, user.email, message, when, (name,))
    world[COMMITS].put(row)
    key = f"{project.path}@{branch}:{name}"
    world[FILES].put(File(key, project.path, branch, name, texts[-1] if texts else "", number))
    world[PROJECTS].change(project.path, updated=world.now)
    return visit.redirect(
        f"/{project.path}/-/blob/{branch}/{name}", "Your changes have been successfully committed."
    )
