"""Templates of the forum that are about reading: who, when, how many, and pages to be shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.webarena.sites.formats import long_day
from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.forum.rows import (
    COMMENTS,
    FORUMS,
    POSTS,
    SORTS,
    USERS,
    Comment,
    Forum,
    Post,
    User,
)
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.forum_paths import (
    PROFILE,
    SERVED,
    START,
    enter,
    findable,
    forums,
    look_up,
    posts_of,
    sort_by,
    texts_first,
)
from env_servers.environments.webarena.templates.plan import Answer, ClickOn, TypeInto
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    answered,
    answered_exactly,
    at_page,
    unachievable,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]


def _of_sidebar(name: str, question: str, told: Callable[[Forum], str]) -> Template[Forum]:
    """Return the template of what stands beside a forum's posts."""

    def make(world: World, forum: Forum) -> SiteTask:
        answer = told(forum)
        return SiteTask(
            intent=question.format(name=forum.name),
            start=START,
            criteria=answered(answer),
            plan=(*enter(world, forum.name), Answer(answer)),
        )

    return Template(f"forum.{name}", forums, make)


def _members(world: World, forum: Forum) -> SiteTask:
    count = f"{forum.members:,}"
    return SiteTask(
        intent=f"How many people subscribe to {forum.name}? Answer with the number as it is shown "
        "on the forum's own page, and nothing else.",
        start=START,
        criteria=answered_exactly(count),
        plan=(*enter(world, forum.name), Answer(count)),
    )


def _pairs(world: World) -> Sequence[tuple[Forum, Forum]]:
    found = forums(world)
    pairs = zip(found, found[1:], strict=False)
    return [(a, b) for a, b in pairs if a.name not in b.name and a.members != b.members]


def _larger(world: World, pair: tuple[Forum, Forum]) -> SiteTask:
    larger = max(pair, key=lambda forum: forum.members)
    return SiteTask(
        intent=f"Which of the two forums {pair[0].name} and {pair[1].name} has more subscribers? "
        "Answer with its name only.",
        start=START,
        criteria=answered_exactly(larger.name),
        plan=(
            *enter(world, pair[0].name),
            *enter(world, pair[1].name),
            Answer(larger.name),
        ),
    )


def _newest_author(world: World, forum: Forum) -> SiteTask:
    author = posts_of(world, forum.name, "new")[0].author
    return SiteTask(
        intent=f"Who wrote the latest post in the forum {forum.name}?",
        start=START,
        criteria=answered(author),
        plan=(*enter(world, forum.name), *sort_by("New"), Answer(author)),
    )


def _registered(world: World, forum: Forum) -> SiteTask:
    author = posts_of(world, forum.name, "new")[0].author
    user = world[USERS].get(author)
    assert user is not None, "posts have accounts"
    day = long_day(user.created)
    return SiteTask(
        intent=f"On which day did the author of the newest post in {forum.name} register? "
        "Write it like March 5, 2021.",
        start=START,
        criteria=answered(day),
        plan=(*enter(world, forum.name), *sort_by("New"), ClickOn("link", author), Answer(day)),
    )


def _with_bio(world: World) -> Sequence[tuple[Forum, User]]:
    found: list[tuple[Forum, User]] = []
    for forum in forums(world):
        user = world[USERS].get(forum.moderator)
        if user is not None and user.bio:
            found.append((forum, user))
    return found


def _biography(world: World, chosen: tuple[Forum, User]) -> SiteTask:
    forum, user = chosen
    return SiteTask(
        intent=f"What does the moderator of {forum.name} say in the biography? Quote it in full.",
        start=START,
        criteria=answered(user.bio),
        plan=(*enter(world, forum.name), ClickOn("link", user.name), Answer(user.bio)),
    )


def _criticised(world: World) -> Sequence[tuple[Forum, User]]:
    """Forums whose newest author has one page of comments."""
    found: list[tuple[Forum, User]] = []
    for forum in forums(world):
        user = world[USERS].get(posts_of(world, forum.name, "new")[0].author)
        if user is not None and 1 <= len(world[COMMENTS].where(author=user.name)) <= 25:
            found.append((forum, user))
    return found


