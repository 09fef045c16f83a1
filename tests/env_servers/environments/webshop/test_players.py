"""The scripted players, the prompts and the three action formats."""

from __future__ import annotations

import random

import pytest

from env_servers.environments.webshop import WebShop
from env_servers.environments.webshop.prompt import GRAMMAR
from env_servers.environments.webshop.tasks import WebShopTasks
from env_servers.sdk import ActionFormat, Observation
from tests.env_servers.environments.webshop.conftest import play, start

FORMATS = list(ActionFormat)
EVERYTHING = 10**6


def finish(episode: WebShop, rounds: int) -> tuple[int, float]:
    """(actions, reward) of the expert from here; reward -1 when the rounds do not suffice."""
    for count in range(1, rounds + 1):
        observation = episode.step(episode.advise_expert(count).action)
        if observation.terminated:
            return count, observation.reward or 0.0
    return rounds, -1.0


def losses(tasks: WebShopTasks, items: list[str], profile: str) -> list[str]:
    return [item for item in items if finish(start(tasks, item, profile), 10)[1] != 1.0]


@pytest.mark.parametrize("profile", ["agentgym", "fixed"])
def test_the_expert_buys_right_within_the_rounds(embedded: WebShopTasks, profile: str) -> None:
    items = [*embedded.item_ids("train", 0, EVERYTHING)[::60]]
    items += embedded.item_ids("eval", 0, EVERYTHING)[::6]
    assert losses(embedded, items, profile) == []


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_expert_solves_every_embedded_goal(embedded: WebShopTasks, split: str) -> None:
    assert losses(embedded, [*embedded.item_ids(split, 0, EVERYTHING)], "agentgym") == []


@pytest.mark.slow
def test_the_expert_loses_only_where_the_reward_cannot_see_the_right_options(
    official: WebShopTasks,
) -> None:
    items = [f"webshop_{index}" for index in range(6910)]
    lost = losses(official, items, "agentgym")
    assert len(lost) == 458
    assert losses(official, lost, "fixed") == []


def test_the_expert_finds_its_way_from_anywhere(embedded: WebShopTasks) -> None:
    rng = random.Random(3)
    for item in embedded.item_ids("eval", 0, 60):
        episode = start(embedded, item)
        for _ in range(8):
            action = episode.advise_random(rng).action
            if action != "click[buy now]":
                episode.step(action)
        assert finish(episode, 12)[1] == 1.0


def test_the_expert_leaves_a_wrong_product_and_turns_pages(embedded: WebShopTasks) -> None:
    episode = start(embedded, "webshop_1000100")
    goal = episode.episode.goal
    visit = episode.episode.visit
    product = visit.shop.products[goal.number]
    play(episode, f"search[{product.query}]")
    other = next(n for n, kind in visit.page.clickables.items() if kind == "product-link")
    if other != product.asin.lower():
        play(episode, f"click[{other}]")
        assert episode.advise_expert(0).action == "click[back to search]"
    play(episode, f"search[{product.title.lower()}]", "click[next >]", "click[next >]")
    assert episode.advise_expert(0).action == "click[< prev]"


def test_advice_is_a_pure_function_of_the_episode(embedded: WebShopTasks) -> None:
    asked, silent = (start(embedded, "webshop_1000010") for _ in range(2))
    for action in ("search[blouse]", "click[next >]", "click[back to search]"):
        assert asked.advise_expert(7) == asked.advise_expert(7)
        asked.step(action)
        silent.step(action)
    assert asked.advise_expert(7) == silent.advise_expert(7)


def test_the_seed_changes_the_words_and_nothing_else(embedded: WebShopTasks) -> None:
    advice = [start(embedded, "webshop_1000010").advise_expert(seed) for seed in range(8)]
    assert len({given.action for given in advice}) == 1
    assert len({given.thought for given in advice}) == 4


def test_doing_nothing_scores_zero(embedded: WebShopTasks) -> None:
    episode = start(embedded, "webshop_1000000")
    for _ in range(10):
        observation = episode.step(episode.advise_noop().action)
        assert (observation.reward, observation.terminated) == (0.0, False)


def test_random_play_never_buys_right(embedded: WebShopTasks) -> None:
    rng = random.Random(1)
    rewards: list[float] = []
    for item in embedded.item_ids("eval", 0, 200):
        episode = start(embedded, item)
        observation = Observation("")
        for _ in range(10):
            observation = episode.step(episode.advise_random(rng).action)
            if observation.terminated:
                break
        rewards.append(observation.reward or 0.0)
    assert sum(reward == 1.0 for reward in rewards) <= 2
    assert sum(rewards) / len(rewards) < 0.3


@pytest.mark.parametrize("action_format", FORMATS)
def test_the_expert_speaks_every_format(
    embedded: WebShopTasks, action_format: ActionFormat
) -> None:
    episode = start(embedded, "webshop_1000020")
    observation = Observation("")
    while not observation.terminated:
        advice = episode.advise_expert(2)
        reply = GRAMMAR.write(advice, action_format)
        assert GRAMMAR.read(reply, action_format) == advice.action
        observation = episode.step(advice.action)
    assert observation.reward == 1.0


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought:\nI think.\n\nAction:\nclick[Buy Now] ", "click[Buy Now]"),
        ("Action: click[a]\nAction: click[b]", "click[b]"),
        ("I would like to search[lamps]", "I would like to search[lamps]"),
        ("I do not know.", ""),
    ],
)
def test_replies_are_read_as_the_original_client_does(reply: str, action: str) -> None:
    assert GRAMMAR.read(reply, ActionFormat.REACT) == action


@pytest.mark.parametrize("action_format", FORMATS)
def test_prompts_name_every_action(action_format: ActionFormat) -> None:
    text = WebShop.spec.conversation_starts[action_format].instruction
    for verb in GRAMMAR.verbs:
        assert verb.name in text
