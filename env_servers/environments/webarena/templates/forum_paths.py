"""How the forum's places are reached, and which of its posts can be meant by a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.forum.rows import (
    COMMENTS,
    FORUMS,
    POSTS,
    SORTS,
    Comment,
    Forum,
    Post,
)
from env_servers.environments.webarena.sites.tables import Content
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.plan import ClickOn, Move, TypeInto

__all__ = [
    "PROFILE",
    "SERVED",
    "START",
    "enter",
    "findable",
    "forums",
    "look_up",
    "posts_of",
    "sort_by",
    "submit_in",
    "texts_first",
    "with_one_comment",
]

START: Final = "http://reddit.com"
SERVED: Final = "http://forum.test"
PROFILE: Final[tuple[Move, ...]] = (
    ClickOn("DisclosureTriangle", MEMBER),
    ClickOn("link", "Profile"),
)
"""From any page to one's own posts."""
_LISTED: Final = 50
"""Forums on a page of their list."""


def forums(world: World) -> list[Forum]:
    """Return all forums by name."""
    return sorted(world[FORUMS], key=lambda forum: forum.name)


def enter(world: World, name: str) -> tuple[Move, ...]:
    """Return the moves from any page to a forum."""
    place = [forum.name for forum in forums(world)].index(name)
    more = [ClickOn("link", "More")] * (place // _LISTED)
    return (ClickOn("link", "Forums"), *more, ClickOn("link", name))


def sort_by(label: str, before: str = "Hot") -> tuple[Move, ...]:
    """Return the moves that sort a list of posts."""
    return (ClickOn("DisclosureTriangle", f"Sort by: {before}"), ClickOn("link", label))


def posts_of(world: World, forum: str, sort: str) -> list[Post]:
    """Return the posts of a forum in an order."""
    return SORTS[sort].sort(world[POSTS].where(forum=forum))


def texts_first(world: World, sort: str) -> list[Forum]:
    """Return the forums whose first post in an order has a text and its place alone."""
    return [forum for forum in forums(world) if not _unclear(posts_of(world, forum.name, sort))]


def _unclear(posts: Sequence[Post]) -> bool:
    first, second = posts[:2]
    return bool(first.url) or (first.score == second.score and first.created == second.created)


def findable(world: World) -> Sequence[Post]:
    """Return posts that the search has first for their title, and nothing else has that title."""
    return _findable(world.base.content(POSTS))


@cache
def _findable(content: Content[Post]) -> tuple[Post, ...]:
    posts = content.rows
    titles = Counter(post.title for post in posts.values())
    able = [
        post
        for forum in ("travel", "cooking")
        for post in (posts[key] for key in content.having("forum", forum))
        if titles[post.title] == 1 and not post.url
    ]
    return tuple(post for post in able if next(iter(content.search(post.title))) == post.id)


def look_up(post: Post) -> tuple[Move, ...]:
    """Return the moves from any page to a findable post."""
    return (
        TypeInto("searchbox", "Search query", post.title, enter=True),
        ClickOn("link", post.title),
    )


def with_one_comment(world: World) -> Sequence[tuple[Post, Comment]]:
    """Posts that can be found and have one comment."""
    found = [(post, world[COMMENTS].where(post=post.id)) for post in findable(world)]
    return [(post, comments[0]) for post, comments in found if len(comments) == 1]


def submit_in(world: World, forum: str, title: str, body: str = "") -> tuple[Move, ...]:
    """Return the moves from any page to a new post in a forum."""
    fields = (("Title", title), ("Body", body))
    filled = [TypeInto("textbox", name, text) for name, text in fields if text]
    return (
        *enter(world, forum),
        ClickOn("link", "Submit", 1),
        *filled,
        ClickOn("button", "Create submission"),
    )