def _downvoted(world: World, chosen: tuple[Forum, User]) -> SiteTask:
    forum, user = chosen
    comments = world[COMMENTS].where(author=user.name)
    count = str(sum(comment.score < 0 for comment in comments))
    return SiteTask(
        intent=f"Look at the author of the latest post in {forum.name}: how many of that user's "
        "comments have a score below zero? Answer with the number only.",
        start=START,
        criteria=answered_exactly(count),
        plan=(
            *enter(world, forum.name),
            *sort_by("New"),
            ClickOn("link", user.name),
            ClickOn("link", "Comments", 1),
            Answer(count),
        ),
    )


def _best_of_all(world: World, forum: Forum) -> SiteTask:
    title = posts_of(world, forum.name, "top")[0].title
    return SiteTask(
        intent=f"What is the title of the post with the highest score ever in {forum.name}?",
        start=START,
        criteria=answered(title),
        plan=(*enter(world, forum.name), *sort_by("Top"), Answer(title)),
    )


def _best_score(world: World, forum: Forum) -> SiteTask:
    score = str(posts_of(world, forum.name, "top")[0].score)
    return SiteTask(
        intent=f"Tell me the score of the best rated post in {forum.name}, as a number only.",
        start=START,
        criteria=answered_exactly(score),
        plan=(*enter(world, forum.name), *sort_by("Top"), Answer(score)),
    )


def _with_replies(world: World) -> Sequence[tuple[Post, Comment]]:
    """Posts that can be found, with the comment that is rated best alone."""
    found: list[tuple[Post, Comment]] = []
    for post in findable(world):
        comments = sorted(world[COMMENTS].where(post=post.id), key=lambda each: -each.score)
        if len(comments) > 1 and comments[0].score > comments[1].score:
            found.append((post, comments[0]))
    return found


def _best_reply(_: World, chosen: tuple[Post, Comment]) -> SiteTask:
    post, comment = chosen
    return SiteTask(
        intent=f'Under the post "{post.title}", which user wrote the comment with the best score?',
        start=START,
        criteria=answered(comment.author),
        plan=(*look_up(post), Answer(comment.author)),
    )


def _own_posts(world: World) -> Sequence[Post]:
    return SORTS["new"].sort(world[POSTS].where(author=MEMBER))[:25]


def _replies_to_own(world: World, post: Post) -> SiteTask:
    count = str(len(world[COMMENTS].where(post=post.id)))
    return SiteTask(
        intent=f'How many comments did my post "{post.title}" in {post.forum} get? Answer with '
        "the number only, 0 for none.",
        start=START,
        criteria=answered_exactly(count),
        plan=(*PROFILE, Answer(count)),
    )


def _words(world: World) -> Sequence[str]:
    words = {tag for forum in world[FORUMS] for tag in forum.tags if tag.isalpha()}
    return sorted(word for word in words if 10 <= len(world[POSTS].search(word)) < 1000)


def _hits(world: World, word: str) -> SiteTask:
    count = str(len(world[POSTS].search(word)))
    return SiteTask(
        intent=f'How many results does the search of the forum site have for "{word}"? '
        "Answer with the number only.",
        start=START,
        criteria=answered_exactly(count),
        plan=(TypeInto("searchbox", "Search query", word, enter=True), Answer(count)),
    )


_ORDERS: Final = {
    "top": ("Top", "with the best rated posts first"),
    "new": ("New", "with the newest posts first"),
    "controversial": ("Controversial", "with the most controversial posts first"),
    "commented": ("Most commented", "sorted by the number of comments"),
}


def _lists(world: World) -> Sequence[tuple[str, str]]:
    return [(forum.name, order) for forum in forums(world) for order in _ORDERS]


def _sorted(world: World, chosen: tuple[str, str]) -> SiteTask:
    name, order = chosen
    label, wish = _ORDERS[order]
    return SiteTask(
        intent=f"Show me the forum {name} {wish}.",
        start=START,
        criteria=at_page(f"{SERVED}/f/{name}/{order}"),
        plan=(*enter(world, name), *sort_by(label), Answer()),
    )


