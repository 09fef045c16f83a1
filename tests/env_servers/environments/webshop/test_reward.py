"""The reward's formula, its fuzzy comparison and its nouns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from env_servers.environments.webshop.catalogue import Product
from env_servers.environments.webshop.fuzzy import resembles, token_set_ratio
from env_servers.environments.webshop.nouns import split_words, title_nouns
from env_servers.environments.webshop.reward import COLOURS, GoalSpec, score_purchase

LAMP = Product(
    asin="B000000001",
    title="Acme Desk Lamp with Glass Shade",
    description="Gives warm light.",
    bullets=("Easy install", "Dimmable"),
    prices=(30.0,),
    price_tag="$30.0",
    options={"color": ("red", "navy blue"), "size": ("small", "large")},
    attributes=("clear glass", "brushed nickel"),
    category="garden",
    query="desk lamps",
    product_category="Home \u203a Lighting \u203a Lamps",
)
WISH = GoalSpec(
    title=LAMP.title,
    query=LAMP.query,
    product_category=LAMP.product_category,
    attributes=("clear glass", "easy install"),
    options=(("color", "red"), ("size", "small")),
    price_limit=40.0,
)


@pytest.mark.parametrize(
    ("first", "second", "score"),
    [
        ("navy", "('color', 'navy')", 100),
        ("navy", "('color', 'black')", 13),
        ("long sleeve", "long sleeves", 96),
        ("short sleeve", "long sleeve", 71),
        ("fade resistant", "resistant to fading", 79),
        ("a", "", 0),
        ("\u00e9", "e", 0),
        ("x-large", "('size', 'large')", 83),
        ("large", "('size', 'x-large')", 100),
    ],
)
def test_likeness_is_thefuzz_0_19(first: str, second: str, score: int) -> None:
    assert token_set_ratio(first, second) == score
    assert resembles(first, second) == (score > 85)


def test_the_right_purchase_earns_one() -> None:
    assert score_purchase(LAMP, {"color": "red", "size": "small"}, 30.0, WISH).reward == 1.0


@pytest.mark.parametrize(
    ("chosen", "price", "points"),
    [
        ({}, 30.0, 3),
        ({"color": "red"}, 30.0, 4),
        ({"color": "navy blue", "size": "small"}, 30.0, 4),
        ({"color": "red", "size": "small"}, 40.0, 5),
        ({"color": "red", "size": "small"}, 40.01, 4),
    ],
)
def test_every_property_option_and_the_price_count_alike(
    chosen: dict[str, str], price: float, points: int
) -> None:
    assert score_purchase(LAMP, chosen, price, WISH).reward == points / 5


def test_properties_may_stand_in_title_features_or_description() -> None:
    goal_spec = replace(
        WISH, attributes=("desk lamp", "dimmable", "warm light", "cheap"), options=()
    )
    assert score_purchase(LAMP, {}, 30.0, goal_spec).attributes == 3


def test_another_kind_of_product_loses_by_its_title() -> None:
    goal_spec = replace(WISH, query="sofas", product_category="Home \u203a Furniture \u203a Sofas")
    other = replace(LAMP, title="Acme Reading Chair Sofa Cushion Pillow Set Blanket")
    assert score_purchase(LAMP, {}, 30.0, goal_spec).kind == 1.0
    for title, kind in (
        ("Acme One Two Wood Stone Iron Steel", 0.5),
        ("Lamp " + " ".join(f"Thing{letter}" for letter in "abcdefghijkl"), 0.1),
        ("Velvet Sofa", 0.0),
    ):
        wished = replace(goal_spec, title=title)
        assert score_purchase(replace(other, title="Acme Lamp"), {}, 1.0, wished).kind == kind


def test_the_same_kind_without_a_shared_noun_still_earns_nothing() -> None:
    assert score_purchase(replace(LAMP, title="Velvet Sofa"), {}, 30.0, WISH).reward == 0.0


def test_a_colour_word_inside_a_value_spoils_it_as_in_the_original() -> None:
    goal_spec = replace(WISH, attributes=("clear glass",), options=(("style", "dash"),))
    score = score_purchase(LAMP, {"style": "dash"}, 30.0, goal_spec)
    assert (score.options, score.reward) == (0, 2 / 3)
    exact = replace(goal_spec, exact_options=True)
    assert score_purchase(LAMP, {"style": "dash"}, 30.0, exact).reward == 1.0


def test_exact_options_do_not_take_large_for_extra_large() -> None:
    goal_spec = replace(WISH, options=(("size", "x-large"),))
    assert score_purchase(LAMP, {"size": "large"}, 30.0, goal_spec).options == 1
    exact = replace(goal_spec, exact_options=True)
    assert score_purchase(LAMP, {"size": "large"}, 30.0, exact).options == 0


def test_a_persons_goal_names_values_alone() -> None:
    goal_spec = replace(WISH, options=("deep navy", "small"))
    assert (
        score_purchase(LAMP, {"color": "navy blue", "size": "small"}, 1.0, goal_spec).options == 1
    )
    assert score_purchase(LAMP, {"color": "navy"}, 1.0, goal_spec).options == 1


def test_there_are_102_colours_in_alphabetical_order() -> None:
    assert len(COLOURS) == 102
    assert list(COLOURS) == sorted(COLOURS)


def test_titles_are_split_like_spacys_english() -> None:
    assert split_words("Women's T-Shirt (2-Pack), 20oz/600ml USB-C w/Lid, 50cm") == [
        *("Women", "'s", "T", "-", "Shirt", "(", "2", "-", "Pack", ")", ",", "20oz/600ml"),
        *("USB", "-", "C", "w", "/", "Lid", ",", "50", "cm"),
    ]


def test_nouns_are_names_and_things_but_no_small_words_numbers_or_plain_adjectives() -> None:
    title = "Acme Set of 3 Glass lamps with soft light for the Bedroom, easily washable"
    assert title_nouns(title) == ("acme", "set", "glass", "lamps", "light", "bedroom")
    assert title_nouns("3 x 20 %") == ("x",)
