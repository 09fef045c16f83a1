"""The forum's pages: lists of posts, posts with comments, forums, people, search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from html import escape
from typing import Any, Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.forum.frame import FORUM, choice_of, posts_page
from env_servers.environments.webarena.sites.forum.rows import (
    COMMENTS,
    FORUMS,
    MAILS,
    POSTS,
    SORTS,
    SUBSCRIPTIONS,
    USERS,
    Comment,
    Forum,
    Post,
    User,
)
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__ = ["forum_of", "post_of"]

SPANS: Final = {"day": 1, "week": 7, "month": 30, "year": 365, "all": 100_000}
"""Days by the name of a time that a list can be narrowed to."""


def _sorted(world: World, forum: str | None, sort: str, span: str) -> list[Post]:
    """Return the posts of a forum, or of all, in an order; a span narrows them to new ones."""
    table, order = world[POSTS], SORTS.get(sort)
    if order is None:
        posts = list(table) if forum is None else table.where(forum=forum)
        posts.sort(key=lambda p: (len(world[COMMENTS].where(post=p.id)), p.id), reverse=True)
    else:
        posts = table.ordered(order) if forum is None else order.sort(table.where(forum=forum))
    if span in SPANS and span != "all":
        since = world.now - timedelta(days=SPANS[span])
        posts = [post for post in posts if post.created >= since]
    return posts


@FORUM.page("/comments")
def comments(visit: Visit) -> Response:
    """Show the newest comments."""
    found = sorted(visit.world[COMMENTS], key=lambda c: (c.created, c.id), reverse=True)
    return _comments_page(visit, "comments.html", found)


def _comments_page(
    visit: Visit, template: str, found: Sequence[Comment], **values: Any
) -> Response:
    page = cut(found, visit.query.number("p", 1), 25)
    rows = [
        (
            comment,
            visit.world[POSTS].get(comment.post),
            choice_of(visit.world, visit.account, comment),
        )
        for comment in page.items
    ]
    rows = [row for row in rows if row[1] is not None]
    return visit.render(template, comments=rows, page=page, **values)


@FORUM.page("/forums")
def forums(visit: Visit) -> Response:
    """Show all forums, by name or by their number of subscribers or posts."""
    by, world = (
        visit.query.choice("by", ("name", "subscribers", "submissions"), "name"),
        visit.world,
    )
    rows = [
        (
            f,
            f.members + len(world[SUBSCRIPTIONS].where(forum=f.name)),
            len(world[POSTS].where(forum=f.name)),
        )
        for f in sorted(world[FORUMS], key=lambda forum: forum.name)
    ]
    if by != "name":
        rows.sort(key=lambda row: row[1] if by == "subscribers" else row[2], reverse=True)
    return visit.render("forums.html", page=cut(rows, visit.query.number("p", 1), 50), by=by)


@FORUM.page("/search")
def search(visit: Visit) -> Response:
    """Show the posts that have a word of the search."""
    text = visit.query.text("q")
    posts = visit.world[POSTS].search(text) if text else []
    return posts_page(visit, "search.html", posts, text=text)


@FORUM.page("/submit", signed_in=True)
def submit_form(visit: Visit) -> Response:
    """Show the form for a new post."""
    names = sorted(forum.name for forum in visit.world[FORUMS])
    chosen = visit.parameters.get("forum", "")
    return visit.render("submit.html", names=names, chosen=chosen, post=None)


@FORUM.page("/submit/{forum}", signed_in=True)
def submit_to(visit: Visit) -> Response:
    """Show the form for a new post in a forum."""
    forum_of(visit)
    return submit_form(visit)


@FORUM.page("/login")
def ask_name(visit: Visit) -> Response:
    """Ask who the visitor is."""
    return visit.render("login.html", back=visit.query.text("back", "/"))


@FORUM.page("/messages", signed_in=True)
def messages(visit: Visit) -> Response:
    """Show the private messages of the visitor."""
    own = [m for m in visit.world[MAILS] if visit.account in (m.sender, m.receiver)]
    return visit.render("messages.html", mails=own[::-1])


@FORUM.page("/create_forum", signed_in=True)
def new_forum(visit: Visit) -> Response:
    """Show the form for a new forum."""
    return visit.render("forum_form.html", forum=None)


def forum_of(visit: Visit) -> Forum:
    """Return the forum that an address names, in any spelling."""
    name = visit.parameters["forum"]
    forum = visit.world[FORUMS].get(name) or visit.world[FORUMS].get(name.lower())
    if forum is None:
        raise Missing
    return forum


def post_of(visit: Visit) -> Post:
    """Return the post that an address names."""
    post = visit.world[POSTS].get(visit.parameters["id"])
    if post is None or ("forum" in visit.parameters and post.forum != forum_of(visit).name):
        raise Missing
    return post


@FORUM.page(
    "/f/{forum}/{id:int}",
    "/f/{forum}/{id:int}/-/comment/{comment:int}",
    "/f/{forum}/{id:int}/{slug}",
)
def view_post(visit: Visit) -> Response:
    """Show a post with its comments, or with one of them and what answers it."""
    post, world = post_of(visit), visit.world
    found = world[COMMENTS].where(post=post.id)
    found.sort(key=lambda comment: (-comment.score, comment.id))
    below: dict[int, list[tuple[Comment, int]]] = {}
    for comment in found:
        vote = choice_of(world, visit.account, comment)
        below.setdefault(comment.parent, []).append((comment, vote))
    only = visit.parameters.get("comment")
    top = [pair for pairs in below.values() for pair in pairs if pair[0].id == only]
    if only is not None and not top:
        raise Missing
    return visit.render(
        "post.html",
        post=post,
        count=len(found),
        vote=choice_of(world, visit.account, post),
        top=top if only is not None else below.get(0, []),
        below=below,
        forum=world[FORUMS].get(post.forum),
    )


@FORUM.page("/f/{forum}", "/f/{forum}/{sort}")
def view_forum(visit: Visit) -> Response:
    """Show the posts of a forum."""
    forum, sort, world = forum_of(visit), visit.parameters.get("sort", "hot"), visit.world
    if sort == "edit":
        if forum.moderator != visit.account:
            raise Missing
        return visit.render("forum_form.html", forum=forum)
    if sort not in (*SORTS, "commented"):
        raise Missing
    follows = world[SUBSCRIPTIONS].get(f"{visit.account}/{forum.name}") is not None
    return posts_page(
        visit,
        "forum.html",
        _sorted(world, forum.name, sort, visit.query.text("t", "all")),
        forum=forum,
        sort=sort,
        follows=follows,
        members=forum.members + len(world[SUBSCRIPTIONS].where(forum=forum.name)),
        root=f"/f/{forum.name}",
    )


@FORUM.page("/f/{forum}/{id:int}/-/edit", signed_in=True)
def edit_post_form(visit: Visit) -> Response:
    """Show the form of one's own post."""
    post = post_of(visit)
    if post.author != visit.account:
        raise Missing
    return visit.render("submit.html", names=[post.forum], chosen=post.forum, post=post)