def _best_of_month(world: World, forum: Forum) -> SiteTask:
    return SiteTask(
        intent=f"List the posts of the past month in {forum.name}, best rated ones first.",
        start=START,
        criteria=at_page(f"{SERVED}/f/{forum.name}/top?t=month"),
        plan=(
            *enter(world, forum.name),
            *sort_by("Top"),
            ClickOn("DisclosureTriangle", "From: All"),
            ClickOn("link", "Past month"),
            Answer(),
        ),
    )


def _open_newest(world: World, forum: Forum) -> SiteTask:
    post = posts_of(world, forum.name, "new")[0]
    return SiteTask(
        intent=f"Open the thread of the newest post in {forum.name}.",
        start=START,
        criteria=at_page(SERVED + post.path),
        plan=(*enter(world, forum.name), *sort_by("New"), ClickOn("link", post.title), Answer()),
    )


def _open_titled(_: World, post: Post) -> SiteTask:
    return SiteTask(
        intent=f'Find the discussion "{post.title}" for me.',
        start=START,
        criteria=at_page(SERVED + post.path),
        plan=(*look_up(post), Answer()),
    )


def _open_moderator(world: World, forum: Forum) -> SiteTask:
    return SiteTask(
        intent=f"Take me to the profile of the person who moderates {forum.name}.",
        start=START,
        criteria=at_page(f"{SERVED}/user/{forum.moderator}"),
        plan=(*enter(world, forum.name), ClickOn("link", forum.moderator), Answer()),
    )


def _open_about(world: World, forum: Forum) -> SiteTask:
    a, b, c = forum.tags
    return SiteTask(
        intent=f"Is there a forum whose people talk about {a}, {b} and {c}? Bring me there.",
        start=START,
        criteria=at_page(f"{SERVED}/f/{forum.name}"),
        plan=(*enter(world, forum.name), Answer()),
    )


def _no_mail(world: World, forum: Forum) -> SiteTask:
    return SiteTask(
        intent=f"What is the e-mail address of {forum.moderator}, who moderates {forum.name}?",
        start=START,
        criteria=unachievable(),
        plan=(*enter(world, forum.name), ClickOn("link", forum.moderator), Answer("N/A")),
    )


def _absent(world: World) -> Sequence[str]:
    """Names of forums that nobody has made."""
    names = {"".join(tag.split()) for forum in world[FORUMS] for tag in forum.tags if " " in tag}
    return sorted(name for name in names if name.isalpha() and world[FORUMS].get(name) is None)


def _no_forum(_: World, name: str) -> SiteTask:
    return SiteTask(
        intent=f"Who moderates the forum named {name}?",
        start=START,
        criteria=unachievable(),
        plan=(ClickOn("link", "Forums"), Answer("N/A")),
    )


TEMPLATES: Final = (
    _of_sidebar("moderator", "Who moderates the forum {name}?", lambda forum: forum.moderator),
    _of_sidebar(
        "created",
        "On which day was the forum {name} created? Write it like March 5, 2021.",
        lambda forum: long_day(forum.created),
    ),
    Template("forum.members", forums, _members),
    Template("forum.larger", _pairs, _larger),
    Template("forum.newest_author", forums, _newest_author),
    Template("forum.author_registered", forums, _registered),
    Template("forum.moderator_biography", _with_bio, _biography),
    Template("forum.comments_below_zero", _criticised, _downvoted),
    Template("forum.best_title", lambda world: texts_first(world, "top"), _best_of_all),
    Template("forum.best_score", forums, _best_score),
    Template("forum.best_reply", _with_replies, _best_reply),
    Template("forum.replies_to_own_post", _own_posts, _replies_to_own),
    Template("forum.search_results", _words, _hits),
    Template("forum.show_sorted", _lists, _sorted),
    Template("forum.show_best_of_month", forums, _best_of_month),
    Template("forum.open_newest", lambda world: texts_first(world, "new"), _open_newest),
    Template("forum.open_titled", findable, _open_titled),
    Template("forum.open_moderator", forums, _open_moderator),
    Template("forum.open_about", forums, _open_about),
    Template("forum.no_mail_address", forums, _no_mail),
    Template("forum.no_such_forum", _absent, _no_forum),
)
