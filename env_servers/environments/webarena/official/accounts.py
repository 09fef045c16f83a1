"""Whom the agent is signed in as, and how signing in works on any of the sites.

Accounts are in a JSON file that the setting `webarena.accounts` names, so that no password stands
in a command line or a record: `{"gitlab": {"name": "...", "password": "..."}}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from env_servers.environments.webarena.evaluation import Page, PageFailed
from env_servers.environments.webarena.official.sites import Site
from env_servers.sdk import EnvironmentUnavailable, InvalidOption

__all__ = ["Account", "LoginRefused", "expires_soon", "is_signed_in", "read_accounts", "sign_in"]

MARGIN: Final = 45 * 60
"""Seconds that a login must still last when an episode begins, as the original has it."""
_PATHS: Final[Mapping[Site, str]] = {
    Site.SHOPPING: "/customer/account/login/",
    Site.SHOPPING_ADMIN: "",
    Site.REDDIT: "/login",
    Site.GITLAB: "/users/sign_in",
}
_MEMBERS_PAGES: Final[Mapping[Site, str]] = {
    Site.SHOPPING: "/wishlist/",
    Site.SHOPPING_ADMIN: "/dashboard/",
    Site.REDDIT: "/messages",
    Site.GITLAB: "/dashboard/todos",
}
"""Pages without a password of their own, from which guests are led to one that asks for theirs."""
_ASKS: Final = "document.querySelector('input[type=password]') !== null"
_SHOWN: Final = f"""!({_ASKS}) &&
  performance.getEntriesByType("navigation")[0].responseStatus < 400"""
_FILL: Final = """(() => {
  const secret = document.querySelector("input[type=password]");
  const fields = [...secret.form.querySelectorAll("input")].filter((input) =>
    ["text", "email"].includes(input.type) && input.offsetParent !== null);
  const name = fields[fields.length - 1];
  for (const [input, text] of [[name, %s], [secret, %s]]) {
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }
  const button = secret.form.querySelector("button[type=submit], input[type=submit], button");
  button ? button.click() : secret.form.requestSubmit();
})()"""


class LoginRefused(EnvironmentUnavailable):
    """Raised where a site does not let the account in, or no account is known."""


@dataclass(frozen=True, slots=True)
class Account:
    """A name and a password on one site."""

    name: str
    password: str = field(repr=False)


def read_accounts(path: Path) -> Mapping[Site, Account]:
    """Return the accounts of a file; raises InvalidOption, which never repeats the content."""
    try:
        entries: Any = json.loads(path.read_text(encoding="utf-8"))
        return {
            Site(site): Account(_text(entry, "name"), _text(entry, "password"))
            for site, entry in cast("dict[str, Any]", entries).items()
        }
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidOption(
            f"setting webarena.accounts names {path}, which is no file of accounts "
            f"({type(error).__name__})",
            valid='{"SITE": {"name": TEXT, "password": TEXT}}',
        ) from None


def _text(entry: Any, name: str) -> str:
    value = entry[name]
    if not isinstance(value, str) or not value:
        raise ValueError(name)
    return value


async def is_signed_in(page: Page, site: Site, address: str) -> bool:
    """Return whether a site shows a page that only members see; raises LoginRefused."""
    place = address + _MEMBERS_PAGES[site]
    try:
        await page.goto(place)
        return bool(await page.evaluate(_SHOWN))
    except PageFailed as error:
        raise LoginRefused(f"whether {site} knows its login cannot be seen: {error}") from error


async def sign_in(page: Page, site: Site, address: str, account: Account | None) -> None:
    """Sign in on a site through its own form; raises LoginRefused."""
    if account is None:
        raise LoginRefused(
            f"the task is played signed in on {site}, and no account is known: "
            "say --set webarena.accounts=FILE"
        )
    login = address + _PATHS[site]
    try:
        await page.goto(login)
        if not await page.evaluate(_ASKS):
            raise LoginRefused(f"{login} has no form that asks for a password")
        await page.run(_FILL % (json.dumps(account.name), json.dumps(account.password)))
    except PageFailed as error:
        raise LoginRefused(f"signing in on {login} as {account.name} failed: {error}") from error
    if not await is_signed_in(page, site, address):
        raise LoginRefused(
            f"{site} at {address} does not let {account.name} in: after signing in it still asks "
            f"for a password, or has no {_MEMBERS_PAGES[site]}. Look at the file of "
            "webarena.accounts"
        )


def expires_soon(state: Mapping[str, Any], now: float) -> bool:
    """Return whether a browser's stored login ends within `MARGIN` seconds of a time."""
    ends = [float(cookie.get("expires", -1)) for cookie in state.get("cookies", ())]
    kept = [end for end in ends if end > 0]
    return not ends or (bool(kept) and min(kept) < now + MARGIN)
