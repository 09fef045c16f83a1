"""The forum's forms: sign-in, votes, subscriptions, posts, comments, forums, messages."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.formats import slug
from env_servers.environments.webarena.sites.forum.frame import FORUM
from env_servers.environments.webarena.sites.forum.reading import forum_of, post_of
from env_servers.environments.webarena.sites.forum.rows import (
    COMMENTS,
    FORUMS,
    MAILS,
    POSTS,
    SUBSCRIPTIONS,
    USERS,
    VOTES,
    Comment,
    Forum,
    Mail,
    Post,
    Subscription,
    Vote,
)
from env_servers.environments.webarena.sites.visit import Missing, Refused, Visit
from env_servers.environments.webarena.sites.world import Records

__all__: list[str] = []

_NAME: Final = re.compile("[A-Za-z0-9_]{3,25}")
MAX_TITLE: Final = 300


@FORUM.form("/login", signed_in=False)
def sign_in(visit: Visit) -> Response:
    """Sign an account in."""
    user = visit.world[USERS].get(visit.form.text("_username"))
    if user is None or user.password != visit.form.text("_password"):
        return visit.redirect("/login", "Invalid credentials.", failed=True)
    visit.sign_in(user.name)
    return visit.back("/")


@FORUM.form("/logout", signed_in=False)
def sign_out(visit: Visit) -> Response:
    """Sign out."""
    visit.sign_out()
    return visit.redirect("/")


def _vote(visit: Visit, kind: str, table: Records[Post] | Records[Comment]) -> Response:
    number = visit.parameters["id"]
    target = table.get(number)
    if target is None:
        raise Missing
    key, votes = f"{visit.account}/{kind}/{number}", visit.world[VOTES]
    before = votes.get(key)
    old = before.choice if before is not None else 0
    new = visit.form.number("choice", 0, low=-1, high=1)
    if new == old:
        return visit.back("/")
    ups = target.ups + (new == 1) - (old == 1)
    downs = target.downs + (new == -1) - (old == -1)
    table.change(number, ups=ups, downs=downs)
    if new:
        votes.put(Vote(key, new))
    else:
        votes.remove(key)
    return visit.back("/")


@FORUM.form("/sv/{id:int}")
def vote_post(visit: Visit) -> Response:
    """Vote for or against a post, or take the vote back."""
    return _vote(visit, "post", visit.world[POSTS])


@FORUM.form("/cv/{id:int}")
def vote_comment(visit: Visit) -> Response:
    """Vote for or against a comment, or take the vote back."""
    return _vote(visit, "comment", visit.world[COMMENTS])


@FORUM.form("/f/{forum}/subscribe")
def subscribe(visit: Visit) -> Response:
    """Follow a forum."""
    forum = forum_of(visit)
    key = f"{visit.account}/{forum.name}"
    if visit.world[SUBSCRIPTIONS].get(key) is None:
        visit.world[SUBSCRIPTIONS].put(Subscription(key, visit.account, forum.name))
    return visit.back(f"/f/{forum.name}")


@FORUM.form("/f/{forum}/unsubscribe")
def unsubscribe(visit: Visit) -> Response:
    """No longer follow a forum."""
    forum = forum_of(visit)
    visit.world[SUBSCRIPTIONS].remove(f"{visit.account}/{forum.name}")
    return visit.back(f"/f/{forum.name}")


@FORUM.form("/submit")
def submit(visit: Visit) -> Response:
    """Make a post."""
    form, posts = visit.form, visit.world[POSTS]
    title, name = form.text("submission[title]"), form.text("submission[forum]")
    url = form.text("submission[url]")
    if not title or len(title) > MAX_TITLE or visit.world[FORUMS].get(name) is None:
        return visit.redirect("/submit", "A post needs a title and a forum.", failed=True)
    if url and re.match("https?://[^ ]+$|/media/", url) is None:
        return visit.redirect("/submit", "This value is not a valid URL.", failed=True)
    number, now = posts.next_id, visit.world.now
    body = form.text("submission[body]")
    post = Post(number, name, visit.account, title, slug(title, 48), url, body, now, 1, 0)
    posts.put(post)
    visit.world[VOTES].put(Vote(f"{visit.account}/post/{number}", 1))
    return visit.redirect(post.path)


def _own_post(visit: Visit) -> Post:
    post = post_of(visit)
    if post.author != visit.account:
        raise Refused("This is not your post.")
    return post


@FORUM.form("/f/{forum}/{id:int}/-/edit")
def edit_post(visit: Visit) -> Response:
    """Change one's own post."""
    post, form = _own_post(visit), visit.form
    title = form.text("submission[title]")
    if not title or len(title) > MAX_TITLE:
        return visit.redirect(f"{post.path}", "A post needs a title.", failed=True)
    changed = visit.world[POSTS].change(
        post.id, title=title, body=form.text("submission[body]"), edited=visit.world.now
    )
    return visit.redirect(changed.path)


