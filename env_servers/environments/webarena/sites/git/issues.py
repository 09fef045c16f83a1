"""Issues of a project, and the labels and milestones that they have."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.git.filtering import SORTS, matching, state_of
from env_servers.environments.webarena.sites.git.frame import GIT, project_of, role_in
from env_servers.environments.webarena.sites.git.rows import (
    ISSUES,
    LABELS,
    MEMBERS,
    MILESTONES,
    NOTES,
    Issue,
    Label,
    Milestone,
    Note,
    Project,
    Role,
)
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.visit import Missing, Refused, Visit

__all__ = ["add_note", "chosen_labels", "chosen_users", "label_choices", "user_choices"]

_P: Final = "/{namespace}/{slug}/-"
_PER_PAGE: Final = 20


def label_choices(visit: Visit, project: Project) -> list[tuple[str, str]]:
    """Return the labels of a project as choices of a form."""
    return [(row.name, row.name) for row in visit.world[LABELS].where(path=project.path)]


def user_choices(visit: Visit, project: Project) -> list[tuple[str, str]]:
    """Return the members of a project as choices of a form."""
    names = [row.user for row in visit.world[MEMBERS].where(path=project.path)]
    return [(name, f"@{name}") for name in sorted(names)]


def chosen_labels(visit: Visit, project: Project) -> tuple[str, ...]:
    """Return the labels that a form has chosen."""
    known = {value for value, _ in label_choices(visit, project)}
    return tuple(sorted(known.intersection(visit.form.all("labels"))))


def chosen_users(visit: Visit, project: Project, field: str) -> tuple[str, ...]:
    """Return the members that a form has chosen in a field."""
    known = {value for value, _ in user_choices(visit, project)}
    return tuple(name for name in dict.fromkeys(visit.form.all(field)) if name in known)


def add_note(visit: Visit, key: str) -> bool:
    """Add a comment; returns whether there was a text."""
    text = visit.form.text("note")
    notes = visit.world[NOTES]
    if text:
        notes.put(Note(notes.next_id, key, visit.account, text, visit.world.now))
    return bool(text)


@GIT.page(f"{_P}/issues")
def listed(visit: Visit) -> Response:
    """Show a project's issues."""
    project = project_of(visit)
    found = matching(visit, visit.world[ISSUES].where(path=project.path))
    page = cut(found, visit.query.number("page", 1), _PER_PAGE)
    return visit.render(
        "issues.html",
        project=project,
        found=page,
        state=state_of(visit),
        heading="Issues",
        labels=[("", "Any label"), ("None", "No label"), *label_choices(visit, project)],
        sorts=SORTS,
    )


@GIT.page(f"{_P}/issues/new", signed_in=True)
def new(visit: Visit) -> Response:
    """Show the form for a new issue."""
    project = project_of(visit)
    return visit.render("issue_form.html", project=project, issue=None, **_choices(visit, project))


def _choices(visit: Visit, project: Project) -> dict[str, Any]:
    milestones = visit.world[MILESTONES].where(path=project.path)
    return {
        "labels": label_choices(visit, project),
        "users": user_choices(visit, project),
        "milestones": [("", "No milestone"), *((row.title, row.title) for row in milestones)],
    }


@GIT.form(f"{_P}/issues")
def create(visit: Visit) -> Response:
    """Make an issue."""
    project, world, form = project_of(visit), visit.world, visit.form
    title = form.text("title")
    if not title:
        address = f"/{project.path}/-/issues/new"
        return visit.redirect(address, "Title can't be blank.", failed=True)
    number = max((row.iid for row in world[ISSUES].where(path=project.path)), default=0) + 1
    issue = Issue(
        id=f"{project.path}#{number}",
        path=project.path,
        iid=number,
        title=title,
        text=form.text("text"),
        author=visit.account,
        assignees=chosen_users(visit, project, "assignees"),
        labels=chosen_labels(visit, project),
        milestone=_milestone_title(visit, project),
        due=form.day("due"),
        open=True,
        created=world.now,
        updated=world.now,
    )
    world[ISSUES].put(issue)
    return visit.redirect(f"/{project.path}/-/issues/{number}")


def _milestone_title(visit: Visit, project: Project) -> str:
    titles = [row.title for row in visit.world[MILESTONES].where(path=project.path)]
    return visit.form.choice("milestone", titles, "")


def _issue(visit: Visit, project: Project) -> Issue:
    issue = visit.world[ISSUES].get(f"{project.path}#{visit.parameters['number']}")
    if issue is None:
        raise Missing
    return issue


@GIT.page(f"{_P}/issues/{{number:int}}")
def show(visit: Visit) -> Response:
    """Show an issue with its comments."""
    project = project_of(visit)
    issue = _issue(visit, project)
    notes = visit.world[NOTES].where(on=issue.id)
    return visit.render("issue.html", project=project, issue=issue, notes=notes)


