"""The encyclopedia: its articles, what links them, and how they are found."""

from __future__ import annotations

import re

import pytest

from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.map import PLACES
from env_servers.environments.webarena.sites.wiki import ARTICLES
from env_servers.environments.webarena.sites.wiki.articles import with_links
from env_servers.environments.webarena.sites.world import World
from tests.env_servers.environments.webarena.sites.browsing import Forms, Visitor


@pytest.fixture(scope="module")
def world() -> World:
    return new_world()


@pytest.fixture
def visitor(world: World) -> Visitor:
    return Visitor(embedded_network(), world, "http://wiki.test/wiki")


def test_there_are_three_thousand_articles_and_no_link_leads_nowhere(world: World) -> None:
    articles = [*world[ARTICLES]]
    assert len(articles) >= 3_000
    for article in articles:
        texts = (article.lead, *(t for _, t in article.facts), *(t for _, t in article.sections))
        for title in re.findall(r"\[\[(.+?)\]\]", " ".join(texts)):
            assert world[ARTICLES].get(title) is not None, (article.title, title)


def test_articles_agree_with_each_other_and_with_the_map(world: World) -> None:
    for work in (*world[ARTICLES].where(kind="novel"), *world[ARTICLES].where(kind="film")):
        facts = dict(work.facts)
        maker = world[ARTICLES].get(work.fact("Author" if work.kind == "novel" else "Director"))
        assert maker is not None
        born = int(maker.fact("Born")[:4])
        assert born < int(facts.get("Published") or facts["Released"]) <= 2024
        assert f"[[{work.title}]]" in dict(maker.sections)["Works"]
    for team in world[ARTICLES].where(kind="team"):
        (ground,) = world[PLACES].where(name=team.fact("Home ground"))
        assert ground.town == team.fact("City")


def test_an_article_shows_its_facts_with_links(world: World, visitor: Visitor) -> None:
    article = world[ARTICLES].where(kind="film")[0]
    visitor.get(article.address)
    assert f">{article.title}</h1>" in visitor.text
    assert article.fact("Running time") in visitor.text
    maker = article.fact("Director").replace(" ", "_")
    assert f"/wiki/{maker}" in Forms(visitor.text).links


def searched(visitor: Visitor, query: str) -> Visitor:
    return visitor.get("/wiki").submit("Special:Search", search=query)


def test_a_search_for_a_title_leads_to_its_article_and_one_for_words_to_a_list(
    visitor: Visitor,
) -> None:
    assert searched(visitor, "denver university").path == "/wiki/Denver_University"
    searched(visitor, "physicist from Seattle who studied")
    assert "Results 1-25 of" in visitor.text
    first = re.search(r"<li><a href=[^>]+>[^<]+</a><p>([^<]+)", visitor.text)
    assert first is not None
    assert "physicist from Seattle" in first[1]
    assert "No articles were found" in searched(visitor, "qqqqq").text


def test_categories_and_the_list_of_all_pages_have_pages(visitor: Visitor) -> None:
    assert "420 articles in this category" in visitor.get("/wiki/Category:Films").text
    first = Forms(visitor.text).links
    assert Forms(visitor.get("/wiki/Category:Films?page=2").text).links != first
    assert "Zoe" in visitor.get("/wiki/Special:AllPages?from=zoe").text


def test_marks_of_links_are_the_only_html_in_a_text() -> None:
    assert with_links("<b> [[A & B]]") == '&lt;b&gt; <a href="/wiki/A_%26_B">A &amp; B</a>'


@pytest.mark.parametrize(
    "path",
    [
        "/wiki/No_such_page",
        "/wiki/Category:None",
        "/wiki/%00",
        "/wiki/Special:Search",
        "/wiki/Special:Search?search=%00%00&page=-1",
        "/wiki/Special:AllPages?from=%FF&page=99999999999",
        "/wiki/Special:Nothing",
        "/",
        "/A/Denver",
    ],
)
def test_bad_input_is_a_page(visitor: Visitor, path: str) -> None:
    assert visitor.get(path).status in (200, 404)
