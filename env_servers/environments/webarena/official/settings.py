"""The settings of the official sites: `--set webarena.KEY=VALUE`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Final, Self

from env_servers.environments.webarena.browser.shared_browser import NOWHERE
from env_servers.environments.webarena.evaluation import Judge, OfflineJudge, PolicyJudge
from env_servers.environments.webarena.official.accounts import Account, read_accounts
from env_servers.environments.webarena.official.model import ChatModel
from env_servers.environments.webarena.official.reservations import (
    Reservations,
    ResetHook,
    read_hooks,
)
from env_servers.environments.webarena.official.sites import OfficialSites, Site
from env_servers.sdk import EnvironmentUnavailable, InvalidOption

__all__ = ["KEYS", "OfficialSettings"]

_SECONDS: Final[Mapping[str, float]] = {
    "site_seconds": 30.0,
    "wait_seconds": 120.0,
    "judge_seconds": 30.0,
}
"""Times and their defaults. An episode waits for its sites less long than a worker may open it."""
KEYS: Final = (
    *(site.value for site in Site),
    *("accounts", "hosts", "judge", "judge_key_env", "judge_model"),
    *("reset_shopping", "reset_reddit", "reset_gitlab", "reset_seconds"),
    *_SECONDS,
)
"""All settings of the official sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialSettings:
    """What a user says of the official sites."""

    sites: OfficialSites
    accounts: Mapping[Site, Account]
    hooks: Mapping[Site, ResetHook]
    reservations: Reservations
    judge: Judge
    hosts: frozenset[str]
    """Further hosts that pages of the sites need, such as those that serve a map's tiles."""
    site_seconds: float
    """How long a site is waited for."""
    wait_seconds: float
    """How long an episode waits until its sites are free."""

    @property
    def resolver_rules(self) -> str:
        """Chromium's rules: the sites are where they are, and nothing else is anywhere."""
        hosts = self.sites.hosts(Site) | self.hosts
        names = sorted({host.partition(":")[0] for host in hosts})
        return ", ".join([NOWHERE, *(f"EXCLUDE {name}" for name in names)])

    @classmethod
    def read(cls, values: Mapping[str, str]) -> Self:
        """Return the settings of a server; raises InvalidOption and EnvironmentUnavailable."""
        sites = OfficialSites.read(values)
        seconds = {key: _number(values, key, default) for key, default in _SECONDS.items()}
        accounts = values.get("accounts", "")
        return cls(
            sites=sites,
            accounts=read_accounts(Path(accounts).expanduser()) if accounts else {},
            hooks=read_hooks(values),
            reservations=Reservations(_folder(), sites.addresses),
            judge=_judge(values, seconds["judge_seconds"]),
            hosts=frozenset(values.get("hosts", "").replace(",", " ").split()),
            site_seconds=seconds["site_seconds"],
            wait_seconds=seconds["wait_seconds"],
        )


def _folder() -> Path:
    """The folder of locks that all servers of a user on this machine share."""
    return Path(gettempdir()) / f"agentgym-webarena-{os.getuid()}"


def _number(values: Mapping[str, str], key: str, default: float) -> float:
    try:
        number = float(values.get(key, default))
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise InvalidOption(f"setting webarena.{key} must be a positive number")
    return number


def _judge(values: Mapping[str, str], seconds: float) -> Judge:
    address, model = values.get("judge", ""), values.get("judge_model", "")
    if not address and not model:
        return OfflineJudge()
    if not address.startswith(("http://", "https://")) or not model:
        raise InvalidOption(
            "a judge is a model at an OpenAI-compatible server",
            valid="--set webarena.judge=http://HOST:PORT/v1 --set webarena.judge_model=NAME",
        )
    variable = values.get("judge_key_env", "")
    key = os.environ.get(variable, "") if variable else ""
    if variable and not key:
        raise EnvironmentUnavailable(
            f"webarena.judge_key_env names {variable}, and there is no such environment variable"
        )
    return PolicyJudge(model, ChatModel(address.rstrip("/"), model, key, seconds))
