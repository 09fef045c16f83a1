"""The official WebArena: its task file, and its sites where a user has them.

Contains reading of the 812 tasks, the settings of sites and accounts, signing in, and who may use a
site when. Only `stage` knows a browser: everywhere else, what must be done on a page is done
through `evaluation.Page`.
"""

from env_servers.environments.webarena.official.accounts import Account, read_accounts, sign_in
from env_servers.environments.webarena.official.reservations import Reservations, ResetHook
from env_servers.environments.webarena.official.service import SiteService
from env_servers.environments.webarena.official.sites import OfficialSites, Site
from env_servers.environments.webarena.official.task_file import (
    AGENTEVAL,
    DamagedTasks,
    OfficialTask,
    find_tasks,
    read_tasks,
)

__all__ = [
    "AGENTEVAL",
    "Account",
    "DamagedTasks",
    "OfficialSites",
    "OfficialTask",
    "Reservations",
    "ResetHook",
    "Site",
    "SiteService",
    "find_tasks",
    "read_accounts",
    "read_tasks",
    "sign_in",
]
