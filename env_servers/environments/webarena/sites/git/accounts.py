"""Signing in and out, and a user's own settings."""

from __future__ import annotations

from starlette.responses import Response

from env_servers.environments.webarena.sites.git.frame import GIT, me
from env_servers.environments.webarena.sites.git.rows import USERS
from env_servers.environments.webarena.sites.visit import Visit

__all__: list[str] = []


@GIT.page("/users/sign_in")
def ask(visit: Visit) -> Response:
    """Ask who the visitor is, unless that is known."""
    if visit.account:
        return visit.redirect("/")
    return visit.render("sign_in.html", back=visit.query.text("back"))


@GIT.form("/users/sign_in", signed_in=False)
def sign_in(visit: Visit) -> Response:
    """Sign a user in by name or email address."""
    login, password = visit.form.text("login").lower(), visit.form.text("password")
    found = visit.world[USERS].get(login) or next(
        (user for user in visit.world[USERS] if user.email == login), None
    )
    if found is None or not password or found.password != password:
        return visit.redirect("/users/sign_in", "Invalid login or password.", failed=True)
    visit.sign_in(found.name)
    return visit.back("/")


@GIT.form("/users/sign_out", signed_in=False)
def sign_out(visit: Visit) -> Response:
    """Sign out."""
    visit.sign_out()
    return visit.redirect("/users/sign_in", "You are signed out.")


@GIT.page("/-/profile", signed_in=True)
def settings(visit: Visit) -> Response:
    """Show what others read of the user."""
    return visit.render("settings.html", user=me(visit))


@GIT.form("/-/profile")
def save(visit: Visit) -> Response:
    """Change what others read of the user."""
    form = visit.form
    title = form.text("title")
    if not title:
        return visit.redirect("/-/profile", "The name can't be blank.", failed=True)
    visit.world[USERS].change(
        me(visit).name,
        title=title,
        status=form.text("status"),
        busy="busy" in form,
        bio=form.text("bio"),
        website=form.text("website"),
        location=form.text("location"),
        organisation=form.text("organisation"),
    )
    return visit.redirect("/-/profile", "Profile was successfully updated.")
