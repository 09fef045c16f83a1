"""Templates of the forum that say what one thinks of it: votes and subscriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.forum.rows import (
    POSTS,
    SORTS,
    SUBSCRIPTIONS,
    USERS,
    VOTES,
    Comment,
    Forum,
    Post,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.forum_paths import (
    START,
    enter,
    findable,
    forums,
    look_up,
    posts_of,
    sort_by,
    texts_first,
    with_one_comment,
)
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, Move
from env_servers.environments.webarena.templates.site_task import SiteTask, WorldCheck
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]


def _voted(*votes: tuple[str, int]) -> WorldCheck:
    """Return the check that these are all votes: `post/12` or `comment/7`, and 1 or -1."""
    wanted = {f"{MEMBER}/{target}": choice for target, choice in votes}
    return lambda world: {vote.id: vote.choice for vote in world[VOTES]} == wanted


def _subscribe(world: World, forum: Forum) -> SiteTask:
    key = f"{MEMBER}/{forum.name}"
    return SiteTask(
        intent=f"I want to follow what is posted in {forum.name}. Subscribe me.",
        start=START,
        check=lambda world: [each.id for each in world[SUBSCRIPTIONS]] == [key],
        plan=(*enter(world, forum.name), ClickOn("button", "Subscribe"), Answer()),
    )


def _subscribe_and_open(world: World, forum: Forum) -> SiteTask:
    key = f"{MEMBER}/{forum.name}"
    a, b, c = forum.tags
    return SiteTask(
        intent=f"Subscribe to the forum whose description names {a}, {b} and {c}.",
        start=f"{START}/forums",
        check=lambda world: [each.id for each in world[SUBSCRIPTIONS]] == [key],
        plan=(*enter(world, forum.name), ClickOn("button", "Subscribe"), Answer()),
    )


def _vote_first(name: str, sort: str, label: str, button: str, wish: str) -> Template[Forum]:
    """Return the template of a vote on the first post of an order."""

    def make(world: World, forum: Forum) -> SiteTask:
        post = posts_of(world, forum.name, sort)[0]
        return SiteTask(
            intent=wish.format(name=forum.name),
            start=START,
            check=_voted((f"post/{post.id}", 1 if button == "Upvote" else -1)),
            plan=(
                *enter(world, forum.name),
                *sort_by(label),
                ClickOn("link", post.title),
                ClickOn("button", button),
                Answer(),
            ),
        )

    return Template(f"forum.{name}", lambda world: texts_first(world, sort), make)


def _upvote_titled(_: World, post: Post) -> SiteTask:
    return SiteTask(
        intent=f'Give the post "{post.title}" an upvote.',
        start=START,
        check=_voted((f"post/{post.id}", 1)),
        plan=(*look_up(post), ClickOn("button", "Upvote"), Answer()),
    )


def _downvote_comment(_: World, chosen: tuple[Post, Comment]) -> SiteTask:
    post, comment = chosen
    return SiteTask(
        intent=f'Vote down the only comment on "{post.title}".',
        start=START,
        check=_voted((f"comment/{comment.id}", -1)),
        plan=(*look_up(post), ClickOn("button", "Downvote", 1), Answer()),
    )


def _several(world: World) -> Sequence[tuple[str, str]]:
    """Authors and forums with two or three posts on the first page of the author's posts."""
    found: list[tuple[str, str]] = []
    for user in sorted(world[USERS], key=lambda user: user.name):
        posts = world[POSTS].where(author=user.name)
        if len(posts) > 25 or len({post.title for post in posts}) < len(posts):
            continue
        for forum, count in Counter(post.forum for post in posts).items():
            if count in (2, 3) and not any(p.url for p in posts if p.forum == forum):
                found.append((user.name, forum))
    return found


def _like_all(world: World, chosen: tuple[str, str]) -> SiteTask:
    author, forum = chosen
    posts = SORTS["new"].sort(world[POSTS].where(author=author, forum=forum))
    moves: list[Move] = []
    for post in posts:
        moves += [ClickOn("link", post.title), ClickOn("button", "Upvote"), ClickOn("link", author)]
    return SiteTask(
        intent=f"Like everything that {author} has submitted to {forum}.",
        start=f"{START}/user/{author}",
        check=_voted(*((f"post/{post.id}", 1) for post in posts)),
        plan=(*moves, Answer()),
    )


TEMPLATES: Final = (
    Template("forum.subscribe", forums, _subscribe),
    Template("forum.subscribe_described", forums, _subscribe_and_open),
    _vote_first("upvote_newest", "new", "New", "Upvote", "Upvote the newest post in {name}."),
    _vote_first(
        "downvote_best", "top", "Top", "Downvote", "Thumbs down the best rated post of {name} ever."
    ),
    Template("forum.upvote_titled", findable, _upvote_titled),
    Template("forum.downvote_comment", with_one_comment, _downvote_comment),
    Template("forum.like_all_of_author", _several, _like_all),
)
