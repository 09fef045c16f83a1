"""Pages and the moves between them, on the embedded shop and on a small official one."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_servers.environments.webshop import WebShop
from env_servers.environments.webshop.official import clean_product
from env_servers.environments.webshop.pages import done_page, results_page, search_page, sub_page
from env_servers.environments.webshop.tasks import WebShopTasks
from env_servers.environments.webshop.visit import read_action
from env_servers.sdk import EnvironmentConfig, InvalidOption, ResetOptions, StopReason
from tests.env_servers.environments.webshop.conftest import (
    LAMP_FACTS,
    play,
    raw_product,
    start,
    write_catalogue,
)

LAMP_TASK = "Find me desk lamps with clear glass with color: blue"


@pytest.fixture(scope="module")
def lamps(tmp_path_factory: pytest.TempPathFactory) -> WebShopTasks:
    products = [raw_product(n) for n in range(25)]
    products[3]["pricing"] = "$20.00 - $60.00"
    facts = {"B000000003": LAMP_FACTS} | {f"B0000000{n:02d}": {} for n in range(25) if n != 3}
    folder = write_catalogue(tmp_path_factory.mktemp("data"), products, facts)
    return WebShop.load_tasks(EnvironmentConfig(folder))


def lamp(tasks: WebShopTasks, profile: str = "agentgym", **options: object) -> WebShop:
    """An episode whose goal is the blue lamp number 3."""
    items = ("webshop_0", "webshop_1")
    wanted = [n for n in items if "blue" in tasks.get(n).payload.goal.instruction]
    return start(tasks, wanted[0], profile, 0, **options)


def test_pages_read_as_the_originals(lamps: WebShopTasks) -> None:
    episode = lamp(lamps, price_limit=70)
    instruction = f"{LAMP_TASK}, and price lower than 70.00 dollars"
    head = f"Instruction: [SEP] {instruction} [SEP] Back to Search"
    assert episode.reset(lamps.get("webshop_0"), ResetOptions()).text.startswith(
        "WebShop [SEP] Instruction: [SEP] Find me desk lamps with clear glass with color: "
    )
    episode = lamp(lamps, price_limit=70)
    found, second, beyond = play(episode, "search[acme lamp]", "click[Next >]", "click[b000000003]")
    assert found.startswith(
        f"{head} [SEP] Page 1 (Total results: 25) [SEP] Next > [SEP] B000000000 [SEP] "
        "Acme Lamp 0 [SEP] $12.5 [SEP] B000000001 [SEP] "
    )
    assert second.startswith(
        f"{head} [SEP] Page 2 (Total results: 25) [SEP] < Prev [SEP] Next > [SEP] "
    )
    assert beyond == second  # the product is on the first page, so the click does nothing


def test_a_product_page_shows_options_price_and_buttons(lamps: WebShopTasks) -> None:
    episode = lamp(lamps, price_limit=70)
    head = (
        f"Instruction: [SEP] {LAMP_TASK}, and price lower than 70.00 dollars [SEP] Back to Search "
        "[SEP] < Prev"
    )
    *_, item, chosen, description, back, features, _, reviews = play(
        episode,
        "search[acme lamp]",
        "click[b000000003]",
        "click[blue]",
        "click[description]",
        "click[< prev]",
        "click[features]",
        "click[< prev]",
        "click[reviews]",
    )
    assert item == (
        f"{head} [SEP] color [SEP] red | gold [SEP] blue [SEP] Acme Lamp 3 [SEP] "
        "Price: $20.0 to $60.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews "
        "[SEP] Buy Now"
    )
    assert chosen == back == item
    assert description == f"{head} [SEP] A lamp of clear glass."
    assert features == f"{head} [SEP] Bright [SEP] Made of glass"
    assert reviews == head


def test_buying_ends_with_the_reward_on_the_page(lamps: WebShopTasks) -> None:
    episode = lamp(lamps, price_limit=70)
    play(episode, "search[acme lamp]", "click[b000000003]", "click[blue]")
    last = episode.step("click[Buy Now]")
    assert (last.reward, last.terminated, last.stop_reason) == (1.0, True, StopReason.GOAL_REACHED)
    assert last.text == (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk "
        "interface.) [SEP] Purchased [SEP] asin [SEP] B000000003 [SEP] options [SEP] "
        '{"color": "blue"} [SEP] attrs [SEP] None [SEP] category [SEP] None [SEP] query [SEP] None '
        "[SEP] product category [SEP] None [SEP] Target [SEP] asin [SEP] options [SEP] attrs [SEP] "
        "price upper [SEP] instuction text [SEP] category [SEP] product category [SEP] query [SEP] "
        "Goal [SEP] None [SEP] Reward [SEP] Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] "
        "Reward Details [SEP] None"
    )


def test_a_poor_purchase_ends_too(lamps: WebShopTasks) -> None:
    episode = lamp(lamps, price_limit=70)
    play(episode, "search[acme lamp]", "click[b000000001]")
    last = episode.step("click[buy now]")
    assert (last.reward, last.terminated) == (2 / 3, True)
    assert last.stop_reason is StopReason.ANSWERED


def test_leaving_a_product_forgets_the_options(lamps: WebShopTasks) -> None:
    episode = lamp(lamps, price_limit=70)
    play(episode, "search[acme lamp]", "click[b000000003]", "click[blue]", "click[< prev]")
    play(episode, "click[b000000003]")
    assert episode.step("click[buy now]").reward == 2 / 3


def test_a_later_choice_replaces_an_earlier_one(lamps: WebShopTasks) -> None:
    episode = lamp(lamps, price_limit=70)
    play(episode, "search[acme lamp]", "click[b000000003]", "click[red | gold]", "click[blue]")
    assert '{"color": "blue"}' in episode.step("click[buy now]").text


def test_search_works_on_every_page_and_pages_have_no_end(lamps: WebShopTasks) -> None:
    episode = lamp(lamps)
    play(episode, "search[acme lamp]", "click[b000000003]")
    assert "Page 1 (Total results: 25)" in episode.step("search[glass]").text
    *_, fourth = play(episode, *["click[next >]"] * 3)
    assert fourth.endswith("Page 4 (Total results: 25) [SEP] < Prev [SEP] Next >")
    assert "Page 3 " in episode.step("click[< prev]").text
    assert episode.step("click[back to search]").text.startswith("WebShop [SEP] Instruction:")


@pytest.mark.parametrize(
    "action",
    [
        "",
        "search",
        "search[]",
        "click[search]",
        "click[Buy Now]",
        "Search[lamp]",
        "[x]",
        "click[",
        "a]b[",
    ],
)
def test_an_invalid_action_changes_nothing(lamps: WebShopTasks, action: str) -> None:
    episode = lamp(lamps)
    before = episode.fingerprint()
    observation = episode.step(action)
    assert observation.text.startswith("WebShop [SEP] Instruction: [SEP] ")
    assert (observation.reward, observation.terminated) == (0.0, False)
    assert episode.fingerprint() == before


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("click[large] \n\nNext, I will", ("click", "large")),
        ("search[a [b] c] and so on]x", ("search[a ", "b] c] and so on")),
        ("search[a].", ("search", "a")),
        ("click[x[", ("", "")),
        ("[a]", ("", "")),
        ("click[]", ("", "")),
        ("x\nclick[a]", ("", "")),
    ],
)
def test_actions_are_read_by_the_originals_pattern(action: str, expected: tuple[str, str]) -> None:
    assert read_action(action) == expected


@given(st.text(alphabet="ab[] \n", max_size=14))
def test_reading_an_action_equals_the_pattern(action: str) -> None:
    import re

    match = re.match(r"(.+)\[(.+)\]", action)
    assert read_action(action) == (match.groups() if match else ("", ""))


def test_hidden_searches_of_the_original(lamps: WebShopTasks) -> None:
    episode = lamp(lamps)
    assert "(Total results: 25)" in episode.step("search[<c> garden]").text
    assert "(Total results: 0)" in episode.step("search[<c> moon]").text
    assert "(Total results: 25)" in episode.step("search[<q> desk lamps]").text
    drawn = episode.step("search[<r>]").text
    assert "(Total results: 25)" in drawn
    assert lamp(lamps).step("search[<r>]").text != drawn
    for failing in ("search[<c>]", "search[<a> clear glass]"):
        assert episode.step(failing).text == drawn


def test_texts_without_words_leave_gaps_as_the_originals_parser_does() -> None:
    product = clean_product(
        raw_product(1, full_description="", small_description=["", "  ", " a "]), {}
    )
    assert sub_page("x", product, "features").text.endswith("< Prev [SEP]  [SEP]  [SEP] a")
    assert sub_page("x", product, "description").text.endswith("[SEP] < Prev")
    assert search_page("\n").parts == ("WebShop", "Instruction:", "Search")
    assert results_page("x", [], 1, 0).parts[-1] == "Next >"
    assert "{\\u0022" not in done_page("A", {"a'b": "<\u00e9>"}, 0.5).text
    assert '{"a\\u0027b": "\\u003c\\u00e9\\u003e"}' in done_page("A", {"a'b": "<\u00e9>"}, 0.5).text


def test_the_fixed_profile_shows_what_can_be_done_and_what_is_chosen(lamps: WebShopTasks) -> None:
    episode = lamp(lamps, "fixed")
    first = episode.reset(lamps.get("webshop_0"), ResetOptions(profile="fixed")).text
    assert first.endswith("\nAvailable actions: search[keywords]")
    play(episode, "SEARCH[ acme lamp ]", "click[ B000000003 ]")
    shown = episode.step("click[Blue]").text
    assert "\nChosen options: color: blue\nAvailable actions: click[back to search], " in shown
    assert "click[red | gold], click[blue]" in shown
    assert episode.step("click[green]").text.startswith("Nothing happened: ")


def test_open_prices_follow_the_seed_except_in_the_fixed_profile(lamps: WebShopTasks) -> None:
    def opening(profile: str, seed: int) -> str:
        options = ResetOptions(profile=profile, seed=seed)
        return WebShop(lamps).reset(lamps.get("webshop_0"), options).text

    assert len({opening("agentgym", seed) for seed in range(12)}) > 1
    assert opening("agentgym", 5) == opening("agentgym", 5)
    assert len({opening("fixed", seed) for seed in range(12)}) == 1


def test_a_recorded_limit_can_be_given(lamps: WebShopTasks) -> None:
    assert "lower than 50.00 dollars" in lamp(lamps, price_limit=50).step("").text
    assert "lower than" not in lamp(lamps, price_limit=0).step("").text
    for wrong in (-1, "50", True, 10**9):
        with pytest.raises(InvalidOption):
            lamp(lamps, price_limit=wrong)
    with pytest.raises(InvalidOption):
        lamp(lamps, price=3)


class VisibleText(HTMLParser):
    """Collects the visible strings of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in ("style", "title", "script")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "title", "script")

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._hidden:
            self.texts.append(data)


