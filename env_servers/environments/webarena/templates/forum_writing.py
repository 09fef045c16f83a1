"""Templates of the forum that write on it: posts, replies, messages, forums, one's own account."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.forum.rows import (
    COMMENTS,
    FORUMS,
    MAILS,
    POSTS,
    SORTS,
    USERS,
    Comment,
    Forum,
    Post,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.forum_paths import (
    PROFILE,
    START,
    enter,
    findable,
    forums,
    look_up,
    posts_of,
    sort_by,
    submit_in,
    texts_first,
    with_one_comment,
)
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Keys, Move, TypeInto
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck, unachievable
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES", "posted"]


def posted(forum: str, title: str, body: str = "", url: str = "") -> WorldCheck:
    """Return the check that there is one new post, and what it is like."""

    def check(world: World) -> bool:
        new = _new_posts(world)
        wanted = (forum, MEMBER, title, body, url)
        return [(p.forum, p.author, p.title, p.body, p.url) for p in new] == [wanted]

    return check


def _new_posts(world: World) -> list[Post]:
    last = world.base.content(POSTS).last_id
    return [post for post in world[POSTS].where(author=MEMBER) if post.id > last]


def _replied(post: int, parent: int, text: str) -> WorldCheck:
    """Return the check that there is one new comment, and what it is like."""

    def check(world: World) -> bool:
        last = world.base.content(COMMENTS).last_id
        new = [each for each in world[COMMENTS].where(author=MEMBER) if each.id > last]
        return [(each.post, each.parent, each.text) for each in new] == [(post, parent, text)]

    return check


def _empty(role: str, name: str) -> tuple[Move, ...]:
    """Return the moves that empty a field."""
    return (ClickOn(role, name), Keys("Control+a"), Keys("Backspace"))


def _ask(world: World, forum: Forum) -> SiteTask:
    title = f"What should I know before I spend money on my first {forum.tags[0]}?"
    return SiteTask(
        intent=f'Post my question "{title}" in the forum {forum.name}, with nothing in the body.',
        start=START,
        check=posted(forum.name, title),
        plan=(*submit_in(world, forum.name, title), Answer()),
    )


def _opinions(world: World, forum: Forum) -> SiteTask:
    title = f"{forum.tags[1].capitalize()} and {forum.tags[2]}"
    return SiteTask(
        intent=f'Start a discussion titled "{title}" in {forum.name} and let its body be simply '
        '"What do you think?"',
        start=START,
        check=posted(forum.name, title, "What do you think?"),
        plan=(*submit_in(world, forum.name, title, "What do you think?"), Answer()),
    )


def _share_link(world: World, forum: Forum) -> SiteTask:
    url = f"http://guide-{forum.name}.example/start"
    title = f"A guide to {forum.title.lower()}"
    return SiteTask(
        intent=f'Share the link {url} in {forum.name} under the title "{title}".',
        start=START,
        check=posted(forum.name, title, url=url),
        plan=(
            ClickOn("link", "Submit"),
            TypeInto("textbox", "URL", url),
            TypeInto("textbox", "Title", title),
            TypeInto("combobox", "Forum", forum.name),
            ClickOn("button", "Create submission"),
            Answer(),
        ),
    )


def _meeting(world: World, forum: Forum) -> SiteTask:
    a, b, c = forum.tags
    title = f"Online meeting about {a}"
    body = f"We meet on July {1 + len(forum.name)} at 18:00."
    return SiteTask(
        intent=f'Announce a meeting where people discuss {a}, {b} and {c}: title "{title}", '
        f'body "{body}"',
        start=START,
        check=posted(forum.name, title, body),
        plan=(*submit_in(world, forum.name, title, body), Answer()),
    )


_REPLIES: Final = (
    "Thank you, this is what I was looking for.",
    "Has anybody tried this twice?",
    "I would like to hear how it went on.",
)


def _reply_newest(world: World, forum: Forum) -> SiteTask:
    post = posts_of(world, forum.name, "new")[0]
    text = _REPLIES[len(forum.name) % len(_REPLIES)]
    return SiteTask(
        intent=f'Comment on the newest post in {forum.name} with "{text}"',
        start=START,
        check=_replied(post.id, 0, text),
        plan=(
            *enter(world, forum.name),
            *sort_by("New"),
            ClickOn("link", post.title),
            TypeInto("textbox", "Comment", text),
            ClickOn("button", "Post"),
            Answer(),
        ),
    )


def _reply_comment(_: World, chosen: tuple[Post, Comment]) -> SiteTask:
    post, comment = chosen
    text = _REPLIES[post.id % len(_REPLIES)]
    return SiteTask(
        intent=f"Answer what {comment.author} wrote in this thread about "
        f'"{post.title}" with "{text}"',
        start=START + post.path,
        check=_replied(post.id, comment.id, text),
        plan=(
            ClickOn("DisclosureTriangle", "Reply"),
            TypeInto("textbox", "Comment", text, nth=1),
            ClickOn("button", "Post", 1),
            Answer(),
        ),
    )


def _biography(_: World, forum: Forum) -> SiteTask:
    text = f"Forever learning about {forum.tags[0]}"
    return SiteTask(
        intent=f'Change my bio on the forum to "{text}"',
        start=START,
        check=lambda world: [u.bio for u in world[USERS].where(name=MEMBER)] == [text],
        plan=(
            ClickOn("DisclosureTriangle", MEMBER),
            ClickOn("link", "Edit biography"),
            TypeInto("textbox", "Biography", text),
            ClickOn("button", "Save"),
            Answer(),
        ),
    )


def _mailed(receiver: str, text: str) -> WorldCheck:
    def check(world: World) -> bool:
        last = world.base.content(MAILS).last_id
        new = [mail for mail in world[MAILS] if mail.id > last]
        return [(mail.sender, mail.receiver, mail.text) for mail in new] == [
            (MEMBER, receiver, text)
        ]

    return check


def _write_moderator(world: World, forum: Forum) -> SiteTask:
    text = f"May I post about {forum.tags[1]} in your forum?"
    return SiteTask(
        intent=f'Send the moderator of {forum.name} the private message "{text}"',
        start=START,
        check=_mailed(forum.moderator, text),
        plan=(
            *enter(world, forum.name),
            ClickOn("link", forum.moderator),
            *_message(text),
        ),
    )


def _write_author(_: World, post: Post) -> SiteTask:
    text = "I have the same question, did you find an answer?"
    return SiteTask(
        intent=f'Write a private message to the author of "{post.title}": "{text}"',
        start=START,
        check=_mailed(post.author, text),
        plan=(*look_up(post), ClickOn("link", post.author), *_message(text)),
    )


def _message(text: str) -> tuple[Move, ...]:
    return (
        ClickOn("link", "Send message"),
        TypeInto("textbox", "Message", text),
        ClickOn("button", "Send"),
        Answer(),
    )


def _own_texts(world: World) -> Sequence[Post]:
    """The member's posts that are texts and stand on the first page of the profile."""
    posts = SORTS["new"].sort(world[POSTS].where(author=MEMBER))[:25]
    return [post for post in posts if not post.url]


