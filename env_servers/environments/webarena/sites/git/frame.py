"""The site of code hosting, and what its pages ask again and again: which project, may they.

A private project is missing for everybody but its members, as if it were not there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

from env_servers.environments.webarena.sites.git.rows import (
    GROUPS,
    MEMBERS,
    PROJECTS,
    STARS,
    USERS,
    Member,
    Project,
    Role,
    User,
)
from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.visit import Missing, Refused, Visit
from env_servers.environments.webarena.sites.world import World

__all__ = [
    "GIT",
    "ROLES",
    "invite",
    "me",
    "member_projects",
    "named",
    "project_of",
    "require",
    "role_in",
    "seen_projects",
    "stars_of",
    "user_of",
]

GIT: Final = Site("git", Path(__file__).parent, sign_in="/users/sign_in")
ROLES: Final = tuple((str(role.value), role.title) for role in Role)
MAX_NAME: Final = 60


def me(visit: Visit) -> User:
    """Return the user who is signed in."""
    user = visit.world[USERS].get(visit.account)
    if user is None:
        raise Missing
    return user


def user_of(visit: Visit) -> User:
    """Return the user whom the address names; raises Missing."""
    user = visit.world[USERS].get(visit.parameters["name"])
    if user is None:
        raise Missing
    return user


def role_in(world: World, path: str, user: str) -> Role | None:
    """Return somebody's role in a project, also by its group, or in a group."""
    member = world[MEMBERS].get(f"{path}@{user}") if user else None
    if member is not None:
        return member.role
    namespace, slash, _ = path.partition("/")
    if slash and user:
        if namespace == user:
            return Role.OWNER
        if world[GROUPS].get(namespace) is not None:
            return role_in(world, namespace, user)
    return None


def project_of(visit: Visit, needed: Role | None = None) -> Project:
    """Return the project that the address names.

    Raises:
        Missing: There is none that the visitor may see.
        Refused: The visitor's role is less than needed.
    """
    path = f"{visit.parameters['namespace']}/{visit.parameters['slug']}"
    project = visit.world[PROJECTS].get(path)
    if project is None or not _seen(visit, project):
        raise Missing
    if needed is not None:
        require(visit, path, needed)
    return project


def require(visit: Visit, path: str, needed: Role) -> None:
    """Raise Refused where the visitor's role in a project or group is less than needed."""
    role = role_in(visit.world, path, visit.account)
    if role is None or role < needed:
        raise Refused(f"You need at least the role {needed.title} in {path} for this.")


def _seen(visit: Visit, project: Project) -> bool:
    public = project.visibility == "public"
    return public or role_in(visit.world, project.path, visit.account) is not None


def seen_projects(visit: Visit) -> list[Project]:
    """Return the projects that the visitor may see."""
    return [project for project in visit.world[PROJECTS] if _seen(visit, project)]


def member_projects(world: World, user: str) -> list[Project]:
    """Return the projects of which somebody is a member."""
    paths = {member.path for member in world[MEMBERS].where(user=user)}
    return [project for path in sorted(paths) if (project := world[PROJECTS].get(path)) is not None]


def stars_of(world: World, path: str) -> int:
    """Return how many users starred a project."""
    return len(world[STARS].where(path=path))


def invite(visit: Visit, path: str) -> str:
    """Add the users that a form names to a project or group; returns what is wrong, or nothing."""
    names = [name.strip().removeprefix("@") for name in visit.form.text("users").split(",")]
    names = [name for name in names if name]
    role = Role(int(visit.form.choice("role", [value for value, _ in ROLES], ROLES[0][0])))
    unknown = [name for name in names if visit.world[USERS].get(name) is None]
    if unknown:
        return f"There is no user @{unknown[0]}."
    if not names:
        return "Say whom to invite."
    for name in names:
        row = Member(f"{path}@{name}", path, name, role, visit.world.now.date())
        visit.world[MEMBERS].put(row)
    return ""


def named(text: str) -> str:
    """Return a name as a part of an address, or nothing if it cannot be one."""
    slug = "-".join(text.split())[:MAX_NAME]
    plain = slug.replace("-", "").replace("_", "").replace(".", "")
    return slug if plain.isascii() and plain.isalnum() else ""


GIT.add_filter("quoted", lambda text: quote(str(text), safe="/"))