def shown_page(episode: WebShop) -> str:
    return episode.render()[0].content.decode()


def test_html_shows_exactly_what_the_agent_reads(embedded: WebShopTasks) -> None:
    rng = random.Random(8)
    kinds = set()
    for item in embedded.item_ids("eval", 0, 30):
        episode = start(embedded, item)
        for turn in range(14):
            parser = VisibleText()
            parser.feed(shown_page(episode))
            page = episode.episode.visit.page
            kinds.add(page.kind)
            assert parser.texts == [part for part in page.parts if part]
            advice = episode.advise_random(rng) if turn % 3 else episode.advise_expert(0)
            if episode.step(advice.action).terminated:
                break
    assert len(kinds) >= 4


def test_a_picture_shows_what_is_wanted_and_what_was_chosen(embedded: WebShopTasks) -> None:
    episode = start(embedded, "webshop_1000003")
    for _ in range(4):
        episode.step(episode.advise_expert(0).action)
    shown = next(view.content.decode() for view in episode.render() if view.name == "text")
    assert "wanted options: color: white, size: large" in shown
    assert "chosen options: color: white, size: large" in shown


def test_html_escapes_what_products_contain(tmp_path: Path) -> None:
    odd = raw_product(1, name='<script>alert("x")</script> & Co', asin="B000000001")
    folder = write_catalogue(tmp_path, [odd], {"B000000001": LAMP_FACTS})
    tasks = WebShop.load_tasks(EnvironmentConfig(folder))
    episode = start(tasks, "webshop_0")
    play(episode, "search[script]", "click[b000000001]")
    assert "<script" not in shown_page(episode)
    assert "&lt;script&gt;" in shown_page(episode)


