"""What actions do and what they show, in both profiles."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_servers.environments.textcraft import TextCraft
from env_servers.environments.textcraft.tasks import TextCraftTasks
from env_servers.sdk import InvalidOption, ResetOptions, StopReason
from tests.env_servers.environments.textcraft.conftest import start


def play(episode: TextCraft, *actions: str) -> list[str]:
    return [episode.step(action).text for action in actions]


def test_the_original_strings_come_back(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    assert play(
        episode,
        "inventory",
        "get 1 foo",
        "dance",
        "",
        "craft 1 oak planks using oak log",
        "get 1 planks",
        "get oak logs",
        "craft 4 oak planks using 1 oak logs",
        "get 2 oak logs",
        "inventory",
        "craft 4 oak planks using 1 oak logs",
        "craft 1 sandwich using 1 oak logs",
        "inventory",
    ) == [
        "Inventory: You are not carrying anything.",
        "Could not find foo",
        "Could not execute dance",
        "Could not execute ",
        "Wrong item format: oak log",
        "Could not find planks",
        "Could not execute get oak logs",
        "Could not find enough items to craft minecraft:oak_planks",
        "Got 2 oak logs",
        "Inventory: [oak logs] (2) ",
        "Crafted 4 minecraft:oak_planks",
        "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, "
        "item_id='minecraft:sandwich'), count=1)",
        "Inventory: [oak logs] (1) [oak planks] (4) ",
    ]


def test_crafting_the_goal_ends_the_episode_with_reward_one(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    play(episode, "get 2 oak logs", *["craft 4 oak planks using 1 oak logs"] * 2)
    last = episode.step("craft 1 oak boat using 5 oak planks")
    assert last.text == "Crafted 1 minecraft:oak_boat"
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)
    assert last.stop_reason is StopReason.GOAL_REACHED


def test_every_other_step_earns_zero_and_goes_on(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    for action in ("get 2 oak logs", "craft 4 oak planks using 1 oak logs", "inventory", "x"):
        observation = episode.step(action)
        assert (observation.reward, observation.terminated) == (0.0, False)


def test_the_output_amount_is_ignored_and_may_be_missing(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    play(episode, "get 2 oak logs")
    assert (
        play(episode, "craft 99 oak planks using 1 oak logs", "craft oak planks using 1 oak logs")
        == ["Crafted 4 minecraft:oak_planks"] * 2
    )


def test_ingredients_come_in_any_order_but_in_exact_amounts(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "torch")
    play(episode, "get 4 bamboo", "get 2 coal", "craft 1 stick using 2 bamboo")
    assert "valid recipe" in episode.step("craft 4 torch using 2 coal, 1 stick").text
    assert "valid recipe" in episode.step("craft 4 torch using 1 coal, 1 stick, 1 bamboo").text
    assert episode.step("craft 4 torch using 1 stick, 1 coal").terminated


@pytest.mark.parametrize("kind", ["oak", "crimson"])
def test_any_kind_serves_as_a_generic_ingredient(embedded: TextCraftTasks, kind: str) -> None:
    log = "crimson stems" if kind == "crimson" else "oak logs"
    episode = start(embedded, "crafting_table")
    play(episode, f"get 1 {log}", f"craft 4 {kind} planks using 1 {log}")
    assert episode.step(f"craft 1 crafting table using 4 {kind} planks").terminated


def test_an_action_that_fails_changes_nothing(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    play(episode, "get 3 oak logs")
    before = episode.fingerprint()
    play(episode, "craft 4 oak planks using 9 oak logs", "get 1 planks", "jump", "craft  using ")
    assert episode.fingerprint() == before


def test_the_original_of_2024_makes_a_component_where_the_goal_was_named(
    embedded: TextCraftTasks,
) -> None:
    refused = (
        "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, "
        "item_id='minecraft:birch_stairs'), count=4)"
    )
    cases: list[tuple[dict[str, Any], str]] = [
        ({"original": "2024"}, "Crafted 4 minecraft:birch_planks"),
        ({"original": 2024.0}, "Crafted 4 minecraft:birch_planks"),
        ({}, refused),
        ({"original": "2025"}, refused),
        ({"original": "2025", "as_recorded": True}, f"Instruction:\n{refused}"),
        ({"as_recorded": True}, "Instruction:\nCrafted 4 minecraft:birch_planks"),
    ]
    for options, answer in cases:
        episode = start(embedded, "birch_stairs", **options)
        play(episode, "get 1 birch logs")
        assert play(episode, "craft 4 birch stairs using 1 birch logs") == [answer]


def test_the_fixed_profile_has_its_own_rules_only(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "birch_stairs", "fixed", as_recorded=True)
    play(episode, "get 1 birch logs")
    assert play(episode, "craft 4 birch stairs using 1 birch logs") == [
        "Instruction:\nCould not find a valid recipe for 4 birch stairs"
    ]
    with pytest.raises(InvalidOption, match="option original goes with profile agentgym"):
        start(embedded, "birch_stairs", "fixed", original="2024")


def test_the_fixed_profile_names_items_and_hides_python(embedded: TextCraftTasks) -> None:
    assert play(
        start(embedded, "oak_boat", "fixed"),
        "get 0 oak logs",
        "craft 4 oak planks using 1 oak logs",
        "craft 1 oak planks using 1 mud",
        " Get 1 oak logs ",
        "inventory",
        "craft 4 oak planks using 1 oak logs",
    ) == [
        "Wrong item format: 0 oak logs",
        "Could not find enough items to craft oak planks",
        "Could not find a valid recipe for 1 oak planks",
        "Got 1 oak logs",
        "Inventory: [oak logs] (1)",
        "Crafted 4 oak planks",
    ]


def test_the_fixed_profile_accepts_a_command_as_it_is_listed(embedded: TextCraftTasks) -> None:
    setup = ("get 1 oak logs", "craft 4 oak planks using 1 oak logs")
    command = "craft 1 crafting table using 4 planks"
    fixed = start(embedded, "crafting_table", "fixed")
    assert play(fixed, command) == ["Could not find enough items to craft crafting table"]
    play(fixed, *setup)
    assert fixed.step(command).terminated
    faithful = start(embedded, "crafting_table")
    play(faithful, *setup)
    assert play(faithful, command) == [
        "Could not find enough items to craft minecraft:crafting_table"
    ]


def test_the_fixed_profile_adds_up_an_ingredient_that_is_named_twice(
    embedded: TextCraftTasks,
) -> None:
    episode = start(embedded, "oak_boat", "fixed")
    play(episode, "get 2 oak logs", *["craft 4 oak planks using 1 oak logs"] * 2)
    assert episode.step("craft 1 oak boat using 2 oak planks, 3 oak planks").terminated
    assert episode.step("inventory").text == "Inventory: [oak planks] (3) [oak boat] (1)"


def test_a_number_of_a_million_digits_is_an_observation(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    for action in (f"get {'9' * 10**6} oak logs", f"craft {'9' * 10**6} x using 1 y"):
        assert episode.step(action).text == f"Could not execute {action}"


@pytest.mark.parametrize(
    "text", ["craft " * 200_000, "craft a using 1 b" + ",1 b" * 250_000, "\0" * 9]
)
def test_a_long_or_odd_text_is_an_observation(embedded: TextCraftTasks, text: str) -> None:
    for profile in ("agentgym", "fixed"):
        assert start(embedded, "oak_boat", profile).step(text).text.startswith("Could not")


@given(
    text=st.one_of(
        st.text(),
        st.from_regex(r"(get|craft) [0-9]{0,3} ?[a-z ]{0,12}( using [0-9a-z ,]{0,20})?"),
    ),
    profile=st.sampled_from(["agentgym", "fixed"]),
)
def test_any_text_is_legal(embedded: TextCraftTasks, text: str, profile: str) -> None:
    episode = start(embedded, "oak_boat", profile)
    observation = episode.step(text)
    assert observation.text
    assert observation.reward == 0.0


def test_random_play_keeps_the_books(embedded: TextCraftTasks) -> None:
    rng = random.Random(5)
    for goal in ("bookshelf", "red_bed", "painting", "lectern"):
        episode = start(embedded, goal)
        for _ in range(200):
            if episode.step(episode.advise_random(rng).action).terminated:
                break
        carried = episode.step("inventory").text
        assert "-" not in carried
        assert "(0)" not in carried


def test_a_fork_goes_its_own_way(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    play(episode, "get 1 oak logs")
    fork = episode.fork()
    assert fork.fingerprint() == episode.fingerprint()
    assert fork.advise_expert(3) == episode.advise_expert(3)
    play(fork, "get 4 bamboo")
    assert play(episode, "inventory") == ["Inventory: [oak logs] (1) "]
    assert play(fork, "inventory") == ["Inventory: [oak logs] (1) [bamboo] (4) "]


def test_a_reset_forgets_what_was_carried(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    play(episode, "get 1 oak logs")
    episode.reset(embedded.get("textcraft_1000000"), ResetOptions())
    assert play(episode, "inventory") == ["Inventory: You are not carrying anything."]