@GIT.form(f"{_P}/issues/{{number:int}}/notes")
def comment(visit: Visit) -> Response:
    """Comment on an issue."""
    project = project_of(visit)
    issue = _issue(visit, project)
    address = f"/{project.path}/-/issues/{issue.iid}"
    if not add_note(visit, issue.id):
        return visit.redirect(address, "A comment can't be blank.", failed=True)
    visit.world[ISSUES].change(issue.id, updated=visit.world.now)
    return visit.redirect(address)


@GIT.page(f"{_P}/issues/{{number:int}}/edit", signed_in=True)
def edit(visit: Visit) -> Response:
    """Show an issue in a form."""
    project = project_of(visit)
    issue = _changeable(visit, project)
    return visit.render("issue_form.html", project=project, issue=issue, **_choices(visit, project))


@GIT.form(f"{_P}/issues/{{number:int}}")
def save(visit: Visit) -> Response:
    """Change an issue."""
    project, form = project_of(visit), visit.form
    issue = _changeable(visit, project)
    address = f"/{project.path}/-/issues/{issue.iid}"
    if not form.text("title"):
        return visit.redirect(f"{address}/edit", "Title can't be blank.", failed=True)
    visit.world[ISSUES].change(
        issue.id,
        title=form.text("title"),
        text=form.text("text"),
        assignees=chosen_users(visit, project, "assignees"),
        labels=chosen_labels(visit, project),
        milestone=_milestone_title(visit, project),
        due=form.day("due"),
        updated=visit.world.now,
    )
    return visit.redirect(address)


@GIT.form(f"{_P}/issues/{{number:int}}/state")
def change_state(visit: Visit) -> Response:
    """Close an issue, or open it again."""
    project = project_of(visit)
    issue = _changeable(visit, project)
    opened = visit.form.text("state") == "opened"
    visit.world[ISSUES].change(issue.id, open=opened, updated=visit.world.now)
    return visit.redirect(f"/{project.path}/-/issues/{issue.iid}")


def _changeable(visit: Visit, project: Project) -> Issue:
    """Return the issue; raises Refused for who neither wrote it nor may change any."""
    issue = _issue(visit, project)
    role = role_in(visit.world, project.path, visit.account)
    if issue.author != visit.account and (role is None or role < Role.REPORTER):
        raise Refused("Only its author and members from Reporter on may change an issue.")
    return issue


@GIT.page(f"{_P}/labels")
def labels(visit: Visit) -> Response:
    """Show the labels."""
    project = project_of(visit)
    rows = visit.world[LABELS].where(path=project.path)
    return visit.render("labels.html", project=project, labels=rows)


@GIT.form(f"{_P}/labels")
def create_label(visit: Visit) -> Response:
    """Make a label."""
    project = project_of(visit, Role.REPORTER)
    name = visit.form.text("name")[:80]
    key, address = f"{project.path}~{name}", f"/{project.path}/-/labels"
    if not name or visit.world[LABELS].get(key) is not None:
        return visit.redirect(address, "Say a name that no other label has.", failed=True)
    visit.world[LABELS].put(Label(key, project.path, name, 37 * len(name) % 360))
    return visit.redirect(address)


@GIT.page(f"{_P}/milestones")
def milestones(visit: Visit) -> Response:
    """Show the milestones."""
    project = project_of(visit)
    rows = visit.world[MILESTONES].where(path=project.path)
    return visit.render("milestones.html", project=project, milestones=rows)


@GIT.page(f"{_P}/milestones/new", signed_in=True)
def new_milestone(visit: Visit) -> Response:
    """Show the form for a new milestone."""
    return visit.render("milestone_form.html", project=project_of(visit, Role.REPORTER))


@GIT.form(f"{_P}/milestones")
def create_milestone(visit: Visit) -> Response:
    """Make a milestone."""
    project, form = project_of(visit, Role.REPORTER), visit.form
    rows = visit.world[MILESTONES]
    if not form.text("title"):
        address = f"/{project.path}/-/milestones/new"
        return visit.redirect(address, "Title can't be blank.", failed=True)
    number = max((row.iid for row in rows.where(path=project.path)), default=0) + 1
    key = f"{project.path}%{number}"
    days = form.day("start_date"), form.day("due_date")
    rows.put(Milestone(key, project.path, number, form.text("title"), form.text("about"), *days))
    return visit.redirect(f"/{project.path}/-/milestones/{number}")


@GIT.page(f"{_P}/milestones/{{number:int}}")
def milestone(visit: Visit) -> Response:
    """Show a milestone with its issues."""
    project = project_of(visit)
    row = visit.world[MILESTONES].get(f"{project.path}%{visit.parameters['number']}")
    if row is None:
        raise Missing
    found = visit.world[ISSUES].where(path=project.path, milestone=row.title)
    return visit.render("milestone.html", project=project, milestone=row, issues=found)
