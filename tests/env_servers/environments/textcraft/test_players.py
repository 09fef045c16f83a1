"""The scripted players, the prompts, and the three action formats."""

from __future__ import annotations

import json
import random

import pytest

from env_servers.environments.textcraft import TextCraft
from env_servers.environments.textcraft.planner import Craft, Get, plan
from env_servers.environments.textcraft.prompt import GRAMMAR
from env_servers.environments.textcraft.tasks import TextCraftTasks
from env_servers.sdk import ActionFormat, Advice, Observation, Rejected, ResetOptions
from tests.env_servers.environments.textcraft.conftest import start

FORMATS = list(ActionFormat)


def episode_length(tasks: TextCraftTasks, item: str, *, profile: str, limit: int) -> int | None:
    """Actions that the expert takes to the goal, each of which must succeed; None = too many."""
    episode = TextCraft(tasks)
    episode.reset(tasks.get(item), ResetOptions(profile=profile))
    for count in range(1, limit + 1):
        observation = episode.step(episode.advise_expert(count).action)
        assert observation.text.startswith(("Got ", "Crafted "))
        if observation.terminated:
            assert observation.reward == 1.0
            return count
    return None


@pytest.mark.parametrize("profile", ["agentgym", "fixed"])
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_expert_solves_every_embedded_goal_within_the_rounds(
    embedded: TextCraftTasks, split: str, profile: str
) -> None:
    for item in embedded.item_ids(split, 0, 513):
        assert episode_length(embedded, item, profile=profile, limit=20) is not None, item


def test_the_expert_solves_every_recorded_task_and_all_but_twelve_official_ones(
    official: TextCraftTasks,
) -> None:
    too_long = []
    for index in range(544):
        item = f"textcraft_{index}"
        length = episode_length(official, item, profile="agentgym", limit=60)
        assert length is not None
        if length > 20:
            too_long.append(official.get(item).payload.goal)
    named = [goal for goal in too_long if goal.endswith("_banner")]
    assert len(named) == 10
    assert sorted(set(too_long) - set(named)) == ["lodestone", "netherite_block"]


def test_the_expert_finds_its_way_from_any_state(embedded: TextCraftTasks) -> None:
    rng = random.Random(11)
    for item in embedded.item_ids("eval", 0, 118)[::6]:
        episode = TextCraft(embedded)
        episode.reset(embedded.get(item), ResetOptions())
        done = any(episode.step(episode.advise_random(rng).action).terminated for _ in range(15))
        while not done:
            text, _, _, done, *_ = episode.step(episode.advise_expert(0).action)
            assert text.startswith(("Got ", "Crafted "))


def test_advice_is_a_pure_function_of_the_episode(embedded: TextCraftTasks) -> None:
    asked, silent = start(embedded, "bookshelf"), start(embedded, "bookshelf")
    for action in ("get 3 sugar cane", "craft 3 paper using 3 sugar cane", "inventory"):
        assert asked.advise_expert(7) == asked.advise_expert(7)
        asked.step(action)
        silent.step(action)
    assert asked.advise_expert(7) == silent.advise_expert(7)


def test_the_seed_changes_the_words_and_nothing_else(embedded: TextCraftTasks) -> None:
    advice = [start(embedded, "bookshelf").advise_expert(seed) for seed in range(8)]
    assert len({given.action for given in advice}) == 1
    assert len({given.thought for given in advice}) == 4


def test_a_plan_uses_what_is_carried(embedded: TextCraftTasks) -> None:
    world = embedded.worlds["embedded"]
    recipes = world.tree("crafting_table")
    assert len(plan(world, recipes, "crafting_table", {})) == 3
    assert [
        step.action for step in plan(world, recipes, "crafting_table", {"warped_planks": 4})
    ] == ["craft 1 crafting table using 4 warped planks"]


def test_a_plan_gets_nothing_twice_and_ends_with_the_goal(embedded: TextCraftTasks) -> None:
    world = embedded.worlds["embedded"]
    for goal in ("red_bed", "lectern", "enchanting_table"):
        steps = plan(world, world.tree(goal), goal, {})
        gets = [step.item for step in steps if isinstance(step, Get)]
        assert len(gets) == len(set(gets))
        assert isinstance(steps[-1], Craft)
        assert steps[-1].recipe.item == goal


