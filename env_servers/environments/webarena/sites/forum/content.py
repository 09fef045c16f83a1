"""Builds the database `forum`: 112 forums with a hundred posts each, their comments and people."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any, Final

from env_servers.environments.webarena.sites.formats import slug
from env_servers.environments.webarena.sites.forum.rows import (
    COMMENTS,
    FORUMS,
    MAILS,
    POSTS,
    USERS,
    Comment,
    Forum,
    Mail,
    Post,
    User,
)
from env_servers.environments.webarena.sites.people import TOWNS, nickname
from env_servers.environments.webarena.sites.tables import Content
from env_servers.environments.webarena.sites.wordlists import entries, words
from env_servers.environments.webarena.sites.world import START

__all__ = ["MEMBER", "PASSWORD", "build"]

MEMBER: Final = "quiet_lantern"
"""The account that agents act for."""
PASSWORD: Final = "forum1234"
"""Of every generated account."""
POSTS_PER_FORUM: Final = 100
USERS_COUNT: Final = 1200
_PICTURES: Final = ("pics", "nature", "memes", "cats", "dogs", "birds")
_QUESTIONS: Final = entries(
    "How do I choose a {a} for a beginner?; Which {a} would you buy for {price} dollars?; Is a "
    "{a} worth it after {n} years?; What went wrong with my {a}?; Anybody here from {town} with a "
    "tip on {a} and {b}?; {a} or {b}: which one first?; How often do you replace your {a}?; What "
    "is the best book about {a}?; Why does everybody talk about {a} now?; Can a {a} be repaired "
    "in {n} hours?"
)
_STORIES: Final = entries(
    "My {a} after {n} months; Finally finished my {a} project, it took {n} weeks; I gave up on "
    "{a} and went back to {b}; Found this {a} in {town}; A small trick with {a} that saved me "
    "{price} dollars; {n} things I learned about {a}; Today my {person} taught me about {a}; My "
    "{b} did not survive the {a}; Unpopular opinion: {a} matters more than {b}; Review of a {a} "
    "for {price} dollars"
)
_NEWS: Final = entries(
    "{town} gets a new club for {a}; Study of {n} households looks at {a}; The price of {a} went "
    "up by {n} percent; Meeting about {a} in {town} on July {n}; Free course on {a} begins in "
    "{town}"
)
_BODIES: Final = entries(
    "I have read a lot about {a}, but nothing about {b}.; It cost me {price} dollars in {town}.; "
    "My {person} says that {b} is more important.; I have been at it for {n} months now.; Any "
    "advice is welcome.; Please be kind, this is my first post here.; The {a} is {adjective}, and "
    "I do not know why.; I tried {n} times.; There is a meeting in {town} about it every month.; "
    "Pictures follow tomorrow.; I would start with the {b} next time."
)
_REPLIES: Final = entries(
    "I had the same with my {a}.; Start with the {b}, then look at the {a}.; That is {adjective}, "
    "thank you.; In {town} you get one for {price} dollars.; I disagree, the {a} is {adjective}.; "
    "It took me {n} weeks as well.; Ask in a shop, they are happy to help.; My {person} swears by "
    "it.; This question comes up every week.; Great work!; Could you say more about the {b}?; I "
    "would never pay {price} dollars for that.; Check the {b} first, it is nearly always that.; "
    "Thanks, I learned something about {a} today."
)
_ADJECTIVES: Final = words(
    "noisy great broken odd lovely heavy useful cheap fragile clever dull solid"
)
_PEOPLE: Final = words("neighbor uncle sister colleague teacher daughter friend grandfather")
_BIOS: Final = entries(
    "I mostly read.; Ask me about {a}.; {town}. {a}, {b} and coffee.; Here since the beginning.; "
    "Collector of {a}.; I am learning about {b}."
)


@dataclass(frozen=True, slots=True)
class _Topic:
    """What a forum is about."""

    name: str
    title: str
    things: tuple[str, ...]


def _topics() -> list[_Topic]:
    text = files("env_servers.environments.webarena.sites.forum").joinpath("topics.txt")
    lines = [line for line in text.read_text("utf-8").splitlines() if not line.startswith("#")]
    parts = [[part.strip() for part in line.split("|")] for line in lines if line]
    topics = [_Topic(name, title, entries(things)) for name, title, things in parts]
    return sorted(topics, key=lambda topic: topic.name)


def _text(draw: random.Random, pool: Sequence[str], topic: _Topic) -> str:
    a, b = draw.sample(topic.things, 2)
    sentence = draw.choice(pool).format(
        a=a,
        b=b,
        n=draw.randrange(2, 29),
        price=draw.randrange(2, 60) * 5,
        town=draw.choice(TOWNS)[0],
        person=draw.choice(_PEOPLE),
        adjective=draw.choice(_ADJECTIVES),
    )
    return sentence[0].upper() + sentence[1:]


def _users(topics: Sequence[_Topic]) -> list[User]:
    draw = random.Random("forum users")
    names = {nickname(number) for number in range(USERS_COUNT)} | {MEMBER}
    users: list[User] = []
    for name in sorted(names):
        bio = _text(draw, _BIOS, draw.choice(topics)) if draw.random() < 0.5 else ""
        created = START - timedelta(days=draw.randrange(740, 1800))
        users.append(User(name, PASSWORD, "" if name == MEMBER else bio, created))
    return users


def _forums(topics: Sequence[_Topic], names: Sequence[str]) -> list[Forum]:
    draw = random.Random("forums")
    return [
        Forum(
            topic.name,
            topic.title,
            f"Everything about {topic.things[0]}, {topic.things[1]} and {topic.things[2]}.",
            f"Be kind. Questions about {topic.things[3]} belong here, too.",
            topic.things[:3],
            draw.choice(names),
            START - timedelta(days=draw.randrange(740, 1800)),
            draw.randrange(40, 9000),
        )
        for topic in topics
    ]


def _votes(draw: random.Random) -> tuple[int, int]:
    ups = int(1 + 900 * draw.random() ** 6)
    return ups, int(ups * draw.random() * draw.choice((0.1, 0.2, 0.4, 1.6)))


def _posts(topics: Sequence[_Topic], names: Sequence[str]) -> list[Post]:
    draw = random.Random("forum posts")
    total = len(topics) * POSTS_PER_FORUM
    ages = sorted((draw.randrange(600, 730 * 86400) for _ in range(total)), reverse=True)
    places = [topic for topic in topics for _ in range(POSTS_PER_FORUM)]
    draw.shuffle(places)
    posts: list[Post] = []
    for number, (topic, age) in enumerate(zip(places, ages, strict=True), 1):
        title = _text(draw, draw.choice((_QUESTIONS, _STORIES, _STORIES, _NEWS)), topic)
        author = MEMBER if draw.random() < 0.002 else names[int(len(names) * draw.random() ** 2)]
        is_picture = topic.name in _PICTURES and draw.random() < 0.7
        body = " ".join(_text(draw, _BODIES, topic) for _ in range(draw.choice((0, 1, 2, 3))))
        posts.append(
            Post(
                number,
                topic.name,
                author,
                title,
                slug(title, 48),
                f"/media/{number}.svg" if is_picture else "",
                "" if is_picture else body,
                START - timedelta(seconds=age),
                *_votes(draw),
            )
        )
    return posts


def _comments(
    topics: Sequence[_Topic], names: Sequence[str], posts: Sequence[Post]
) -> list[Comment]:
    draw = random.Random("forum comments")
    by_name = {topic.name: topic for topic in topics}
    comments: list[Comment] = []
    for post in posts:
        here: list[int] = []
        left = int((START - post.created).total_seconds())
        count = draw.choice((0, 0, 1, 1, 2, 2, 3, 4, 5, 9))
        times = sorted(draw.randrange(1, min(left, 5 * 86400)) for _ in range(count))
        for seconds in times:
            number = len(comments) + 1
            parent = draw.choice(here) if here and draw.random() < 0.4 else 0
            author = MEMBER if draw.random() < 0.001 else draw.choice(names)
            pool, topic = _REPLIES, by_name[post.forum]
            text = " ".join(_text(draw, pool, topic) for _ in range(draw.choice((1, 1, 2, 3))))
            time: datetime = post.created + timedelta(seconds=seconds)
            ups = int(1 + 60 * draw.random() ** 5)
            downs = int(ups * draw.random() * draw.choice((0.1, 0.3, 2.5)))
            comments.append(Comment(number, post.id, parent, author, text, time, ups, downs))
            here.append(number)
    return comments


def build() -> list[Content[Any]]:
    """Return all tables of the database; it is the same on every machine."""
    topics = _topics()
    users = _users(topics)
    names = [user.name for user in users if user.name != MEMBER]
    random.Random("busy writers").shuffle(names)
    posts = _posts(topics, names)
    mails = [
        Mail(1, names[3], MEMBER, "Thanks for your comment, it helped.", START - timedelta(days=4)),
        Mail(2, names[8], MEMBER, "Will you come to the meeting?", START - timedelta(days=1)),
    ]
    return [
        Content(FORUMS, _forums(topics, names)),
        Content(USERS, users),
        Content(POSTS, posts),
        Content(COMMENTS, _comments(topics, names, posts)),
        Content(MAILS, mails),
    ]