@FORUM.form("/f/{forum}/{id:int}/-/delete")
def delete_post(visit: Visit) -> Response:
    """Delete one's own post."""
    post = _own_post(visit)
    visit.world[POSTS].remove(post.id)
    return visit.redirect(f"/f/{post.forum}", "The submission was deleted.")


@FORUM.form("/f/{forum}/{id:int}/-/comment", "/f/{forum}/{id:int}/-/comment/{parent:int}")
def comment(visit: Visit) -> Response:
    """Answer a post or a comment."""
    post, comments = post_of(visit), visit.world[COMMENTS]
    text, parent = visit.form.text("comment"), visit.parameters.get("parent", 0)
    if not text:
        return visit.redirect(post.path, "The comment must not be empty.", failed=True)
    above = comments.get(parent)
    if parent and (above is None or above.post != post.id):
        raise Missing
    number = comments.next_id
    comments.put(Comment(number, post.id, parent, visit.account, text, visit.world.now, 1, 0))
    visit.world[VOTES].put(Vote(f"{visit.account}/comment/{number}", 1))
    return visit.redirect(f"{post.path}#comment_{number}")


@FORUM.form("/comment/{id:int}/delete")
def delete_comment(visit: Visit) -> Response:
    """Delete one's own comment; answers to it stay."""
    comments = visit.world[COMMENTS]
    found = comments.get(visit.parameters["id"])
    if found is None:
        raise Missing
    if found.author != visit.account:
        raise Refused("This is not your comment.")
    comments.change(found.id, text="[deleted]")
    return visit.back("/")


@FORUM.form("/create_forum")
def create_forum(visit: Visit) -> Response:
    """Make a forum, whose moderator one is."""
    form, forums = visit.form, visit.world[FORUMS]
    name, title = form.text("forum[name]"), form.text("forum[title]")
    if _NAME.fullmatch(name) is None or not title or not form.text("forum[description]"):
        text = "A forum needs a name of letters, digits and _, a title and a description."
        return visit.redirect("/create_forum", text, failed=True)
    if forums.get(name) is not None:
        return visit.redirect("/create_forum", "There is a forum of this name.", failed=True)
    tags = tuple(tag.strip() for tag in form.text("forum[tags]").split(",") if tag.strip())
    description, sidebar = form.text("forum[description]"), form.text("forum[sidebar]")
    now = visit.world.now
    forums.put(Forum(name, title, description, sidebar, tags, visit.account, now, 0))
    return visit.redirect(f"/f/{name}")


@FORUM.form("/f/{forum}/edit")
def edit_forum(visit: Visit) -> Response:
    """Change a forum that one moderates."""
    forum, form = forum_of(visit), visit.form
    if forum.moderator != visit.account:
        raise Refused("You do not moderate this forum.")
    title, description = form.text("forum[title]"), form.text("forum[description]")
    if not title or not description:
        text = "A forum needs a title and a description."
        return visit.redirect(f"/f/{forum.name}/edit", text, failed=True)
    tags = tuple(tag.strip() for tag in form.text("forum[tags]").split(",") if tag.strip())
    sidebar = form.text("forum[sidebar]")
    visit.world[FORUMS].change(
        forum.name, title=title, description=description, sidebar=sidebar, tags=tags
    )
    return visit.redirect(f"/f/{forum.name}", "The forum was updated.")


@FORUM.form("/user/{name}/edit_biography")
def save_bio(visit: Visit) -> Response:
    """Change one's own biography."""
    if visit.parameters["name"] != visit.account:
        raise Refused("This is not your account.")
    bio = visit.form.text("user_biography[biography]")
    visit.world[USERS].change(visit.account, bio=bio)
    return visit.redirect(f"/user/{visit.account}")


@FORUM.form("/user/{name}/compose_message")
def send(visit: Visit) -> Response:
    """Send a private message."""
    receiver, mails = visit.world[USERS].get(visit.parameters["name"]), visit.world[MAILS]
    if receiver is None:
        raise Missing
    text = visit.form.text("message[body]")
    if not text:
        page = f"/user/{receiver.name}/compose_message"
        return visit.redirect(page, "The message must not be empty.", failed=True)
    mails.put(Mail(mails.next_id, visit.account, receiver.name, text, visit.world.now))
    return visit.redirect("/messages", "The message was sent.")