def _user(visit: Visit) -> User:
    user = visit.world[USERS].get(visit.parameters["name"])
    if user is None:
        raise Missing
    return user


@FORUM.page("/user/{name}", "/user/{name}/submissions")
def view_user(visit: Visit) -> Response:
    """Show somebody's posts."""
    user = _user(visit)
    posts = SORTS["new"].sort(visit.world[POSTS].where(author=user.name))
    return posts_page(visit, "user.html", posts, user=user, comments=None)


@FORUM.page("/user/{name}/comments")
def view_comments(visit: Visit) -> Response:
    """Show somebody's comments."""
    user = _user(visit)
    found = visit.world[COMMENTS].where(author=user.name)
    found.sort(key=lambda comment: (comment.created, comment.id), reverse=True)
    return _comments_page(visit, "user.html", found, user=user, rows=[])


@FORUM.page("/user/{name}/edit_biography", signed_in=True)
def edit_bio(visit: Visit) -> Response:
    """Show the form of one's own biography."""
    user = _user(visit)
    if user.name != visit.account:
        raise Missing
    return visit.render("biography.html", user=user)


@FORUM.page("/user/{name}/compose_message", signed_in=True)
def compose(visit: Visit) -> Response:
    """Show the form for a private message."""
    return visit.render("compose.html", user=_user(visit))


@FORUM.page("/media/{id:int}.svg")
def picture(visit: Visit) -> Response:
    """Show a generated picture."""
    post = post_of(visit)
    colors = f"hsl({post.id * 47 % 360},50%,70%)"
    text = escape(post.title)
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="400">'
        f'<rect width="640" height="400" fill="{colors}"/>'
        f'<text x="320" y="205" text-anchor="middle" font-size="18">{text}</text></svg>'
    )
    return Response(svg, media_type="image/svg+xml")


@FORUM.page("/", "/all", "/{sort}", "/all/{sort}")
def front(visit: Visit) -> Response:
    """Show the posts of the forums that the visitor follows, or of all."""
    sort, world = visit.parameters.get("sort", "hot"), visit.world
    if sort not in (*SORTS, "commented"):
        raise Missing
    names = {s.forum for s in world[SUBSCRIPTIONS].where(account=visit.account)}
    is_all = visit.path.startswith("/all") or not names or not visit.account
    posts = _sorted(world, None, sort, visit.query.text("t", "all"))
    if not is_all:
        posts = [post for post in posts if post.forum in names]
    own = sorted(names) if visit.account else []
    return posts_page(visit, "front.html", posts, sort=sort, is_all=is_all, own=own, root="/all")
