"""Templates of code hosting that change issues, merge requests, milestones and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, Final

from env_servers.environments.webarena.sites.formats import long_day
from env_servers.environments.webarena.sites.git.content import ME, vocabulary
from env_servers.environments.webarena.sites.git.rows import (
    ISSUES,
    LABELS,
    MEMBERS,
    MERGE_REQUESTS,
    MILESTONES,
    NOTES,
    Issue,
    MergeRequest,
    Project,
)
from env_servers.environments.webarena.sites.world import START as NOW
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.changes import only_change
from env_servers.environments.webarena.templates.git_places import (
    all_projects,
    change,
    find_issue,
    find_request,
    issues,
    menu,
    my_projects,
    requests,
)
from env_servers.environments.webarena.templates.plan import ClickOn, Move, TypeInto, refill
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck, worded
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_EDIT: Final = ClickOn("link", "Edit title and description")
_SAVE: Final = ClickOn("button", "Save changes")


def _day(number: int) -> date:
    """Return a day in the months to come."""
    return NOW.date() + timedelta(days=10 + number * 7 % 180)


def _titles(_: World) -> Sequence[str]:
    return [
        f"{verb} {part}"
        for verb in ("Write a guide for", "Measure the speed of", "Draw a new icon for")
        for part in vocabulary()["issue parts"]
    ]


def _reports(world: World) -> Sequence[tuple[Project, str]]:
    return [*zip(all_projects(world), [*_titles(world)] * 4, strict=False)]


def _new_issue(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, title = chosen

    def check(world: World) -> bool:
        row = only_change(world, ISSUES)
        return row is not None and (row.path, row.title) == (project.path, title)

    intent = worded(
        project.path,
        f"Open an issue in {project.path} that has the title “{title}”.",
        f"Report an issue called “{title}” to the project {project.path}.",
    )
    clicks = ClickOn("link", "New issue"), TypeInto("textbox", "Title", title, enter=True)
    return change(intent, check, *menu(project, "Issues"), *clicks)


def _plans(world: World) -> Sequence[tuple[Project, str, str, date]]:
    found: list[tuple[Project, str, str, date]] = []
    for project in my_projects(world):
        members = [row.user for row in world[MEMBERS].where(path=project.path)]
        for user, title in zip(members, _titles(world)[len(found) :], strict=False):
            found.append((project, user, title, _day(len(found))))
    return found


def _planned_issue(_: World, chosen: tuple[Project, str, str, date]) -> SiteTask:
    project, user, title, day = chosen

    def check(world: World) -> bool:
        row = only_change(world, ISSUES)
        wanted = (project.path, title, (user,), day)
        return row is not None and (row.path, row.title, row.assignees, row.due) == wanted

    return change(
        f"Create an issue “{title}” in {project.path}, assign it to @{user} and make it due on"
        f" {long_day(day)}.",
        check,
        *menu(project, "Issues"),
        ClickOn("link", "New issue"),
        TypeInto("textbox", "Title", title),
        TypeInto("listbox", "Assignees", f"@{user}"),
        TypeInto("textbox", "Due date", str(day), enter=True),
    )


def _remarks(rows: Sequence[Any]) -> Sequence[tuple[Any, str]]:
    texts = (
        "Any news on this?",
        "I can help with a test.",
        "This also happens to me.",
        "Please keep me posted.",
        "Thank you for looking into it.",
    )
    return [(row, texts[number % len(texts)]) for number, row in enumerate(rows)]


def _noted(world: World, key: str, text: str) -> bool:
    row = only_change(world, NOTES)
    return row is not None and (row.on, row.text, row.author) == (key, text, ME)


def _say(text: str) -> tuple[Move, ...]:
    return TypeInto("textbox", "Write a comment", text), ClickOn("button", "Comment")


def _comment(world: World, chosen: tuple[Issue, str]) -> SiteTask:
    issue, text = chosen
    intent = f"Comment “{text}” on the issue “{issue.title}” of {issue.path}."
    moves = find_issue(world, issue)
    return change(intent, lambda w: _noted(w, issue.id, text), *moves, *_say(text))


def _remark(world: World, chosen: tuple[MergeRequest, str]) -> SiteTask:
    request, text = chosen
    intent = f"Post “{text}” to the merge request “{request.title}” in {request.path}."
    moves = find_request(world, request)
    return change(intent, lambda w: _noted(w, request.id, text), *moves, *_say(text))


def _edited(issue: Issue, **values: object) -> WorldCheck:
    """Return whether an issue alone changed, and now has these values."""

    def check(world: World) -> bool:
        row = only_change(world, ISSUES)
        return (
            row is not None
            and row.id == issue.id
            and all(getattr(row, name) == value for name, value in values.items())
            and values.get("title", issue.title) == row.title
        )

    return check


def _mine(keep: Callable[[Issue], bool]) -> Callable[[World], Sequence[Issue]]:
    """Return the candidates: open issues of the agent's projects."""
    return lambda world: [row for row in issues(world, mine=True) if keep(row)]


