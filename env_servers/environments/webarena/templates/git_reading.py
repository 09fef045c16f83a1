"""Templates of code hosting: what can be read about projects, their history and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from env_servers.environments.webarena.sites.formats import long_day
from env_servers.environments.webarena.sites.git.frame import stars_of
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    FOLLOWS,
    ISSUES,
    MEMBERS,
    MERGE_REQUESTS,
    USERS,
    Commit,
    File,
    Member,
    Project,
    Role,
    User,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.git_places import (
    START,
    all_projects,
    find_person,
    find_project,
    menu,
    people,
    project_of,
)
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    worded,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_NUMBER: Final = "Answer with the number alone."


def _number(intent: str, number: int, *moves: Move) -> SiteTask:
    text = str(number)
    return SiteTask(
        intent=f"{intent} {_NUMBER}",
        start=START,
        criteria=answered_exactly(text),
        plan=(*moves, Answer(text)),
    )


def _text(intent: str, text: str, *moves: Move) -> SiteTask:
    return SiteTask(
        intent=intent, start=START, criteria=answered(text), plan=(*moves, Answer(text))
    )


def _counted(what: str, question: str, count: Callable[[World, Project], int]) -> Template[Project]:
    """Return the template of a number on a project's first page."""

    def make(world: World, project: Project) -> SiteTask:
        intent = question.format(path=project.path)
        return _number(intent, count(world, project), *find_project(project))

    return Template(f"git.{what}", all_projects, make)


def _open_issues(world: World, project: Project) -> int:
    return sum(row.open for row in world[ISSUES].where(path=project.path))


def _open_requests(world: World, project: Project) -> int:
    return len(world[MERGE_REQUESTS].where(path=project.path, state="opened"))


def _authors(world: World, project: Project) -> Counter[str]:
    return Counter(row.author for row in world[COMMITS].where(path=project.path))


def _authorships(world: World) -> Sequence[tuple[Project, str, int]]:
    return [
        (project, author, number)
        for project in all_projects(world)
        for author, number in sorted(_authors(world, project).items())
    ]


def _commits_by(_: World, chosen: tuple[Project, str, int]) -> SiteTask:
    project, author, number = chosen
    intent = worded(
        project.path,
        f"How many commits did @{author} make to {project.path}?",
        f"Count the commits in {project.path} whose author is @{author}.",
    )
    return _number(intent, number, *menu(project, "Contributors"))


