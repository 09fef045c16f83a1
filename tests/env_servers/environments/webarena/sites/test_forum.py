"""The forum: what its pages show, and what its forms do to its tables."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from env_servers.environments.webarena.sites.embedded import embedded_base, new_world
from env_servers.environments.webarena.sites.forum.content import MEMBER, PASSWORD
from env_servers.environments.webarena.sites.forum.rows import (
    COMMENTS,
    FORUMS,
    MAILS,
    POSTS,
    SORTS,
    SUBSCRIPTIONS,
    USERS,
    Post,
)
from tests.env_servers.environments.webarena.sites.browsing import Forms, Visitor

Visit = Callable[..., Visitor]
DIGEST = "f53df79fd9910fb58e204b93d952e59d"
"""Tasks name posts, people and scores: whoever changes the content changes the tasks."""


@pytest.fixture
def forum(visit: Visit) -> Visitor:
    return visit("forum", MEMBER)


def score(visitor: Visitor, number: int) -> int:
    post = visitor.world[POSTS].get(number)
    assert post is not None
    return post.score


def some_post(visitor: Visitor) -> Post:
    return next(p for p in visitor.world[POSTS] if p.author != MEMBER and p.body)


def test_the_content_has_the_promised_size_and_is_the_same_everywhere() -> None:
    world = new_world()
    assert len(world[FORUMS]) >= 100 and len(world[POSTS]) >= 10_000
    assert len(world[COMMENTS]) >= 20_000 and len(world[POSTS].where(author=MEMBER)) > 10
    assert all(comment.created <= world.now for comment in world[COMMENTS])
    assert embedded_base().digest("forum") == DIGEST


def test_every_link_of_the_front_page_and_of_a_post_leads_somewhere(forum: Visitor) -> None:
    links = Forms(forum.get("/").text).links + Forms(forum.get("/f/books/new").text).links
    posts = [link for link in links if re.fullmatch("/f/[a-z]+/[0-9]+/.+", link)]
    links += Forms(forum.get(posts[0]).text).links
    assert len(set(links)) > 60
    assert {forum.get(link).status for link in sorted(set(links)) if link[:1] == "/"} == {200}


@pytest.mark.parametrize("sort", SORTS)
def test_a_forum_is_sorted(forum: Visitor, sort: str) -> None:
    posts = SORTS[sort].sort(forum.world[POSTS].where(forum="books"))
    forum.get(f"/f/books/{sort}?p=2")
    shown = re.findall('<p><a href="/f/books/([0-9]+)/', forum.text)
    assert [int(number) for number in shown] == [post.id for post in posts[25:50]]


def test_the_most_commented_posts_of_a_week_are_listed(forum: Visitor) -> None:
    forum.get("/all/commented?t=week")
    counts = [int(n) for n in re.findall(">([0-9]+) comments?</a>", forum.text)]
    assert counts == sorted(counts, reverse=True) and counts[0] > 3
    assert "month" not in "".join(re.findall("<time.*?</time>", forum.text))


def test_a_vote_counts_once_and_can_be_taken_back(forum: Visitor) -> None:
    post = some_post(forum)
    forum.get(post.path).post(f"/sv/{post.id}", choice=1, back=post.path)
    assert score(forum, post.id) == post.score + 1
    assert 'class="vote vote--user-upvoted"' in forum.text and "Retract upvote" in forum.text
    forum.post(f"/sv/{post.id}", choice=1)
    assert score(forum, post.id) == post.score + 1
    forum.post(f"/sv/{post.id}", choice=-1)
    assert score(forum, post.id) == post.score - 1
    forum.post(f"/sv/{post.id}", choice=0)
    assert score(forum, post.id) == post.score
    comment = next(c for c in forum.world[COMMENTS] if c.author != MEMBER)
    forum.post(f"/cv/{comment.id}", choice=-1)
    assert forum.world[COMMENTS].where(id=comment.id)[0].score == comment.score - 1


def test_a_post_is_made_changed_and_deleted(forum: Visitor) -> None:
    forum.get("/submit/books").submit("/submit", **{"submission[title]": "A good <book>?",
        "submission[body]": "Tell me."})  # fmt: skip
    post = max(forum.world[POSTS], key=lambda post: post.id)
    assert (post.forum, post.author, post.score) == ("books", MEMBER, 1)
    assert forum.path == f"/f/books/{post.id}/a-good-book" and "A good &lt;book&gt;?" in forum.text
    assert "A good &lt;book&gt;?" in forum.get("/f/books/new").text
    assert "A good &lt;book&gt;?" in forum.get("/search?q=%3Cbook%3E+tell&p=999").text
    forum.get(f"{post.path.rpartition('/')[0]}/-/edit")
    forum.submit("/-/edit", **{"submission[body]": "Tell me.\nEDIT: thanks"})
    assert "<p>EDIT: thanks</p>" in forum.text and "(edited)" in forum.text
    forum.submit("/-/delete")
    assert forum.get(post.path).status == 404
    forum.get("/submit").submit("/submit", **{"submission[title]": "No forum"})
    assert "needs a title and a forum" in forum.text


def test_posts_and_comments_are_answered(forum: Visitor) -> None:
    post = some_post(forum)
    before = len(forum.world[COMMENTS].where(post=post.id))
    forum.get(post.path).submit("/-/comment", comment="I agree.")
    first = max(forum.world[COMMENTS], key=lambda comment: comment.id)
    forum.submit(f"/-/comment/{first.id}", comment="Really.")
    answers = forum.world[COMMENTS].where(post=post.id)
    assert len(answers) == before + 2 and answers[-1].parent == first.id
    forum.get(f"/f/{post.forum}/{post.id}/-/comment/{first.id}")
    assert "I agree." in forum.text and "Really." in forum.text
    assert "I agree." in forum.get(f"/user/{MEMBER}/comments").text
    forum.post(f"/comment/{first.id}/delete")
    assert forum.world[COMMENTS].where(id=first.id)[0].text == "[deleted]"


def test_subscriptions_decide_what_the_front_page_shows(forum: Visitor) -> None:
    forum.get("/f/chess").submit("/subscribe")
    assert "Unsubscribe" in forum.text
    assert [s.forum for s in forum.world[SUBSCRIPTIONS].where(account=MEMBER)] == ["chess"]
    assert set(re.findall('in <a href="/f/([a-z]+)"', forum.get("/").text)) == {"chess"}
    forum.get("/f/chess").submit("/unsubscribe")
    assert len(forum.world[SUBSCRIPTIONS]) == 0


def test_a_forum_is_made_and_moderated(forum: Visitor) -> None:
    fields = {"forum[name]": "sci_fi", "forum[title]": "Sci-fi", "forum[description]": "Wild",
        "forum[sidebar]": "New, Classic", "forum[tags]": "a, b"}  # fmt: skip
    forum.get("/create_forum").submit("/create_forum", **fields)
    assert forum.path == "/f/sci_fi" and forum.world[FORUMS].where(name="sci_fi")[0].tags == (
        "a",
        "b",
    )
    forum.get("/f/sci_fi/edit").submit("/edit", **{"forum[sidebar]": "Movies"})
    assert forum.world[FORUMS].where(name="sci_fi")[0].sidebar == "Movies"
    forum.get("/create_forum").submit("/create_forum", **fields)
    assert "There is a forum of this name." in forum.text
    assert forum.get("/f/books/edit").status == 404


def test_biography_and_messages(forum: Visitor) -> None:
    forum.get(f"/user/{MEMBER}/edit_biography")
    forum.submit("/edit_biography", **{"user_biography[biography]": "I am a robot"})
    assert '<div class="user-bio__biography">I am a robot</div>' in forum.text
    other = next(u.name for u in forum.world[USERS] if u.name != MEMBER)
    forum.get(f"/user/{other}/compose_message").submit("compose", **{"message[body]": "Hello!"})
    assert forum.path == "/messages" and "Hello!" in forum.text
    assert [m.receiver for m in forum.world[MAILS] if m.text == "Hello!"] == [other]


def test_nobody_changes_what_is_not_theirs(forum: Visitor) -> None:
    post, before = some_post(forum), forum.world.digest()
    root = f"/f/{post.forum}/{post.id}"
    assert forum.get(f"{root}/-/edit").status == 404
    for path in (f"{root}/-/edit", f"{root}/-/delete", "/f/books/edit", "/user/x/edit_biography"):
        assert forum.post(path, text="x").status == 403
    assert forum.world.digest() == before


def test_guests_read_and_sign_in_to_write(visit: Visit) -> None:
    guest = visit("forum").get("/f/books")
    assert guest.status == 200
    assert guest.post("/f/books/subscribe").path.startswith("/login?back=")
    guest.submit("/login", _username=MEMBER, _password="no")
    assert "Invalid credentials." in guest.text
    guest.get("/login?back=/submit").submit("/login", _username=MEMBER, _password=PASSWORD)
    assert guest.path == "/submit"
    guest.submit("/logout")
    assert "Log in" in guest.text
