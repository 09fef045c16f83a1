"""The forum as a site: who visits it, and how votes and listings are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.forum.rows import COMMENTS, VOTES, Comment, Post
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.visit import Visit
from env_servers.environments.webarena.sites.world import World

__all__ = ["FORUM", "PER_PAGE", "choice_of", "posts_page"]

FORUM: Final = Site("forum", Path(__file__).parent)
PER_PAGE: Final = 25


def choice_of(world: World, account: str, target: Post | Comment) -> int:
    """Return how an account voted: 1, -1 or 0."""
    kind = "post" if isinstance(target, Post) else "comment"
    vote = world[VOTES].get(f"{account}/{kind}/{target.id}")
    return vote.choice if vote is not None else 0


def posts_page(visit: Visit, template: str, posts: Sequence[Post], **values: Any) -> Response:
    """Answer with one page of posts."""
    world, page = visit.world, cut(posts, visit.query.number("p", 1), PER_PAGE)
    rows = [
        (post, len(world[COMMENTS].where(post=post.id)), choice_of(world, visit.account, post))
        for post in page.items
    ]
    return visit.render(template, rows=rows, page=page, **values)
