"""Generated users, groups, 172 projects, and their issues, merge requests, history and files.

Made of `words.txt` by fixed seeds, one for each project. The agent's own account is `ME`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    FOLLOWS,
    GROUPS,
    ISSUES,
    LABELS,
    MEMBERS,
    MERGE_REQUESTS,
    MILESTONES,
    NOTES,
    PROJECTS,
    STARS,
    TODOS,
    USERS,
    Commit,
    File,
    Follow,
    Group,
    Issue,
    Label,
    Member,
    MergeRequest,
    Milestone,
    Note,
    Project,
    Role,
    Star,
    Todo,
    User,
)
from env_servers.environments.webarena.sites.people import (
    FAMILY_NAMES,
    GIVEN_NAMES,
    TOWNS,
    nickname,
)
from env_servers.environments.webarena.sites.tables import Content
from env_servers.environments.webarena.sites.wordlists import entries, words
from env_servers.environments.webarena.sites.world import START

__all__ = ["ME", "PASSWORD", "build", "commit_id", "vocabulary"]

ME: Final = "byte_weaver"
"""The account that agents are signed in as."""
PASSWORD: Final = "weave-1234"
"""Its password, which everybody may know."""
USER_COUNT: Final = 320
PROJECT_COUNT: Final = 160
FORKS: Final = 12
_GROUP_COUNT: Final = 14
_HISTORY: Final = 720
"""Days that content goes back."""


@cache
def vocabulary() -> Mapping[str, tuple[str, ...]]:
    """Return the lists of `words.txt` by their headings."""
    text = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8")
    found: dict[str, tuple[str, ...]] = {}
    for block in text.split("[")[1:]:
        name, _, content = block.partition("]")
        found[name] = entries(content) if ";" in content else words(content)
    return found


def commit_id(*parts: object) -> str:
    """Return a name of 40 hexadecimal digits for what these say."""
    return hashlib.sha1(repr(parts).encode(), usedforsecurity=False).hexdigest()


@dataclass(slots=True)
class _Tables:
    """Rows as they are made."""

    users: list[User] = field(default_factory=list[User])
    groups: list[Group] = field(default_factory=list[Group])
    projects: list[Project] = field(default_factory=list[Project])
    members: list[Member] = field(default_factory=list[Member])
    stars: list[Star] = field(default_factory=list[Star])
    labels: list[Label] = field(default_factory=list[Label])
    milestones: list[Milestone] = field(default_factory=list[Milestone])
    issues: list[Issue] = field(default_factory=list[Issue])
    requests: list[MergeRequest] = field(default_factory=list[MergeRequest])
    notes: list[Note] = field(default_factory=list[Note])
    commits: list[Commit] = field(default_factory=list[Commit])
    files: list[File] = field(default_factory=list[File])


def build() -> Sequence[Content[Any]]:
    """Build the database of code hosting."""
    made = _Tables()
    draw = random.Random("git")
    made.users = list(_users(draw))
    made.groups = list(_groups())
    for number, project in enumerate(_projects(draw, made)):
        _Maker(made, project, number).make()
    return [
        Content(USERS, sorted(made.users, key=lambda row: row.name)),
        Content(GROUPS, sorted(made.groups, key=lambda row: row.name)),
        Content(PROJECTS, sorted(made.projects, key=lambda row: row.path)),
        Content(MEMBERS, sorted(made.members, key=lambda row: row.id)),
        Content(STARS, sorted(made.stars, key=lambda row: row.id)),
        Content(FOLLOWS, sorted(_follows(draw, made), key=lambda row: row.id)),
        Content(LABELS, sorted(made.labels, key=lambda row: row.id)),
        Content(MILESTONES, sorted(made.milestones, key=lambda row: row.id)),
        Content(ISSUES, sorted(made.issues, key=lambda row: row.id)),
        Content(MERGE_REQUESTS, sorted(made.requests, key=lambda row: row.id)),
        Content(NOTES, made.notes),
        Content(COMMITS, sorted(made.commits, key=lambda row: row.id)),
        Content(FILES, sorted(made.files, key=lambda row: row.id)),
        Content(TODOS, list(_todos(made))),
    ]


def _users(draw: random.Random) -> Iterator[User]:
    names = [f"{given} {family}" for given in GIVEN_NAMES for family in FAMILY_NAMES]
    titles = draw.sample(names, USER_COUNT)
    for number, title in enumerate(titles):
        name = ME if number == 0 else nickname(2000 + number)
        town = draw.choice(TOWNS)
        yield User(
            name=name,
            title=title,
            email=f"{title.lower().replace(' ', '.')}@mail.example",
            joined=START.date() - timedelta(days=draw.randrange(300, 3000)),
            password=PASSWORD if name == ME else "",
            bio=draw.choice(vocabulary()["purposes"]) if draw.random() < 0.5 else "",
            website=f"http://{name.replace('_', '-')}.example" if draw.random() < 0.3 else "",
            location=f"{town[0]}, {town[1]}" if draw.random() < 0.7 else "",
        )


def _groups() -> Iterator[Group]:
    draw = random.Random("git.groups")
    for name in draw.sample(vocabulary()["nouns"], _GROUP_COUNT):
        about = f"Everything around our {name}."
        yield Group(f"{name}-labs", f"{name.capitalize()} Labs", about, "public")


def _projects(draw: random.Random, made: _Tables) -> Iterator[Project]:
    lists = vocabulary()
    pairs = [f"{a}-{b}" for a in lists["adjectives"] for b in lists["nouns"]]
    slugs = draw.sample(pairs, PROJECT_COUNT)
    originals: list[Project] = []
    for number, slug in enumerate(slugs):
        if number < 8:
            namespace = ME
        elif number % 3 == 0:
            namespace = made.groups[number // 3 % len(made.groups)].name
        else:
            namespace = made.users[number * 7 % USER_COUNT].name
        project = _project(draw, namespace, slug)
        originals.append(project)
        yield project
    for number in range(FORKS):
        source = originals[20 + number * 11]
        owner = made.users[5 + number * 3].name
        if number < 2:
            owner = ME
        yield _fork(source, owner)


def _project(draw: random.Random, namespace: str, slug: str) -> Project:
    created = START - timedelta(days=draw.randrange(200, _HISTORY), minutes=draw.randrange(1440))
    branch = draw.choice(("main", "main", "master"))
    topics = draw.sample(vocabulary()["nouns"], 3)
    return Project(
        path=f"{namespace}/{slug}",
        namespace=namespace,
        slug=slug,
        title=slug,
        about=f"{draw.choice(vocabulary()['purposes'])}.",
        visibility="private" if draw.random() < 0.08 and namespace == ME else "public",
        branches=(branch, *(f"feature/{topic}" for topic in topics)),
        created=created,
        updated=created,
        language=draw.choice(vocabulary()["languages"]),
        licence=draw.choice(("", *vocabulary()["licences"])),
    )


def _fork(source: Project, owner: str) -> Project:
    return replace(
        source,
        path=f"{owner}/{source.slug}",
        namespace=owner,
        visibility="public",
        forked_from=source.path,
        created=source.created + timedelta(days=60),
    )


class _Maker:
    """Makes what belongs to one project."""

    def __init__(self, made: _Tables, project: Project, number: int) -> None:
        self.made = made
        self.project = project
        self.number = number
        self.draw = random.Random(f"git.projects/{project.path}")
        self.lists = vocabulary()

    def make(self) -> None:
        """Add the project and everything in it."""
        self.people = self._members()
        self._stars()
        self._labels()
        newest = self._commits()
        self.made.projects.append(_updated(self.project, newest))
        if not self.project.forked_from:
            self._issues()
            self._requests()

    def _when(self, after: datetime | None = None) -> datetime:
        first = after or self.project.created
        return first + (START - first) * self.draw.random()

    def _members(self) -> list[str]:
        path, users = self.project.path, self.made.users
        owner = self.project.namespace
        if all(user.name != owner for user in users):
            owner = users[self.number % 40].name
        others = [u.name for u in self.draw.sample(users, self.draw.randrange(3, 9))]
        chosen = [owner, *(name for name in others if name != owner)]
        for place, name in enumerate(chosen):
            role = Role.OWNER if place == 0 else self.draw.choice(list(Role)[:4])
            since = self._when().date()
            self.made.members.append(Member(f"{path}@{name}", path, name, role, since))
        return chosen

    def _stars(self) -> None:
        path = self.project.path
        count = int(self.draw.paretovariate(0.9) * 2) % 180 + (self.number * 37) % 23
        for user in self.draw.sample(self.made.users, count):
            self.made.stars.append(Star(f"{path}@{user.name}", path, user.name))

    def _labels(self) -> None:
        path = self.project.path
        names = sorted(self.draw.sample(self.lists["labels"], self.draw.randrange(5, 10)))
        self.labels = names
        for name in names:
            hue = 37 * len(name) % 360
            self.made.labels.append(Label(f"{path}~{name}", path, name, hue))
        self.milestones = [f"v{n}.{self.draw.randrange(0, 9)}" for n in (1, 2)]
        for number, title in enumerate(self.milestones, start=1):
            due = START.date() + timedelta(days=self.draw.randrange(-90, 120))
            start = due - timedelta(days=45)
            about = f"What belongs into {title}."
            row = Milestone(f"{path}%{number}", path, number, title, about, start, due)
            self.made.milestones.append(row)

    def _commits(self) -> datetime:
        """Add the history and the files that it left; returns when the last commit was."""
        names = self._file_names()
        authors = self.people[: self.draw.randrange(2, 6)]
        weights = [self.draw.randrange(1, 12) for _ in authors]
        count = self.draw.randrange(14, 46)
        times = sorted(self._when() for _ in range(count))
        by_name = {user.name: user for user in self.made.users}
        last: dict[str, Commit] = {}
        for number, time in enumerate(times):
            author = by_name[self.draw.choices(authors, weights)[0]]
            name = names[number % len(names)]
            verb = self.draw.choice(self.lists["commit verbs"]) if number else "Add"
            part = self.draw.choice(self.lists["issue parts"]) if number else "first files"
            commit = Commit(
                id=commit_id(self.project.path, number),
                path=self.project.path,
                branch=self.project.branch,
                author=author.name,
                email=author.email,
                title=f"{verb} {part}",
                created=time.replace(microsecond=0),
                files=(name,),
            )
            self.made.commits.append(commit)
            last[name] = commit
        first = next(iter(last.values()))
        for branch in self.project.branches:
            for name in names:
                commit = last.get(name, first)
                self.made.files.append(self._file(name, branch, commit))
        return times[-1].replace(microsecond=0)

    def _file_names(self) -> list[str]:
        endings = {"Python": "py", "JavaScript": "js", "Go": "go", "Rust": "rs", "Ruby": "rb"}
        endings |= {"TypeScript": "ts", "Java": "java", "C++": "cpp", "Shell": "sh", "HTML": "html"}
        ending = endings[self.project.language]
        stems = self.draw.sample(self.lists["nouns"], 4)
        names = ["README.md", "CONTRIBUTING.md", f"src/{stems[0]}.{ending}"]
        names += [f"src/{stems[1]}.{ending}", f"tests/test_{stems[0]}.{ending}", "docs/index.md"]
        names += [f"config/{stems[2]}.toml"]
        return [*names, "LICENSE"] if self.project.licence else names

    def _file(self, name: str, branch: str, commit: Commit) -> File:
        path = self.project.path
        return File(f"{path}@{branch}:{name}", path, branch, name, self._content(name), commit.id)

    def _content(self, name: str) -> str:
        project = self.project
        if name == "README.md":
            return (
                f"# {project.title}\n\n{project.about}\n\n## Installation\n\n"
                f"Download release {self.milestones[0]} and run `install {project.slug}`.\n\n"
                f"## Contact\n\nAsk @{self.people[0]} or open an issue.\n"
            )
        if name == "LICENSE":
            return f"{project.licence}\n\nCopyright {project.created.year} {self.people[0]}\n"
        if name.endswith(".toml"):
            port = 3000 + self.number * 7 % 5000
            return f'name = "{project.slug}"\nport = {port}\nworkers = {self.number % 8 + 1}\n'
        if name.endswith(".md"):
            return f"# {name}\n\nHow to work on {project.title}.\n"
        return f"{self.lists['purposes'][len(name) % 20]}\n\nversion = {self.milestones[-1]}\n"

    def _issues(self) -> None:
        taken: set[str] = set()
        for number in range(1, self.draw.randrange(8, 19)):
            path = self.project.path
            title = self._issue_title()
            if title in taken:
                title = f"{title} again"
            taken.add(title)
            created = self._when().replace(microsecond=0)
            key = f"{path}#{number}"
            author = self.draw.choice(self.made.users).name
            updated = self._discuss(key, created)
            due = self.draw.random() < 0.2
            issue = Issue(
                id=key,
                path=path,
                iid=number,
                title=title,
                text=f"Seen with {self.draw.choice(self.milestones)}: {title.lower()}.",
                author=author,
                assignees=tuple(self.draw.sample(self.people, self.draw.choice((0, 0, 1, 1, 2)))),
                labels=tuple(sorted(self.draw.sample(self.labels, self.draw.choice((0, 1, 1, 2))))),
                milestone=self.draw.choice(("", "", *self.milestones)),
                due=START.date() + timedelta(days=self.draw.randrange(90)) if due else None,
                open=self.draw.random() < 0.6,
                created=created,
                updated=updated,
            )
            self.made.issues.append(issue)

    def _issue_title(self) -> str:
        if self.draw.random() < 0.35:
            part = self.draw.choice(self.lists["issue parts"])
            return f"{self.draw.choice(self.lists['wishes'])} for {part}"
        part = self.draw.choice(self.lists["issue parts"])
        verb = self.draw.choice(self.lists["issue verbs"])
        return f"{part[0].upper()}{part[1:]} {verb} {self.draw.choice(self.lists['issue cases'])}"

    def _requests(self) -> None:
        path = self.project.path
        for number in range(1, self.draw.randrange(4, 9)):
            created = self._when().replace(microsecond=0)
            key = f"{path}!{number}"
            branch = self.project.branches[1 + number % 3]
            verb = self.draw.choice(self.lists["commit verbs"])
            part = self.draw.choice(self.lists["issue parts"])
            self.made.requests.append(
                MergeRequest(
                    id=key,
                    path=path,
                    iid=number,
                    title=f"{verb} {part} ({branch.partition('/')[2]})",
                    text=f"Closes #{self.draw.randrange(1, 8)}.",
                    author=self.draw.choice(self.people),
                    assignees=tuple(self.draw.sample(self.people, 1)),
                    reviewers=tuple(self.draw.sample(self.people, self.draw.choice((0, 1, 1)))),
                    labels=tuple(self.draw.sample(self.labels, self.draw.choice((0, 1)))),
                    source=branch,
                    target=self.project.branch,
                    state=self.draw.choice(("opened", "opened", "merged", "closed")),
                    created=created,
                    updated=self._discuss(key, created),
                )
            )

    def _discuss(self, key: str, created: datetime) -> datetime:
        """Add comments; returns when the last one was."""
        time = created
        for _ in range(self.draw.choice((0, 0, 1, 1, 2, 3))):
            time = self._when(time).replace(microsecond=0)
            author = self.draw.choice(self.made.users).name
            text = self.draw.choice(self.lists["replies"])
            self.made.notes.append(Note(len(self.made.notes) + 1, key, author, text, time))
        return time


def _updated(project: Project, time: datetime) -> Project:
    return replace(project, updated=time)


def _follows(draw: random.Random, made: _Tables) -> Iterator[Follow]:
    for user in made.users:
        for other in draw.sample(made.users, draw.randrange(0, 6)):
            if other is not user:
                yield Follow(f"{user.name}>{other.name}", user.name, other.name)


def _todos(made: _Tables) -> Iterator[Todo]:
    """What waits for the agent's account."""
    found: list[tuple[str, str, str, str, datetime]] = [
        ("assigned you", row.author, f"/{row.path}/-/issues/{row.iid}", row.title, row.updated)
        for row in made.issues
        if row.open and ME in row.assignees
    ]
    found += [
        (
            "requested a review from you",
            row.author,
            f"/{row.path}/-/merge_requests/{row.iid}",
            row.title,
            row.updated,
        )
        for row in made.requests
        if row.state == "opened" and ME in row.reviewers
    ]
    for number, (what, author, on, title, time) in enumerate(found, start=1):
        yield Todo(number, ME, author, what, on, title, time)
