"""What the forum keeps: the tables of the database `forum`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from env_servers.environments.webarena.sites.tables import Order, Table

__all__ = [
    "COMMENTS",
    "FORUMS",
    "MAILS",
    "POSTS",
    "SORTS",
    "SUBSCRIPTIONS",
    "USERS",
    "VOTES",
    "Comment",
    "Forum",
    "Mail",
    "Post",
    "Subscription",
    "User",
    "Vote",
]

_EPOCH: Final = datetime(2020, 1, 1)


@dataclass(frozen=True, slots=True)
class Forum:
    """A place for posts on one topic."""

    name: str
    title: str
    description: str
    sidebar: str
    tags: tuple[str, ...]
    moderator: str
    created: datetime
    members: int
    """Subscribers who are no accounts of this site's table."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who posts."""

    name: str
    password: str
    bio: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Post:
    """A submission: a link or a text."""

    id: int
    forum: str
    author: str
    title: str
    slug: str
    url: str
    body: str
    created: datetime
    ups: int
    downs: int
    edited: datetime | None = None

    @property
    def score(self) -> int:
        """Return upvotes less downvotes."""
        return self.ups - self.downs

    @property
    def path(self) -> str:
        """Where the post is."""
        return f"/f/{self.forum}/{self.id}/{self.slug}"

    @property
    def heat(self) -> float:
        """How hot a post is: ten times the score is worth half a day."""
        sign = (self.score > 0) - (self.score < 0)
        return (
            sign * math.log10(max(abs(self.score), 1))
            + (self.created - _EPOCH).total_seconds() / 45_000
        )


@dataclass(frozen=True, slots=True)
class Comment:
    """An answer to a post or to another comment."""

    id: int
    post: int
    parent: int
    """0 for an answer to the post."""
    author: str
    text: str
    created: datetime
    ups: int
    downs: int

    @property
    def score(self) -> int:
        """Return upvotes less downvotes."""
        return self.ups - self.downs


@dataclass(frozen=True, slots=True)
class Vote:
    """What an account thinks of a post or comment."""

    id: str
    """`<account>/post/12` or `<account>/comment/7`."""
    choice: int
    """1 or -1."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """An account follows a forum."""

    id: str
    """`<account>/<forum>`."""
    account: str
    forum: str


@dataclass(frozen=True, slots=True)
class Mail:
    """A private message."""

    id: int
    sender: str
    receiver: str
    text: str
    created: datetime


FORUMS: Final = Table("forum.forums", Forum, key="name")
USERS: Final = Table("forum.users", User, key="name")
POSTS: Final = Table(
    "forum.posts", Post, indexed=("forum", "author"), text=lambda post: f"{post.title} {post.body}"
)
COMMENTS: Final = Table("forum.comments", Comment, indexed=("post", "author"))
VOTES: Final = Table("forum.votes", Vote)
SUBSCRIPTIONS: Final = Table("forum.subscriptions", Subscription, indexed=("account", "forum"))
MAILS: Final = Table("forum.mails", Mail)
SORTS: Final[dict[str, Order[Post]]] = {
    "hot": Order("hot", lambda post: (post.heat, post.id), reverse=True),
    "new": Order("new", lambda post: (post.created, post.id), reverse=True),
    "top": Order("top", lambda post: (post.score, post.id), reverse=True),
    "controversial": Order(
        "controversial", lambda post: (min(post.ups, post.downs), post.id), reverse=True
    ),
}
"""How posts can be sorted."""