def _days(world: World) -> Sequence[tuple[Commit, int]]:
    """One commit for each author's day with several commits, and as many for days with one."""
    counts = Counter((row.path, row.author, row.created.date()) for row in world[COMMITS])
    paths = {project.path for project in all_projects(world)}
    firsts = {(row.path, row.author, row.created.date()): row for row in world[COMMITS]}
    found = [(row, counts[key]) for key, row in firsts.items() if row.path in paths]
    several = [(row, number) for row, number in found if number > 1]
    single = [(row, number) for row, number in found if number == 1]
    return [*several, *single[:: len(single) // len(several)]]


def _commits_on_day(world: World, chosen: tuple[Commit, int]) -> SiteTask:
    commit, number = chosen
    intent = (
        f"How many commits did @{commit.author} make to {commit.path}"
        f" on {long_day(commit.created.date())}?"
    )
    moves = menu(project_of(world, commit.path), "Commits")
    return _number(intent, number, *moves, TypeInto("textbox", "Author", commit.author, enter=True))


def _leaders(world: World) -> Sequence[tuple[Project, str]]:
    """Projects in which somebody has more commits than everybody else."""
    found: list[tuple[Project, str]] = []
    for project in all_projects(world):
        first, second, *_ = [*_authors(world, project).most_common(2), ("", 0)]
        if first[1] > second[1]:
            found.append((project, first[0]))
    return found


def _top_contributor(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, name = chosen
    intent = f"What is the username of the person with the most commits in {project.path}?"
    return _text(intent, name, *menu(project, "Contributors"))


def _top_email(world: World, chosen: tuple[Project, str]) -> SiteTask:
    project, name = chosen
    user = world[USERS].get(name)
    assert user is not None, "authors have accounts"
    intent = worded(
        project.path,
        f"I want to write to whoever committed most to {project.path}: give me the email address.",
        f"Tell me the email address of the top contributor (by commits) of {project.path}.",
    )
    return _text(intent, user.email, *menu(project, "Contributors"))


def _clone(_: World, project: Project) -> SiteTask:
    intent = worded(
        project.slug,
        f"Give me the command that clones {project.path} over SSH.",
        f"Which command do I run to get a copy of {project.path} with SSH?",
    )
    command = f"git clone ssh://git@git.test:2222/{project.path}.git"
    return _text(intent, command, *find_project(project))


def _configurations(world: World) -> Sequence[File]:
    paths = {project.path: project.branch for project in all_projects(world)}
    return [
        row
        for row in world[FILES]
        if row.name.startswith("config/") and paths.get(row.path) == row.branch
    ]


def _port(world: World, file: File) -> SiteTask:
    project = project_of(world, file.path)
    port = next(line for line in file.text.split("\n") if line.startswith("port = "))
    intent = f"Which port is set in the configuration file of {file.path} on the default branch?"
    clicks = ClickOn("link", "config/"), ClickOn("link", file.name.partition("/")[2])
    return _number(intent, int(port.partition("= ")[2]), *find_project(project), *clicks)


def _release(world: World, project: Project) -> SiteTask:
    readme = world[FILES].get(f"{project.path}@{project.branch}:README.md")
    assert readme is not None, "every generated project has one"
    version = readme.text.partition("release ")[2].partition(" ")[0]
    intent = f"Which release should I download to install {project.path}, by its README?"
    return _text(intent, version, *find_project(project))


def _licensed(world: World) -> Sequence[Project]:
    return [project for project in all_projects(world) if project.licence]


def _licence(_: World, project: Project) -> SiteTask:
    intent = worded(
        project.path,
        f"Under which license is {project.path} published?",
        f"I want to reuse code of {project.path}. What is its license called?",
    )
    return _text(intent, project.licence, *find_project(project))


def _created(_: World, project: Project) -> SiteTask:
    intent = f"On which day was {project.path} created? Answer like January 31, 2024."
    return _text(intent, long_day(project.created.date()), *find_project(project))


def _last_commit(world: World, project: Project) -> SiteTask:
    rows = world[COMMITS].where(path=project.path)
    newest = max(rows, key=lambda row: (row.created, row.id))
    intent = f"Who made the latest commit to {project.path}, and what is its title?"
    return SiteTask(
        intent=f"{intent} Give the username and the title.",
        start=START,
        criteria=answered(newest.author, newest.title),
        plan=(*find_project(project), Answer(f"{newest.author}: {newest.title}")),
    )


def _roles(world: World) -> Sequence[Member]:
    paths = {project.path for project in all_projects(world)}
    return [row for row in world[MEMBERS] if row.path in paths and row.role is not Role.OWNER]


def _role(world: World, member: Member) -> SiteTask:
    intent = f"Which role does @{member.user} have in {member.path}? Answer with the role alone."
    moves = menu(project_of(world, member.path), "Members")
    title = member.role.title
    return SiteTask(
        intent=intent,
        start=START,
        criteria=answered_exactly(title),
        plan=(*moves, Answer(title)),
    )


def _lone_maintainers(world: World) -> Sequence[tuple[Project, str]]:
    found: list[tuple[Project, str]] = []
    for project in all_projects(world):
        rows = world[MEMBERS].where(path=project.path, role=Role.MAINTAINER)
        if len(rows) == 1:
            found.append((project, rows[0].user))
    return found


def _maintainer(_: World, chosen: tuple[Project, str]) -> SiteTask:
    project, name = chosen
    intent = f"One member of {project.path} has the role Maintainer. What is the username?"
    return _text(intent, name, *menu(project, "Members"))


def _person(what: str, question: str, fact: Callable[[User], str]) -> Template[User]:
    """Return the template of what a profile says."""

    def candidates(world: World) -> Sequence[User]:
        return [user for user in people(world) if fact(user)]

    def make(_: World, user: User) -> SiteTask:
        return _text(question.format(title=user.title), fact(user), *find_person(user))

    return Template(f"git.{what}", candidates, make)


def _followers(world: World, user: User) -> SiteTask:
    number = len(world[FOLLOWS].where(followed=user.name))
    intent = worded(
        user.name,
        f"How many people follow {user.title} on GitLab?",
        f"How large is the number of followers of {user.title} on GitLab?",
    )
    return _number(intent, number, *find_person(user))


TEMPLATES: Final[tuple[Template[Any], ...]] = (
    _counted("open_issue_count", "How many open issues does {path} have?", _open_issues),
    _counted("open_request_count", "How many merge requests of {path} are open?", _open_requests),
    _counted("star_count", "How many users have starred {path}?", lambda w, p: stars_of(w, p.path)),
    Template("git.commits_by", _authorships, _commits_by),
    Template("git.commits_on_day", _days, _commits_on_day),
    Template("git.top_contributor", _leaders, _top_contributor),
    Template("git.top_contributor_email", _leaders, _top_email),
    Template("git.clone_command", all_projects, _clone),
    Template("git.configured_port", _configurations, _port),
    Template("git.release", all_projects, _release),
    Template("git.licence", _licensed, _licence),
    Template("git.created", all_projects, _created),
    Template("git.last_commit", all_projects, _last_commit),
    Template("git.role", _roles, _role),
    Template("git.maintainer", _lone_maintainers, _maintainer),
    _person("location", "Where does {title} live, by the profile on GitLab?", lambda u: u.location),
    _person(
        "joined",
        "Since when has {title} been a member of GitLab? Answer like January 31, 2024.",
        lambda user: long_day(user.joined),
    ),
    Template("git.followers", people, _followers),
)
