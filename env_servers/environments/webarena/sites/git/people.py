"""Pages of users and groups, which are tried last: their address is a name alone."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.git.frame import (
    GIT,
    seen_projects,
    stars_of,
    user_of,
)
from env_servers.environments.webarena.sites.git.rows import (
    FOLLOWS,
    GROUPS,
    MEMBERS,
    STARS,
    USERS,
    Follow,
)
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.visit import Missing, Refused, Visit

__all__: list[str] = []

_PER_PAGE: Final = 40
_TABS: Final = ("projects", "contributed", "starred", "followers", "following")


@GIT.form("/users/{name}/follow")
def follow(visit: Visit) -> Response:
    """Follow a user, or stop it."""
    user, follows = user_of(visit), visit.world[FOLLOWS]
    if user.name == visit.account:
        raise Refused("Nobody follows themselves.")
    key = f"{visit.account}>{user.name}"
    if follows.get(key) is None:
        follows.put(Follow(key, visit.account, user.name))
    else:
        follows.remove(key)
    return visit.redirect(f"/{user.name}")


@GIT.page("/users/{name}/{tab}")
def tab(visit: Visit) -> Response:
    """Show projects or people of a user."""
    user, name, world = user_of(visit), visit.parameters["tab"], visit.world
    if name not in _TABS:
        raise Missing
    seen = {project.path for project in seen_projects(visit)}
    names = {
        "projects": lambda: [path for path in seen if path.startswith(f"{user.name}/")],
        "contributed": lambda: [
            row.path for row in world[MEMBERS].where(user=user.name) if row.path in seen
        ],
        "starred": lambda: [
            row.path for row in world[STARS].where(user=user.name) if row.path in seen
        ],
        "followers": lambda: [row.user for row in world[FOLLOWS].where(followed=user.name)],
        "following": lambda: [row.followed for row in world[FOLLOWS].where(user=user.name)],
    }[name]()
    found = cut(sorted(names), visit.query.number("page", 1), _PER_PAGE)
    return visit.render("user.html", user=user, tabs=_TABS, tab=name, found=found, **_facts(visit))


@GIT.page("/{name}")
def profile(visit: Visit) -> Response:
    """Show a user, or a group with its projects."""
    name, world = visit.parameters["name"], visit.world
    user, group = world[USERS].get(name), world[GROUPS].get(name)
    if user is None and group is None:
        raise Missing
    if user is not None:
        paths = [row.path for row in seen_projects(visit) if row.namespace == name]
        found = cut(paths, visit.query.number("page", 1), _PER_PAGE)
        facts = _facts(visit)
        return visit.render(
            "user.html", user=user, tabs=_TABS, tab="projects", found=found, **facts
        )
    projects = [row for row in seen_projects(visit) if row.namespace == name]
    counts = {row.path: stars_of(world, row.path) for row in projects}
    return visit.render("group.html", group=group, projects=projects, stars=counts)


def _facts(visit: Visit) -> dict[str, Any]:
    name, follows = visit.parameters["name"], visit.world[FOLLOWS]
    return {
        "followers": len(follows.where(followed=name)),
        "following": len(follows.where(user=name)),
        "followed": follows.get(f"{visit.account}>{name}") is not None,
    }
