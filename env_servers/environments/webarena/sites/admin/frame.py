"""The shop's administration as a site: its accounts and what they may do.

It works on the tables of the shop: what is changed here, customers see at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.shop.rows import status_name
from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.visit import Refused, Visit

__all__ = ["ACCOUNTS", "ADMIN", "Account", "only_managers"]

ADMIN: Final = Site("admin", Path(__file__).parent, sign_in="/admin")
ADMIN.add_filter("status_name", status_name)
DASHBOARD: Final = "/admin/admin/dashboard/"


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who runs the shop."""

    name: str
    password: str
    is_manager: bool
    """Others see everything, and change nothing but orders."""


ACCOUNTS: Final = {
    account.name: account
    for account in (Account("admin", "admin1234", True), Account("clerk", "clerk1234", False))
}


def only_managers(visit: Visit) -> None:
    """Refuse what the account may not do.

    Raises:
        Refused: It is no manager's.
    """
    if not ACCOUNTS[visit.account].is_manager:
        raise Refused("Sorry, you need permissions to do this.")


@ADMIN.page("/")
def top(visit: Visit) -> Response:
    """Lead to the administration."""
    return visit.redirect("/admin")


@ADMIN.page("/admin", "/admin/admin")
def ask(visit: Visit) -> Response:
    """Ask who the visitor is, or show the dashboard."""
    if visit.account:
        return visit.redirect(DASHBOARD)
    return visit.render("login.html", back=visit.query.text("back"))


@ADMIN.form("/admin/auth/login", signed_in=False)
def sign_in(visit: Visit) -> Response:
    """Sign an account in."""
    account = ACCOUNTS.get(visit.form.text("login[username]"))
    if account is None or account.password != visit.form.text("login[password]"):
        text = "The account sign-in was incorrect or your account is disabled temporarily."
        return visit.redirect("/admin", text, failed=True)
    visit.sign_in(account.name)
    return visit.back(DASHBOARD)


@ADMIN.form("/admin/auth/logout", signed_in=False)
def sign_out(visit: Visit) -> Response:
    """Sign out."""
    visit.sign_out()
    return visit.redirect("/admin", "You have logged out.")
