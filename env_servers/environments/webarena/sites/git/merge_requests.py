"""Merge requests of a project."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.git.content import commit_id
from env_servers.environments.webarena.sites.git.filtering import SORTS, matching, state_of
from env_servers.environments.webarena.sites.git.frame import GIT, me, project_of, role_in
from env_servers.environments.webarena.sites.git.issues import (
    add_note,
    chosen_labels,
    chosen_users,
    label_choices,
    user_choices,
)
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    MERGE_REQUESTS,
    NOTES,
    Commit,
    MergeRequest,
    Project,
    Role,
)
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.visit import Missing, Refused, Visit

__all__: list[str] = []

_P: Final = "/{namespace}/{slug}/-/merge_requests"
_PER_PAGE: Final = 20


@GIT.page(_P)
def listed(visit: Visit) -> Response:
    """Show a project's merge requests."""
    project = project_of(visit)
    found = matching(visit, visit.world[MERGE_REQUESTS].where(path=project.path))
    page = cut(found, visit.query.number("page", 1), _PER_PAGE)
    return visit.render(
        "merge_requests.html", project=project, found=page, state=state_of(visit), sorts=SORTS
    )


@GIT.page(f"{_P}/new", signed_in=True)
def new(visit: Visit) -> Response:
    """Show the form for a new merge request."""
    project = project_of(visit, Role.DEVELOPER)
    return visit.render("request_form.html", project=project, request=None, **_all(visit, project))


def _all(visit: Visit, project: Project) -> dict[str, Any]:
    return {
        "labels": label_choices(visit, project),
        "users": user_choices(visit, project),
        "branches": [(name, name) for name in project.branches],
    }


@GIT.form(_P)
def create(visit: Visit) -> Response:
    """Make a merge request."""
    project, world, form = project_of(visit, Role.DEVELOPER), visit.world, visit.form
    source = form.choice("source", project.branches, "")
    target = form.choice("target", project.branches, project.branch)
    if not source or source == target or not form.text("title"):
        address = f"/{project.path}/-/merge_requests/new"
        return visit.redirect(address, "Choose two branches and a title.", failed=True)
    rows = world[MERGE_REQUESTS]
    number = max((row.iid for row in rows.where(path=project.path)), default=0) + 1
    rows.put(
        MergeRequest(
            id=f"{project.path}!{number}",
            path=project.path,
            iid=number,
            title=form.text("title"),
            text=form.text("text"),
            author=visit.account,
            assignees=chosen_users(visit, project, "assignees"),
            reviewers=chosen_users(visit, project, "reviewers"),
            labels=chosen_labels(visit, project),
            source=source,
            target=target,
            state="opened",
            created=world.now,
            updated=world.now,
        )
    )
    return visit.redirect(f"/{project.path}/-/merge_requests/{number}")


def _request(visit: Visit, project: Project) -> MergeRequest:
    found = visit.world[MERGE_REQUESTS].get(f"{project.path}!{visit.parameters['number']}")
    if found is None:
        raise Missing
    return found


@GIT.page(f"{_P}/{{number:int}}")
def show(visit: Visit) -> Response:
    """Show a merge request with its comments."""
    project = project_of(visit)
    found = _request(visit, project)
    notes = visit.world[NOTES].where(on=found.id)
    return visit.render("merge_request.html", project=project, request=found, notes=notes)


@GIT.form(f"{_P}/{{number:int}}/notes")
def comment(visit: Visit) -> Response:
    """Comment on a merge request."""
    project = project_of(visit)
    found = _request(visit, project)
    address = f"/{project.path}/-/merge_requests/{found.iid}"
    if not add_note(visit, found.id):
        return visit.redirect(address, "A comment can't be blank.", failed=True)
    visit.world[MERGE_REQUESTS].change(found.id, updated=visit.world.now)
    return visit.redirect(address)


@GIT.page(f"{_P}/{{number:int}}/edit", signed_in=True)
def edit(visit: Visit) -> Response:
    """Show a merge request in a form."""
    project = project_of(visit)
    found = _changeable(visit, project)
    return visit.render("request_form.html", project=project, request=found, **_all(visit, project))


@GIT.form(f"{_P}/{{number:int}}")
def save(visit: Visit) -> Response:
    """Change a merge request; its branches stay."""
    project, form = project_of(visit), visit.form
    found = _changeable(visit, project)
    visit.world[MERGE_REQUESTS].change(
        found.id,
        title=form.text("title") or found.title,
        text=form.text("text"),
        assignees=chosen_users(visit, project, "assignees"),
        reviewers=chosen_users(visit, project, "reviewers"),
        labels=chosen_labels(visit, project),
        updated=visit.world.now,
    )
    return visit.redirect(f"/{project.path}/-/merge_requests/{found.iid}")


@GIT.form(f"{_P}/{{number:int}}/state")
def change_state(visit: Visit) -> Response:
    """Merge, close or open again."""
    project = project_of(visit)
    found = _changeable(visit, project)
    state = visit.form.choice("state", ("opened", "closed", "merged"), found.state)
    address = f"/{project.path}/-/merge_requests/{found.iid}"
    if found.state == "merged":
        return visit.redirect(address, "It is merged already.", failed=True)
    if state == "merged":
        project = project_of(visit, Role.DEVELOPER)
        _merge(visit, project, found)
    visit.world[MERGE_REQUESTS].change(found.id, state=state, updated=visit.world.now)
    return visit.redirect(address)


def _merge(visit: Visit, project: Project, found: MergeRequest) -> None:
    """Copy the files of the source branch, with one commit that says so."""
    world, user = visit.world, me(visit)
    rows = [row for row in world[FILES].where(path=project.path) if row.branch == found.source]
    number = commit_id(project.path, world.changes, found.id)
    title = f"Merge branch '{found.source}' into '{found.target}'"
    names = tuple(row.name for row in rows)
    world[COMMITS].put(
        Commit(number, project.path, found.target, user.name, user.email, title, world.now, names)
    )
    for row in rows:
        key = f"{project.path}@{found.target}:{row.name}"
        world[FILES].put(replace(row, id=key, branch=found.target))


def _changeable(visit: Visit, project: Project) -> MergeRequest:
    """Return the merge request; raises Refused for who neither wrote it nor may change any."""
    found = _request(visit, project)
    role = role_in(visit.world, project.path, visit.account)
    if found.author != visit.account and (role is None or role < Role.DEVELOPER):
        raise Refused("Only its author and members from Developer on may change a merge request.")
    return found