def _close(world: World, issue: Issue) -> SiteTask:
    intent = worded(
        issue.id,
        f"The issue “{issue.title}” of {issue.path} is settled. Close it.",
        f"Close the issue “{issue.title}” in my project {issue.path}.",
    )
    moves = find_issue(world, issue)
    return change(intent, _edited(issue, open=False), *moves, ClickOn("button", "Close issue"))


def _reopen(world: World, issue: Issue) -> SiteTask:
    intent = f"“{issue.title}” is back in {issue.path}: open the closed issue again."
    moves = find_issue(world, issue)
    return change(intent, _edited(issue, open=True), *moves, ClickOn("button", "Reopen issue"))


def _label(world: World, issue: Issue) -> SiteTask:
    labels = [row.name for row in world[LABELS].where(path=issue.path)]
    names = [name for name in labels if name not in issue.labels]
    name = names[issue.iid % len(names)]
    return change(
        f"Give the issue “{issue.title}” of {issue.path} the label “{name}” and no other.",
        _edited(issue, labels=(name,), assignees=issue.assignees),
        *find_issue(world, issue),
        _EDIT,
        TypeInto("listbox", "Labels", name),
        _SAVE,
    )


def _assign(world: World, issue: Issue) -> SiteTask:
    names = [row.user for row in world[MEMBERS].where(path=issue.path)]
    name = names[issue.iid % len(names)]
    return change(
        f"Nobody cares for the issue “{issue.title}” of {issue.path}. Assign it to @{name}.",
        _edited(issue, assignees=(name,), labels=issue.labels),
        *find_issue(world, issue),
        _EDIT,
        TypeInto("listbox", "Assignees", f"@{name}"),
        _SAVE,
    )


def _retitle(world: World, issue: Issue) -> SiteTask:
    title = f"{issue.title} (needs a test)"
    return change(
        f"Change the title of the issue “{issue.title}” of {issue.path} to “{title}”.",
        _edited(issue, title=title, text=issue.text),
        *find_issue(world, issue),
        _EDIT,
        *refill("textbox", "Title", title),
        _SAVE,
    )


def _put_off(world: World, issue: Issue) -> SiteTask:
    day = _day(issue.iid)
    return change(
        f"Set the due date of the issue “{issue.title}” in {issue.path} to {long_day(day)}.",
        _edited(issue, due=day),
        *find_issue(world, issue),
        _EDIT,
        *refill("textbox", "Due date", str(day)),
        _SAVE,
    )


def _schedule(world: World, issue: Issue) -> SiteTask:
    rows = world[MILESTONES].where(path=issue.path)
    title = rows[issue.iid % len(rows)].title
    return change(
        f"Plan the issue “{issue.title}” of {issue.path} for the milestone {title}.",
        _edited(issue, milestone=title),
        *find_issue(world, issue),
        _EDIT,
        TypeInto("combobox", "Milestone", title),
        _SAVE,
    )


def _named(things: Sequence[str]) -> Callable[[World], Sequence[tuple[Project, str]]]:
    """Return the candidates: the agent's projects, each with some of the names."""
    return lambda world: [(row, thing) for row in my_projects(world) for thing in things]


