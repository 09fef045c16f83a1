"""Requests in process: hosts, cookies, sign-in, messages, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from starlette.responses import Response

from env_servers.environments.webarena.sites.embedded import embedded_network
from env_servers.environments.webarena.sites.network import Network, UnknownHost
from env_servers.environments.webarena.sites.serving import addresses
from env_servers.environments.webarena.sites.site import Site
from env_servers.environments.webarena.sites.tables import Base, Table
from env_servers.environments.webarena.sites.visit import Refused, Visit
from env_servers.environments.webarena.sites.world import World
from tests.env_servers.environments.webarena.sites.browsing import Visitor


@dataclass(frozen=True, slots=True)
class Entry:
    id: int
    author: str
    text: str


ENTRIES = Table("guestbook.entries", Entry, indexed=("author",))
PAGE = """{% import "macros.html" as m %}<title>{{ visit.account }}</title><p>{{ message }}</p>
{% for entry in entries %}<li>{{ entry.author }}: {{ entry.text }}</li>{% endfor %}
<form action="/write" method="post">{{ m.back(visit) }}<textarea name="text"></textarea></form>"""


def guestbook(folder: Path) -> Site:
    """A site of two pages and a form, under the forum's host."""
    (folder / "templates").mkdir()
    for name, text in {
        "book.html": PAGE,
        "missing.html": "Nothing here",
        "refused.html": "{{ reason }}",
    }.items():
        (folder / "templates" / name).write_text(text)
    site = Site("forum", folder, sign_in="/login")

    @site.page("/")
    def book(visit: Visit) -> Response:
        return visit.render("book.html", entries=visit.world[ENTRIES])

    @site.page("/login")
    def ask(visit: Visit) -> Response:
        return visit.text(f"who are you? {visit.query.text('back')}")

    @site.page("/mine", signed_in=True)
    def mine(visit: Visit) -> Response:
        entries = visit.world[ENTRIES].where(author=visit.account)
        return visit.render("book.html", entries=entries)

    @site.form("/write")
    def write(visit: Visit) -> Response:
        if not visit.form.text("text"):
            raise Refused("Write something.")
        entries = visit.world[ENTRIES]
        entries.put(Entry(entries.next_id, visit.account, visit.form.text("text")))
        return visit.back("/", "Thank you.")

    return site


@pytest.fixture
def visitor(tmp_path: Path) -> Callable[[], Visitor]:
    network, base = Network([guestbook(tmp_path)]), Base({})
    return lambda: Visitor(network, World(base), "http://forum.test/")


def test_a_form_changes_its_world_alone_and_says_so_once(visitor: Callable[[], Visitor]) -> None:
    one, other = visitor().signed_in("forum", "ada"), visitor()
    one.get("/").submit("/write", text="Hello <b>all</b>")
    assert one.path == "/" and "ada: Hello &lt;b&gt;all&lt;/b&gt;" in one.text
    assert "Thank you." in one.text and "Thank you." not in one.get("/").text
    assert "Hello" not in other.get("/").text


def test_pages_change_nothing(visitor: Callable[[], Visitor]) -> None:
    one = visitor().signed_in("forum", "ada")
    before = one.world.digest()
    assert one.get("/").get("/mine").get("/nowhere").status == 404
    assert one.world.digest() == before


def test_guests_are_asked_who_they_are_and_come_back(visitor: Callable[[], Visitor]) -> None:
    guest = visitor()
    assert guest.get("/mine?a=1").path == "/login?back=%2Fmine%3Fa%3D1"
    assert guest.post("/write", text="hi", back="/mine").path == "/login?back=%2Fmine"
    assert len(guest.world[ENTRIES]) == 0


def test_a_session_of_one_world_is_none_in_another(visitor: Callable[[], Visitor]) -> None:
    one, other = visitor().signed_in("forum", "ada"), visitor()
    other.cookies = one.cookies
    assert "<title>ada</title>" in one.get("/").text
    assert "<title></title>" in other.get("/").text


@pytest.mark.parametrize("path", ["http://evil.test/", "//evil.test/x", "/\\evil.test"])
def test_a_form_leads_to_no_other_host(visitor: Callable[[], Visitor], path: str) -> None:
    one = visitor().signed_in("forum", "ada").post("/write", text="hi", back=path)
    assert one.url == "http://forum.test/"


def test_what_is_refused_says_why(visitor: Callable[[], Visitor]) -> None:
    one = visitor().signed_in("forum", "ada")
    assert one.post("/write", text=" ").status == 403 and "Write something." in one.text
    assert one.post("/", text="x").status == 405
    assert one.get("/?q=" + "a" * 5000).status == 414
    assert one.post("/write", text="a" * 1_100_000).status == 413


def test_a_page_has_one_name_with_and_without_a_slash(visitor: Callable[[], Visitor]) -> None:
    assert visitor().signed_in("forum", "ada").get("/mine/").status == 200


@pytest.mark.parametrize(
    "url", ["http://nowhere.test/", "https://home.test/", "http://home.test:81/", "file:///etc"]
)
def test_other_addresses_have_no_site(url: str) -> None:
    with pytest.raises(UnknownHost, match=r"home\.test"):
        asyncio.run(embedded_network().answer(World(Base({})), "GET", url))


def test_the_home_page_links_to_every_site_also_on_a_port() -> None:
    network, world = embedded_network(), World(Base({}))
    text = Visitor(network, world, "http://home.test/").get("/").text
    for address in ("http://shop.test/", "http://admin.test/admin", "http://wiki.test/wiki"):
        assert f'href="{address}"' in text

    async def on_a_port() -> str:
        transport = httpx.ASGITransport(network.within(world))
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.get(addresses(network, 8123)["home"])).text

    assert 'href="http://admin.localhost:8123/admin"' in asyncio.run(on_a_port())
