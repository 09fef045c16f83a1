"""Templates of code hosting that end on a page, and those of wishes that cannot be met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from env_servers.environments.webarena.sites.git.content import vocabulary
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    ISSUES,
    LABELS,
    MERGE_REQUESTS,
    MILESTONES,
    File,
    Issue,
    Label,
    Milestone,
    Project,
    User,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.git_places import (
    HOST,
    START,
    all_projects,
    find_issue,
    find_person,
    find_project,
    issues,
    menu,
    people,
    project_of,
)
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    at_page,
    unachievable,
    worded,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]


def _page(intent: str, path: str, *moves: Move) -> SiteTask:
    return SiteTask(
        intent=intent, start=START, criteria=at_page(f"{HOST}{path}"), plan=(*moves, Answer())
    )


def _in_menu(what: str, wish: str, entry: str, rest: str) -> Template[Project]:
    """Return the template of a page in a project's menu."""

    def make(_: World, project: Project) -> SiteTask:
        address = f"/{project.path}/-/{rest.format(branch=project.branch)}"
        return _page(wish.format(path=project.path), address, *menu(project, entry))

    return Template(f"git.{what}", all_projects, make)


def _labels(world: World) -> Sequence[Label]:
    paths = {project.path for project in all_projects(world)}
    return [row for row in world[LABELS] if row.path in paths]


def _labelled(world: World, label: Label) -> SiteTask:
    intent = worded(
        label.path,
        f"List the open issues of {label.path} that are marked {label.name}.",
        f"Show me which issues in {label.path} have the label “{label.name}”.",
    )
    query = urlencode({"label_name[]": label.name})
    return _page(
        intent,
        f"/{label.path}/-/issues?{query}",
        *menu(project_of(world, label.path), "Issues"),
        TypeInto("combobox", "Label", label.name),
        ClickOn("button", "Apply"),
    )


def _closed_by(world: World) -> Sequence[Issue]:
    return issues(world, is_open=False)


def _closed_of_author(world: World, issue: Issue) -> SiteTask:
    query = f"state=closed&author_username={issue.author}"
    return _page(
        f"Show the closed issues of {issue.path} that @{issue.author} reported.",
        f"/{issue.path}/-/issues?{query}",
        *menu(project_of(world, issue.path), "Issues"),
        ClickOn("link", "Closed"),
        TypeInto("textbox", "Author", issue.author, enter=True),
    )


def _assigned(world: World) -> Sequence[Issue]:
    return [row for row in issues(world) if row.assignees]


def _of_assignee(world: World, issue: Issue) -> SiteTask:
    name = issue.assignees[0]
    return _page(
        f"Which open issues of {issue.path} is @{name} assigned to? Show the list.",
        f"/{issue.path}/-/issues?assignee_username={name}",
        *menu(project_of(world, issue.path), "Issues"),
        TypeInto("textbox", "Assignee", name, enter=True),
    )


def _reviewed(world: World) -> Sequence[tuple[Project, str]]:
    return [
        (project, name)
        for project in all_projects(world)
        for name in sorted(
            {
                name
                for row in world[MERGE_REQUESTS].where(path=project.path)
                for name in row.reviewers
            }
        )
    ]


