"""Code hosting: what can be read, what can be changed, and by whom."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

import pytest

from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.git import ME, PASSWORD
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    ISSUES,
    MEMBERS,
    MERGE_REQUESTS,
    PROJECTS,
    STARS,
    TODOS,
    USERS,
    Project,
    Role,
)
from env_servers.environments.webarena.sites.world import World
from tests.env_servers.environments.webarena.sites.browsing import Forms, Visitor


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
def visitor(world: World) -> Visitor:
    return Visitor(embedded_network(), world, "http://git.test/").signed_in("git", ME)


def own_project(world: World) -> Project:
    return next(
        row
        for row in world[PROJECTS].where(namespace=ME)
        if not row.forked_from and row.visibility == "public"
    )


def foreign_project(world: World) -> Project:
    mine = {row.path for row in world[MEMBERS].where(user=ME)}
    return next(row for row in world[PROJECTS] if row.path not in mine and not row.forked_from)


def said(visitor: Visitor) -> str:
    found = re.search(r'role="(?:status|alert)">([^<]*)<', visitor.text)
    return unescape(found[1]) if found else ""


# ---------------------------------------------------------------------- content


def test_there_are_a_hundred_and_fifty_repositories_with_history_issues_and_members(
    world: World,
) -> None:
    projects = [*world[PROJECTS]]
    assert len(projects) >= 150
    assert len(world[ISSUES]) >= 1_500
    assert len(world[MERGE_REQUESTS]) >= 600
    commits = Counter(row.path for row in world[COMMITS])
    owners = {row.path for row in world[MEMBERS] if row.role is Role.OWNER}
    for project in projects:
        assert commits[project.path] >= 14
        assert project.path in owners
        assert world[FILES].get(f"{project.path}@{project.branch}:README.md") is not None
        if project.forked_from:
            assert world[PROJECTS].get(project.forked_from) is not None


def test_people_that_rows_name_exist(world: World) -> None:
    users = {row.name for row in world[USERS]}
    for issue in world[ISSUES]:
        assert {issue.author, *issue.assignees} <= users
    assert {row.author for row in world[COMMITS]} <= users
    assert len(world[TODOS].where(user=ME)) >= 5


def test_most_pages_that_are_linked_can_be_read_and_reading_changes_nothing(
    world: World, visitor: Visitor
) -> None:
    before = world.digest()
    todo, seen = ["/dashboard/projects"], set[str]()
    while todo and len(seen) < 150:
        path = todo.pop(0)
        seen.add(path)
        status = visitor.get(f"http://git.test{path}").status
        assert status == 200 or (status == 403 and re.search(r"/edit$|/new", path)), path
        links = (link for link in Forms(visitor.text).links if link.startswith("/"))
        todo += [link for link in dict.fromkeys(links) if link not in seen and link not in todo]
    assert world.digest() == before


# ---------------------------------------------------------------------- lists


def numbers(visitor: Visitor) -> list[int]:
    return [int(found) for found in re.findall(r'/-/issues/(\d+)">', visitor.text)]


def test_issues_are_filtered_by_state_label_and_word(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    issues = world[ISSUES].where(path=project.path)
    closed = visitor.get(f"/{project.path}/-/issues?state=closed")
    assert sorted(numbers(closed)) == [row.iid for row in issues if not row.open]
    label = next(row.labels[0] for row in issues if row.labels)
    mark = label.replace(" ", "+")
    visitor.get(f"/{project.path}/-/issues?label_name[]={mark}&sort=created_asc")
    wanted = [row for row in issues if row.open and label in row.labels]
    wanted.sort(key=lambda row: (row.created, row.id))
    assert numbers(visitor) == [row.iid for row in wanted]
    visitor.get(f"/{project.path}/-/issues?label_name[]=&sort=created_asc")
    assert sorted(numbers(visitor)) == sorted(row.iid for row in issues if row.open)
    word = issues[0].title.split()[-1]
    found = numbers(visitor.get(f"/{project.path}/-/issues?state=all&search={word}"))
    assert issues[0].iid in found


def test_own_issues_and_review_requests_are_on_the_dashboard(
    world: World, visitor: Visitor
) -> None:
    mine = [row for row in world[ISSUES] if ME in row.assignees and row.open]
    assert f"{len(mine)} issue" in visitor.get("/dashboard/issues").text
    reviews = [r for r in world[MERGE_REQUESTS] if ME in r.reviewers and r.state == "opened"]
    visitor.get(f"/dashboard/merge_requests?reviewer_username={ME}")
    assert f"{len(reviews)} merge request" in visitor.text


def test_projects_are_sorted_by_stars(world: World, visitor: Visitor) -> None:
    visitor.get("/explore?sort=stars_desc")
    shown = [int(text) for text in re.findall(r"/-/starrers\">(\d+) star", visitor.text)]
    best = max(Counter(row.path for row in world[STARS]).values())
    assert shown == sorted(shown, reverse=True)
    assert shown[0] == best


def test_contributors_are_counted(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    counts = Counter(row.author for row in world[COMMITS].where(path=project.path))
    visitor.get(f"/{project.path}/-/graphs/{project.branch}")
    (name, number), *_ = counts.most_common(1)
    assert re.search(rf"@{name}</a></td><td>[^<]+</td><td>{number} commits", visitor.text)


def test_search_finds_projects_issues_and_people(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    assert f'href="/{project.path}"' in visitor.get(f"/search?search={project.slug}").text
    user = [*world[USERS]][7]
    assert f"@{user.name}" in visitor.get(f"/search?scope=users&search={user.title}").text
    assert "couldn't find any issues" in unescape(
        visitor.get("/search?scope=issues&search=qqqqq").text
    )


# ---------------------------------------------------------------------- changes


def test_signing_in_needs_the_right_password(world: World) -> None:
    guest = Visitor(embedded_network(), world, "http://git.test/")
    guest.get("/dashboard/projects")
    assert guest.path.startswith("/users/sign_in?back=")
    guest.submit("/users/sign_in", login=ME, password="wrong")
    assert said(guest) == "Invalid login or password."
    guest.get("/users/sign_in?back=/dashboard/todos")
    guest.submit("/users/sign_in", login=ME, password=PASSWORD)
    assert guest.path == "/dashboard/todos"
    assert guest.submit("/users/sign_out").path == "/users/sign_in"


def test_an_issue_is_written_labelled_discussed_and_closed(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    member = world[MEMBERS].where(path=project.path)[0].user
    visitor.get(f"/{project.path}/-/issues/new")
    visitor.submit("/-/issues", title="It <b>breaks", assignees=member, due="2025-08-01")
    number = int(visitor.path.rpartition("/")[2])
    issue = world[ISSUES].get(f"{project.path}#{number}")
    assert issue is not None
    assert (issue.title, issue.assignees, issue.author) == ("It <b>breaks", (member,), ME)
    assert "It &lt;b&gt;breaks" in visitor.text
    visitor.submit("/notes", note="Thanks.")
    visitor.submit("/state")
    assert "Closed" in visitor.text
    visitor.get(f"/{project.path}/-/issues/{number}/edit").submit(f"/issues/{number}", title="B")
    changed = world[ISSUES].get(issue.id)
    assert changed is not None
    assert (changed.title, changed.open, changed.assignees) == ("B", False, (member,))
    assert changed.due == issue.due


def test_files_are_added_changed_and_leave_commits(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    before = len(world[COMMITS].where(path=project.path))
    visitor.get(f"/{project.path}/-/new/{project.branch}")
    visitor.submit("/-/new/", name="car/urls.txt", text="a\nb", message="Add urls")
    assert visitor.path == f"/{project.path}/-/blob/{project.branch}/car/urls.txt"
    visitor.get(f"/{project.path}/-/edit/{project.branch}/car/urls.txt")
    visitor.submit("/-/edit/", text="c")
    assert visitor.get(f"/{project.path}/-/raw/{project.branch}/car/urls.txt").text == "c"
    commits = world[COMMITS].where(path=project.path)
    assert len(commits) == before + 2
    visitor.get(f"/{project.path}/-/commits/{project.branch}")
    assert visitor.text.index("Update car/urls.txt") < visitor.text.index("Add urls")


def test_a_merge_request_is_made_and_merged(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    source = project.branches[1]
    visitor.get(f"/{project.path}/-/new/{source}").submit("/-/new/", name="new.md", text="x")
    visitor.get(f"/{project.path}/-/merge_requests/new")
    visitor.submit("/-/merge_requests", title="Take it", source=source, target=project.branch)
    visitor.post(f"{visitor.path}/state", state="merged")
    assert "Merged" in visitor.text
    assert world[FILES].get(f"{project.path}@{project.branch}:new.md") is not None
    visitor.post(f"{visitor.path}/state", state="opened")
    assert said(visitor) == "It is merged already."


def test_members_are_invited_changed_and_removed(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    stranger = next(
        row.name for row in world[USERS] if world[MEMBERS].get(f"{project.path}@{row.name}") is None
    )
    address = f"/{project.path}/-/project_members"
    visitor.get(address).post(address, users=stranger, role="30")
    role = rf'@{stranger}</span></a></td><td class="col-max-role"><span>Developer<'
    assert re.search(role, visitor.text)
    visitor.post(f"{address}/{stranger}", role="20")
    assert world[MEMBERS].where(path=project.path, user=stranger)[0].role is Role.REPORTER
    visitor.post(f"{address}/{stranger}", remove="1")
    assert world[MEMBERS].get(f"{project.path}@{stranger}") is None
    visitor.post(address, users="nobody_at_all", role="10")
    assert said(visitor) == "There is no user @nobody_at_all."


def test_projects_groups_forks_stars_and_follows(world: World, visitor: Visitor) -> None:
    visitor.get("/projects/new").submit("/projects", title="My planner", visibility="private")
    assert visitor.path == f"/{ME}/My-planner"
    visitor.get("/projects/new").submit("/projects", title="My planner")
    assert said(visitor) == "The path has already been taken."
    visitor.get("/groups/new").submit("/groups", title="n-lab")
    visitor.get("/groups/n-lab/-/group_members").post(visitor.path, users="", role="10")
    assert said(visitor) == "Say whom to invite."
    source = foreign_project(world)
    stars = len(world[STARS].where(path=source.path))
    visitor.get(f"/{source.path}").submit("toggle_star")
    assert len(world[STARS].where(path=source.path)) != stars
    visitor.get(f"/{source.path}/-/forks/new").submit("/-/forks")
    assert visitor.path == f"/{ME}/{source.slug}"
    assert source.path in visitor.text
    assert visitor.get(f"/{ME}/{source.slug}/-/blob/{source.branch}/README.md").status == 200
    other = source.namespace if world[USERS].get(source.namespace) else [*world[USERS]][3].name
    visitor.get(f"/{other}").submit("follow")
    assert f'"/{other}"' in visitor.get(f"/users/{ME}/following").text


def test_the_profile_shows_status_and_website(visitor: Visitor) -> None:
    visitor.get("/-/profile").submit("/-/profile", busy="1", status="Away", website="http://x.y")
    visitor.get(f"/{ME}")
    assert '<div class="cover-status"><span>Away</span> <span>Busy</span></div>' in visitor.text
    assert '<p itemprop="url">http://x.y</p>' in visitor.text


def test_milestones_and_labels_are_made(world: World, visitor: Visitor) -> None:
    project = own_project(world)
    visitor.get(f"/{project.path}/-/milestones/new")
    visitor.submit("/-/milestones", title="Launch", start_date="1/16/2026", due_date="2026-01-30")
    assert "January 16, 2026" in visitor.text
    assert "January 30, 2026" in visitor.text
    visitor.get(f"/{project.path}/-/labels").submit("/-/labels", name="urgent!")
    assert "urgent!" in visitor.text


# ---------------------------------------------------------------------- who may


def test_strangers_change_nothing_of_a_project(world: World, visitor: Visitor) -> None:
    path = foreign_project(world).path
    before = world.digest()
    for address, fields in (
        (f"/{path}/-/project_members", {"users": ME, "role": "50"}),
        (f"/{path}/edit", {"title": "Mine"}),
        (f"/{path}/delete", {"confirm": path}),
        (f"/{path}/-/issues/1/state", {"state": "closed"}),
        (f"/{path}/-/new/main", {"name": "x"}),
        (f"/{path}/-/labels", {"name": "x"}),
    ):
        assert visitor.post(address, **fields).status in (403, 404), address
    assert world.digest() == before


def test_a_private_project_is_not_there_for_others(world: World, visitor: Visitor) -> None:
    visitor.get("/projects/new").submit("/projects", title="hidden-thing", visibility="private")
    other = Visitor(embedded_network(), world, "http://git.test/")
    assert other.get(f"/{ME}/hidden-thing").status == 404
    assert "0 results" in other.get("/search?search=hidden-thing").text
    assert "hidden-thing" not in other.get(f"/{ME}").text


def test_a_deleted_project_is_gone(world: World, visitor: Visitor) -> None:
    path = own_project(world).path
    visitor.get(f"/{path}/edit").submit("/delete", confirm="no")
    assert said(visitor) == "Type the path to confirm."
    visitor.submit("/delete", confirm=path)
    assert visitor.get(f"/{path}").status == 404
    assert visitor.get("/dashboard/issues?state=all").status == 200