def _new_milestone(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, event = chosen
    first = _day(len(project.slug) + len(event))
    last = first + timedelta(days=14)

    def check(world: World) -> bool:
        row = only_change(world, MILESTONES)
        wanted = (project.path, event, first, last)
        return row is not None and (row.path, row.title, row.start, row.due) == wanted

    return change(
        f"Create a milestone “{event}” in {project.path} that starts on {long_day(first)} and ends"
        " 14 days later.",
        check,
        *menu(project, "Milestones"),
        ClickOn("link", "New milestone"),
        TypeInto("textbox", "Title", event),
        TypeInto("textbox", "Start Date", str(first)),
        TypeInto("textbox", "Due Date", str(last)),
        ClickOn("button", "Create milestone"),
    )


def _new_label(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, name = chosen

    def check(world: World) -> bool:
        row = only_change(world, LABELS)
        return row is not None and (row.path, row.name) == (project.path, name)

    intent = f"I want to mark issues of {project.path} as “{name}”. Add this label to the project."
    typed = TypeInto("textbox", "Title", name, enter=True)
    return change(intent, check, *menu(project, "Labels"), typed)


def _offers(world: World) -> Sequence[tuple[Project, str, str]]:
    return [
        (project, branch, row.user)
        for project in my_projects(world)
        for branch in project.branches[1:]
        for row in world[MEMBERS].where(path=project.path)
    ]


def _new_request(_: World, chosen: tuple[Project, str, str]) -> SiteTask:
    project, branch, user = chosen
    title = f"Take over the work on {branch.partition('/')[2]}"

    def check(world: World) -> bool:
        row = only_change(world, MERGE_REQUESTS)
        wanted = (project.path, branch, project.branch, (user,))
        return row is not None and (row.path, row.source, row.target, row.reviewers) == wanted

    return change(
        f"Open a merge request in {project.path} from {branch} into {project.branch}, with @{user}"
        " as the reviewer.",
        check,
        *menu(project, "Merge requests"),
        ClickOn("link", "New merge request"),
        TypeInto("combobox", "Source branch", branch),
        TypeInto("textbox", "Title", title),
        TypeInto("listbox", "Reviewers", f"@{user}"),
        ClickOn("button", "Create merge request"),
    )


def _opened(world: World) -> Sequence[MergeRequest]:
    return requests(world, mine=True, state="opened")


def _settled(request: MergeRequest, state: str) -> WorldCheck:
    def check(world: World) -> bool:
        row = only_change(world, MERGE_REQUESTS)
        return row is not None and (row.id, row.state) == (request.id, state)

    return check


def _merge(world: World, request: MergeRequest) -> SiteTask:
    intent = worded(
        request.id,
        f"The merge request “{request.title}” of {request.path} looks good. Merge it.",
        f"Merge “{request.title}” in {request.path}.",
    )
    moves = find_request(world, request)
    return change(intent, _settled(request, "merged"), *moves, ClickOn("button", "Merge"))


def _decline(world: World, request: MergeRequest) -> SiteTask:
    return change(
        f"We do not want “{request.title}” in {request.path}: close the merge request unmerged.",
        _settled(request, "closed"),
        *find_request(world, request),
        ClickOn("button", "Close merge request"),
    )


def _ask_review(world: World, request: MergeRequest) -> SiteTask:
    names = [row.user for row in world[MEMBERS].where(path=request.path)]
    name = next(name for name in names if name not in request.reviewers)

    def check(world: World) -> bool:
        row = only_change(world, MERGE_REQUESTS)
        wanted = (request.id, (name,), request.assignees)
        return row is not None and (row.id, row.reviewers, row.assignees) == wanted

    return change(
        f"Make @{name} the only reviewer of the merge request “{request.title}” in {request.path}.",
        check,
        *find_request(world, request),
        ClickOn("link", "Edit"),
        TypeInto("listbox", "Reviewers", f"@{name}"),
        _SAVE,
    )


_EVENTS: Final = ("Product launch", "Spring cleaning", "Security audit", "Beta test")
_MARKS: Final = ("regression", "needs design", "blocked", "easy to fix")
TEMPLATES: Final[tuple[Template[Any], ...]] = (
    Template("git.new_issue", _reports, _new_issue),
    Template("git.planned_issue", _plans, _planned_issue),
    Template("git.comment", lambda world: _remarks(issues(world)), _comment),
    Template("git.remark", lambda w: _remarks(requests(w, state="opened")), _remark),
    Template("git.close_issue", _mine(lambda row: True), _close),
    Template("git.reopen_issue", lambda w: issues(w, mine=True, is_open=False), _reopen),
    Template("git.label_issue", _mine(lambda row: True), _label),
    Template("git.assign_issue", _mine(lambda row: not row.assignees), _assign),
    Template("git.retitle_issue", _mine(lambda row: True), _retitle),
    Template("git.due_date", _mine(lambda row: True), _put_off),
    Template("git.schedule_issue", _mine(lambda row: not row.milestone), _schedule),
    Template("git.new_milestone", _named(_EVENTS), _new_milestone),
    Template("git.new_label", _named(_MARKS), _new_label),
    Template("git.new_request", _offers, _new_request),
    Template("git.merge", _opened, _merge),
    Template("git.decline", _opened, _decline),
    Template("git.reviewer", _opened, _ask_review),
)