def _to_review(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, name = chosen
    return _page(
        f"Open the list of merge requests in {project.path} that wait for a review by @{name}.",
        f"/{project.path}/-/merge_requests?reviewer_username={name}",
        *menu(project, "Merge requests"),
        TypeInto("textbox", "Reviewer", name, enter=True),
    )


def _merged(_: World, project: Project) -> SiteTask:
    return _page(
        f"Show the merge requests of {project.path} that have been merged.",
        f"/{project.path}/-/merge_requests?state=merged",
        *menu(project, "Merge requests"),
        ClickOn("link", "Merged"),
    )


def _sources(world: World) -> Sequence[File]:
    branches = {project.path: project.branch for project in all_projects(world)}
    return [
        row
        for row in world[FILES]
        if branches.get(row.path) == row.branch and row.name.startswith(("src/", "tests/"))
    ]


def _file(world: World, file: File) -> SiteTask:
    folder, _, name = file.name.rpartition("/")
    return _page(
        f"Open the file {file.name} of {file.path}.",
        f"/{file.path}/-/blob/{file.branch}/{file.name}",
        *find_project(project_of(world, file.path)),
        ClickOn("link", f"{folder}/"),
        ClickOn("link", name),
    )


def _milestones(world: World) -> Sequence[Milestone]:
    paths = {project.path for project in all_projects(world)}
    return [row for row in world[MILESTONES] if row.path in paths]


def _milestone(world: World, row: Milestone) -> SiteTask:
    return _page(
        f"Show what belongs to the milestone {row.title} of {row.path}.",
        f"/{row.path}/-/milestones/{row.iid}",
        *menu(project_of(world, row.path), "Milestones"),
        ClickOn("link", row.title),
    )


def _newest_commit(world: World, project: Project) -> SiteTask:
    rows = world[COMMITS].where(path=project.path)
    newest = max(rows, key=lambda row: (row.created, row.id))
    return _page(
        f"Open the latest commit of {project.path}.",
        f"/{project.path}/-/commit/{newest.id}",
        *find_project(project),
        ClickOn("link", newest.title),
    )


def _oldest_issue(world: World, project: Project) -> SiteTask:
    rows = world[ISSUES].where(path=project.path, open=True)
    oldest = min(rows, key=lambda row: (row.created, row.id))
    return _page(
        f"Open the issue of {project.path} that has been open for the longest time.",
        f"/{project.path}/-/issues/{oldest.iid}",
        *menu(project, "Issues"),
        TypeInto("combobox", "Sort by", "Oldest first"),
        ClickOn("button", "Apply"),
        ClickOn("link", oldest.title),
    )


def _with_open_issues(world: World) -> Sequence[Project]:
    """Projects whose oldest open issue has a number that begins no other one's."""
    found: list[Project] = []
    for project in all_projects(world):
        rows = world[ISSUES].where(path=project.path, open=True)
        oldest = min(rows, key=lambda row: (row.created, row.id), default=None)
        if oldest is not None and oldest.iid > 1:
            found.append(project)
    return found


def _profile(_: World, user: User) -> SiteTask:
    intent = worded(
        user.name,
        f"Take me to the GitLab profile of {user.title}.",
        f"I want to see who {user.title} is on GitLab. Open that page.",
    )
    return _page(intent, f"/{user.name}", *find_person(user))


def _stars(_: World, user: User) -> SiteTask:
    return _page(
        f"Which projects has {user.title} starred on GitLab? Show them.",
        f"/users/{user.name}/starred",
        *find_person(user),
        ClickOn("link", "Starred"),
    )


_SORTS: Final = (
    ("created_desc", "Created date", "the newest first"),
    ("name_asc", "Name", "by name"),
    ("stars_desc", "Most stars", "those with the most stars first"),
)


def _choices(_: World) -> Sequence[tuple[str, tuple[str, str, str]]]:
    return [(language, sort) for language in vocabulary()["languages"] for sort in _SORTS]


def _explored(_: World, chosen: tuple[str, tuple[str, str, str]]) -> SiteTask:
    language, (sort, title, words) = chosen
    return _page(
        f"List all projects on GitLab that are written in {language}, {words}.",
        f"/explore?language={quote_plus(language)}&sort={sort}",
        ClickOn("link", "Explore"),
        TypeInto("combobox", "Language", language),
        TypeInto("combobox", "Sort by", title),
        ClickOn("button", "Apply"),
    )


def _topics(_: World) -> Sequence[str]:
    parts = [part.removeprefix("the ") for part in vocabulary()["issue parts"]]
    return [*parts, *(case.partition(" ")[2] for case in vocabulary()["issue cases"])]


def _searched(_: World, topic: str) -> SiteTask:
    return _page(
        f"Search the issues of all projects on GitLab for “{topic}”.",
        f"/search?scope=issues&search={quote_plus(topic)}",
        TypeInto("searchbox", "Search GitLab", topic, enter=True),
        ClickOn("link", "Issues", 1),
    )


def _impossible(what: str, wish: str) -> Template[Project]:
    """Return the template of a wish about what no project here has."""

    def make(_: World, project: Project) -> SiteTask:
        return SiteTask(
            intent=wish.format(path=project.path),
            start=START,
            criteria=unachievable(),
            plan=(*find_project(project), Answer("N/A")),
        )

    return Template(f"git.{what}", all_projects, make)


def _phone(_: World, user: User) -> SiteTask:
    return SiteTask(
        intent=f"What is the telephone number on the GitLab profile of {user.title}?",
        start=START,
        criteria=unachievable(),
        plan=(*find_person(user), Answer("N/A")),
    )


def _price(world: World, issue: Issue) -> SiteTask:
    return SiteTask(
        intent=f"Which bounty is paid for the issue “{issue.title}” of {issue.path}?",
        start=START,
        criteria=unachievable(),
        plan=(*find_issue(world, issue), Answer("N/A")),
    )


TEMPLATES: Final[tuple[Template[Any], ...]] = (
    _in_menu("members", "Show who is a member of {path}.", "Members", "project_members"),
    _in_menu("branches", "Show which branches {path} has.", "Branches", "branches"),
    _in_menu(
        "contributors",
        "Show how the commits of {path} are spread over its contributors.",
        "Contributors",
        "graphs/{branch}",
    ),
    _in_menu("history", "Open the history of {path}.", "Commits", "commits/{branch}"),
    Template("git.labelled_issues", _labels, _labelled),
    Template("git.closed_issues", _closed_by, _closed_of_author),
    Template("git.assigned_issues", _assigned, _of_assignee),
    Template("git.requests_to_review", _reviewed, _to_review),
    Template("git.merged_requests", all_projects, _merged),
    Template("git.file", _sources, _file),
    Template("git.milestone", _milestones, _milestone),
    Template("git.newest_commit", all_projects, _newest_commit),
    Template("git.oldest_issue", _with_open_issues, _oldest_issue),
    Template("git.profile", people, _profile),
    Template("git.starred", people, _stars),
    Template("git.explore", _choices, _explored),
    Template("git.search_issues", _topics, _searched),
    _impossible("downloads", "How many times has {path} been downloaded?"),
    _impossible("pipeline", "Run the pipeline of {path} on its default branch once more."),
    Template("git.phone", people, _phone),
    Template("git.bounty", issues, _price),
)
