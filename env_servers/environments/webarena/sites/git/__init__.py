"""Code hosting: repositories, issues, merge requests, members, groups, profiles."""

from env_servers.environments.webarena.sites.git import (
    accounts,
    dashboard,
    files,
    issues,
    merge_requests,
    people,
    project,
)
from env_servers.environments.webarena.sites.git.content import ME, PASSWORD, build
from env_servers.environments.webarena.sites.git.frame import GIT

__all__ = [
    "GIT",
    "ME",
    "PASSWORD",
    "accounts",
    "build",
    "dashboard",
    "files",
    "issues",
    "merge_requests",
    "people",
    "project",
]