@given(text=st.one_of(st.text(), st.from_regex(r"(search|click)\[.{0,20}\].{0,3}")))
def test_any_text_is_legal(embedded: WebShopTasks, text: str) -> None:
    for profile in ("agentgym", "fixed"):
        observation = start(embedded, "webshop_1000000", profile).step(text)
        assert observation.text
        assert observation.reward == 0.0


@pytest.mark.parametrize(
    "text",
    ["search[" + "lamp " * 200_000 + "]", "[" * 10**6, "]" * 10**6, "click[" * 200_000, "\0" * 9],
)
def test_a_megabyte_is_an_observation(embedded: WebShopTasks, text: str) -> None:
    assert start(embedded, "webshop_1000000").step(text).text.startswith("WebShop [SEP]")


def test_a_fork_goes_its_own_way(embedded: WebShopTasks) -> None:
    episode = start(embedded, "webshop_1000007")
    play(episode, episode.advise_expert(0).action)
    fork = episode.fork()
    assert fork.fingerprint() == episode.fingerprint()
    assert fork.advise_expert(3) == episode.advise_expert(3)
    play(fork, fork.advise_expert(0).action, "click[description]")
    assert "Page 1 (" in episode.step("").text
    assert "Page 1 (" not in fork.step("").text
    assert json.dumps(fork.step("").text)