def test_without_a_way_to_the_goal_there_is_no_plan(embedded: TextCraftTasks) -> None:
    world = embedded.worlds["embedded"]
    assert plan(world, [], "oak_boat", {}) == ()
    episode = TextCraft(embedded)
    options = ResetOptions(
        options={"goal": "oak boat", "commands": "craft 3 paper using 3 sugar cane"}
    )
    episode.reset(embedded.get("textcraft_1000000"), options)
    assert episode.advise_expert(0).action == "inventory"


def test_doing_nothing_scores_zero(embedded: TextCraftTasks) -> None:
    episode = start(embedded, "oak_boat")
    for _ in range(20):
        advice = episode.advise_noop()
        observation = episode.step(advice.action)
        assert (advice.action, observation.reward) == ("inventory", 0.0)
        assert not observation.terminated


def test_random_play_fails_most_tasks(embedded: TextCraftTasks) -> None:
    rng = random.Random(1)
    wins = 0
    for item in embedded.item_ids("eval", 0, 118):
        episode = TextCraft(embedded)
        episode.reset(embedded.get(item), ResetOptions())
        wins += any(episode.step(episode.advise_random(rng).action).terminated for _ in range(20))
    assert wins < 118 // 4


@pytest.mark.parametrize("action_format", FORMATS)
def test_the_expert_speaks_every_format(
    embedded: TextCraftTasks, action_format: ActionFormat
) -> None:
    episode = start(embedded, "lectern")
    observation = Observation("")
    while not observation.terminated:
        advice = episode.advise_expert(2)
        reply = GRAMMAR.write(advice, action_format)
        assert GRAMMAR.read(reply, action_format) == advice.action
        observation = episode.step(advice.action)
    assert observation.reward == 1.0


def test_several_actions_in_one_reply_are_rejected(embedded: TextCraftTasks) -> None:
    read = GRAMMAR.read("Action:\nget 1 a\nAction:\nget 1 b", ActionFormat.REACT)
    assert isinstance(read, Rejected)
    shown = start(embedded, "oak_boat").render_error(read.message, Observation("x"))
    assert shown.text == (
        "Error: Only one 'Action' is allowed per response. Please adjust your response."
    )
    assert (shown.reward, shown.terminated) == (0.0, False)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought:\nI look.\n\nAction:\ninventory", "inventory"),
        ("Action: get 2 iron ingot.\nObservation: Got 2", "get 2 iron ingot"),
        ("Action:\n \n  craft 1 bowl using 3  oak planks!", "craft 1 bowl using 3 oak planks"),
        ("Action: Look", "Look"),
        ("I do not know.", ""),
    ],
)
def test_replies_are_read_as_the_original_client_does(reply: str, action: str) -> None:
    assert GRAMMAR.read(reply, ActionFormat.REACT) == action


@pytest.mark.parametrize(
    "arguments",
    [
        {"item": "paper", "ingredients": {"sugar cane": "3"}},
        {"item": "paper", "ingredients": {"sugar cane": True}},
        {"item": "paper", "ingredients": ["3 sugar cane"]},
        {"item": "paper"},
    ],
)
def test_a_craft_call_of_wrong_types_is_rejected(arguments: dict[str, object]) -> None:
    reply = json.dumps({"thought": "", "function_name": "craft", "arguments": arguments})
    assert isinstance(GRAMMAR.read(reply, ActionFormat.FUNCTION_CALLING), Rejected)


@pytest.mark.parametrize("action_format", FORMATS)
def test_prompts_name_every_action(action_format: ActionFormat) -> None:
    text = TextCraft.spec.conversation_starts[action_format].instruction
    for verb in GRAMMAR.verbs:
        assert verb.name in text


@pytest.mark.parametrize(
    ("action_format", "marker"),
    [
        (ActionFormat.REACT, "Action:"),
        (ActionFormat.FUNCTION_CALLING, '"function_name"'),
        (ActionFormat.CODE_AS_ACTION, "```python"),
    ],
)
def test_prompts_show_the_form_of_a_reply(action_format: ActionFormat, marker: str) -> None:
    assert marker in TextCraft.spec.conversation_starts[action_format].instruction


def test_advice_without_express_falls_back_to_inventory() -> None:
    reply = GRAMMAR.write(Advice("inventory", "why"), ActionFormat.CODE_AS_ACTION)
    assert reply == "```python\n# why\ninventory()\n```"