def _is_post(post: Post, **fields: str) -> Callable[[World], bool]:
    def check(world: World) -> bool:
        now = world[POSTS].get(post.id)
        return now is not None and all(getattr(now, name) == to for name, to in fields.items())

    return check


def _edit_body(_: World, post: Post) -> SiteTask:
    text = f"Solved, thanks to all of {post.forum}."
    return SiteTask(
        intent=f'Replace the body of my post "{post.title}" by "{text}"',
        start=START,
        check=_is_post(post, title=post.title, body=text),
        plan=(
            *PROFILE,
            ClickOn("link", post.title),
            ClickOn("link", "Edit"),
            *_empty("textbox", "Body"),
            TypeInto("textbox", "Body", text),
            ClickOn("button", "Edit submission"),
            Answer(),
        ),
    )


def _edit_title(_: World, post: Post) -> SiteTask:
    title = f"Closed: {post.forum.capitalize()}, number {post.id}"
    return SiteTask(
        intent=f'The title of my post "{post.title}" has to become "{title}".',
        start=START,
        check=_is_post(post, title=title, body=post.body),
        plan=(
            *PROFILE,
            ClickOn("link", post.title),
            ClickOn("link", "Edit"),
            *_empty("textbox", "Title"),
            TypeInto("textbox", "Title", title),
            ClickOn("button", "Edit submission"),
            Answer(),
        ),
    )


def _delete_post(world: World, post: Post) -> SiteTask:
    count = len(world[POSTS])
    return SiteTask(
        intent=f'Delete my post "{post.title}" from {post.forum}.',
        start=START,
        check=lambda world: world[POSTS].get(post.id) is None and len(world[POSTS]) == count - 1,
        plan=(*PROFILE, ClickOn("link", post.title), ClickOn("button", "Delete"), Answer()),
    )


def _create_forum(world: World, forum: Forum) -> SiteTask:
    name = f"{forum.name[:15]}_talk"
    title, about = f"{forum.title} talk", f"Slow talk about {forum.tags[0]}."
    side = f"No {forum.tags[1]} before noon."

    def check(world: World) -> bool:
        new = world[FORUMS].get(name)
        return (
            new is not None
            and (new.title, new.description, new.sidebar) == (title, about, side)
            and new.moderator == MEMBER
        )

    return SiteTask(
        intent=f'Create a forum {name} with the title "{title}", the description "{about}" and '
        f'in the sidebar "{side}"',
        start=START,
        check=check,
        plan=(
            ClickOn("DisclosureTriangle", MEMBER),
            ClickOn("link", "Create forum"),
            TypeInto("textbox", "Name", name),
            TypeInto("textbox", "Title", title),
            TypeInto("textbox", "Description", about),
            TypeInto("textbox", "Sidebar", side),
            ClickOn("button", "Create forum"),
            Answer(),
        ),
    )


def _not_mine(_: World, post: Post) -> SiteTask:
    return SiteTask(
        intent=f'Change the title of the post "{post.title}" to "Sold".',
        start=START,
        criteria=unachievable(),
        plan=(*look_up(post), Answer("N/A")),
    )


TEMPLATES: Final = (
    Template("forum.ask_question", forums, _ask),
    Template("forum.ask_opinions", forums, _opinions),
    Template("forum.share_link", forums, _share_link),
    Template("forum.announce_meeting", forums, _meeting),
    Template("forum.reply_newest", lambda world: texts_first(world, "new"), _reply_newest),
    Template("forum.reply_comment", with_one_comment, _reply_comment),
    Template("forum.edit_biography", forums, _biography),
    Template("forum.message_moderator", forums, _write_moderator),
    Template("forum.message_author", findable, _write_author),
    Template("forum.edit_body", _own_texts, _edit_body),
    Template("forum.edit_title", _own_texts, _edit_title),
    Template("forum.delete_post", _own_texts, _delete_post),
    Template("forum.create_forum", forums, _create_forum),
    Template("forum.edit_foreign_post", findable, _not_mine),
)
