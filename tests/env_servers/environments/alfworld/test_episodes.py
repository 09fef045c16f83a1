"""What an episode shows and earns: AgentGym's strings and quirks, options, profiles, players."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.prompt import GRAMMAR
from env_servers.environments.alfworld.tasks import AlfworldTasks
from env_servers.sdk import ActionFormat, InvalidOption, Observation, Rejected, StopReason
from tests.env_servers.environments.alfworld.conftest import play, solve, start

HEAT = "alfworld_1600003"
FORMATS = list(ActionFormat)


def carry(tasks: AlfworldTasks, item: str = HEAT, **options: object) -> tuple[Alfworld, str]:
    """An episode in which the expert has just taken something, and what it took."""
    episode, _ = start(tasks, item, **options)
    while True:
        action = episode.advise_expert(0).action
        episode.step(action)
        if action.startswith("take "):
            return episode, action.removeprefix("take ").partition(" from ")[0]


def test_available_actions_are_listed_at_first_and_then_no_more(embedded: AlfworldTasks) -> None:
    episode, first = start(embedded, HEAT)
    assert "\nAVAILABLE ACTIONS: " in first.text
    assert first.reward is None
    assert not any("AVAILABLE" in text for text in play(episode, "look", "go to fridge 1", "x"))


def test_the_location_is_stripped_from_what_is_told_on_arrival(embedded: AlfworldTasks) -> None:
    episode, _ = start(embedded, HEAT)
    assert play(episode, "go to fridge 1") == ["The fridge 1 is closed."]


def test_what_cannot_be_done_does_nothing_and_counts_as_a_step(embedded: AlfworldTasks) -> None:
    episode, _ = start(embedded, HEAT, step_limit=3)
    for action in ("", "GO TO FRIDGE 1"):
        assert episode.step(action) == Observation("Nothing happens.", reward=0.0)
    last = episode.step("dance")
    assert (last.truncated, last.stop_reason) == (True, StopReason.STEP_LIMIT)
    assert not last.terminated


def test_going_to_where_one_is_does_nothing(embedded: AlfworldTasks) -> None:
    episode, _ = start(embedded, HEAT)
    assert play(episode, "go to fridge 1", "go to fridge 1")[1] == "Nothing happens."


def test_looking_from_the_middle_of_the_room_shows_nothing_as_in_the_original(
    embedded: AlfworldTasks,
) -> None:
    episode, first = start(embedded, HEAT)
    assert "you see a cabinet" in first.text
    assert play(episode, "look")[0].endswith(", you see nothing.")


def test_blanks_around_a_command_do_not_matter_and_those_within_do(
    embedded: AlfworldTasks,
) -> None:
    episode, _ = start(embedded, HEAT)
    assert play(episode, " \tlook\n", "go  to fridge 1", "go to fridge 1 ") == [
        "You are in the middle of a room. Looking quickly around you, you see nothing.",
        "Nothing happens.",
        "The fridge 1 is closed.",
    ]


def test_putting_needs_the_exact_words(embedded: AlfworldTasks) -> None:
    episode, thing = carry(embedded)
    place = "microwave 1"
    play(episode, f"go to {place}", f"open {place}")
    assert (
        play(episode, f"put {thing} in {place}", f"move {thing} to {place}")
        == ["Nothing happens."] * 2
    )
    assert play(episode, f"put {thing} in/on {place}") == [
        f"You put the {thing} in/on the {place}."
    ]


def test_what_is_carried_can_be_examined_and_listed(embedded: AlfworldTasks) -> None:
    episode, thing = carry(embedded)
    assert play(episode, "inventory", f"examine {thing}") == [
        f"You are carrying: a {thing}.",
        f"There's nothing special about {thing}.",
    ]
    play(episode, "go to microwave 1")
    assert play(episode, f"heat {thing} with microwave 1", f"examine {thing}") == [
        f"You heat the {thing} using the microwave 1.",
        f"This is a hot {thing}.",
    ]
    play(episode, "go to fridge 1")
    assert play(episode, f"cool {thing} with fridge 1", f"examine {thing}")[1] == (
        f"This is a cold {thing}."
    )


def test_fifty_steps_end_an_episode_unless_the_limit_is_lifted(embedded: AlfworldTasks) -> None:
    episode, _ = start(embedded, HEAT)
    ends = [episode.step("look").truncated for _ in range(50)]
    assert ends == [False] * 49 + [True]
    episode, _ = start(embedded, HEAT, step_limit=0)
    assert not any(episode.step("look").truncated for _ in range(60))


def test_the_last_step_can_still_win(embedded: AlfworldTasks) -> None:
    _, count = solve(start(embedded, HEAT)[0])
    last, _ = solve(start(embedded, HEAT, step_limit=float(count))[0])
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)


def test_an_unreadable_call_repeats_the_observation_with_the_actions(
    embedded: AlfworldTasks,
) -> None:
    episode, _ = start(embedded, HEAT)
    last = episode.step("go to fridge 1")
    rejected = GRAMMAR.read("no json", ActionFormat.FUNCTION_CALLING)
    assert isinstance(rejected, Rejected)
    expected = "Invalid Action.\n\nThe fridge 1 is closed.\nAVAILABLE ACTIONS: examine fridge 1,"
    for _ in range(2):
        last = episode.render_error(rejected.message + last.text, last)
        assert last.text.startswith(expected)
        assert (last.reward, last.text.count("Invalid Action.")) == (0.0, 1)


def test_the_fixed_profile_lists_actions_and_forgives_spelling(embedded: AlfworldTasks) -> None:
    episode, _ = start(embedded, HEAT, profile="fixed")
    text = episode.step(" Go to  FRIDGE 1. ").text
    assert text.startswith("The fridge 1 is closed.\nAVAILABLE ACTIONS: examine fridge 1,")
    episode, thing = carry(embedded)
    fixed, _ = start(embedded, HEAT, profile="fixed")
    while not fixed.step(fixed.advise_expert(0).action).text.startswith("You pick up"):
        pass
    play(fixed, "go to microwave 1", "open microwave 1")
    assert fixed.step(f"place {thing} into microwave 1").text.startswith("You put the ")


@pytest.mark.parametrize(
    "options",
    [
        {"step_limit": -1},
        {"step_limit": 1.5},
        {"step_limit": True},
        {"step_limit": float("nan")},
        {"step_limit": float("inf")},
        {"list_actions": 1},
        {"as_recorded": "yes"},
        {"game": 3},
        {"game": "../../etc/passwd"},
        {"game": "train/../x"},
        {"game": "train/a/b"},
        {"pace": 1},
    ],
)
def test_options_that_do_not_exist_are_errors(
    embedded: AlfworldTasks, options: dict[str, object]
) -> None:
    with pytest.raises(InvalidOption):
        start(embedded, HEAT, **options)


@pytest.mark.parametrize("action_format", FORMATS)
def test_the_expert_speaks_every_format(
    embedded: AlfworldTasks, action_format: ActionFormat
) -> None:
    for number in range(6):
        episode, observation = start(embedded, f"alfworld_{1_600_000 + number}")
        while not observation.terminated:
            advice = episode.advise_expert(number)
            reply = GRAMMAR.write(advice, action_format)
            assert GRAMMAR.read(reply, action_format) == advice.action
            observation = episode.step(advice.action)
        assert observation.reward == 1.0


def test_the_expert_finds_its_way_from_any_state(embedded: AlfworldTasks) -> None:
    rng = random.Random(3)
    for number in range(48):
        episode, observation = start(embedded, f"alfworld_{1_600_000 + number}", step_limit=0)
        for _ in range(25):
            if not observation.terminated:
                observation = episode.step(episode.advise_random(rng).action)
        if not observation.terminated:
            observation, _ = solve(episode, 40)
        assert observation.reward == 1.0


def test_thoughts_vary_and_name_what_the_action_is_about(embedded: AlfworldTasks) -> None:
    episode, _ = start(embedded, HEAT)
    advices = [episode.advise_expert(seed) for seed in range(6)]
    assert len({advice.action for advice in advices}) == 1
    assert len({advice.thought for advice in advices}) == 3
    place = advices[0].action.removeprefix("go to ")
    assert all(place in advice.thought for advice in advices)


def test_doing_nothing_scores_zero_and_random_play_rarely_wins(embedded: AlfworldTasks) -> None:
    rng = random.Random(2)
    wins = 0
    for number in range(30):
        episode, _ = start(embedded, f"alfworld_{1_600_000 + number}")
        assert episode.step(episode.advise_noop().action).reward == 0.0
        wins += any(episode.step(episode.advise_random(rng).action).terminated for _ in range(30))
    assert wins < 6


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought:\nx\n\nAction:\nlook", "look"),
        ("Action: go to a\nAction: go to b", "go to b"),
        ("I do not know.", ""),
        ("Action:\nput a in/on b\nObservation: x", "put a in/on b\nObservation: x"),
    ],
)
def test_replies_are_read_as_the_original_client_does(reply: str, action: str) -> None:
    assert GRAMMAR.read(reply, ActionFormat.REACT) == action


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("goto", {"recep": "fridge 1"}, "go to fridge 1"),
        ("put", {"obj": "egg 1", "recep": "sofa 1"}, "put egg 1 in/on sofa 1"),
        ("examine", {"recep": "sofa 1", "obj": "lamp 1"}, "examine sofa 1 with lamp 1"),
        ("toggle", {"obj": "lamp 1"}, "toggle lamp 1"),
    ],
)
def test_functions_render_as_the_original_adapter_does(
    name: str, arguments: dict[str, str], action: str
) -> None:
    reply = json.dumps({"thought": "", "function_name": name, "arguments": arguments})
    assert GRAMMAR.read(reply, ActionFormat.FUNCTION_CALLING) == action


@pytest.mark.parametrize("action_format", FORMATS)
def test_prompts_name_every_action(action_format: ActionFormat) -> None:
    text = Alfworld.spec.conversation_starts[action_format].instruction
    for verb in GRAMMAR.verbs:
        if action_format is not ActionFormat.REACT:
            assert f"- {verb.name}(" in text
    assert "Nothing happens." in text


@given(
    text=st.one_of(
        st.text(),
        st.from_regex(r"(go to|take|open|put|use|examine) [a-z]{0,9} ?[0-9]{0,2}( in/on .*)?"),
    ),
    profile=st.sampled_from(["agentgym", "fixed"]),
)
@settings(max_examples=50, deadline=None)
def test_any_text_is_legal(embedded: AlfworldTasks, text: str, profile: str) -> None:
    episode, _ = start(embedded, HEAT, profile=profile)
    assert episode.step(text).text


def test_a_fork_goes_its_own_way(embedded: AlfworldTasks) -> None:
    episode, thing = carry(embedded)
    fork = episode.fork()
    assert fork.fingerprint() == episode.fingerprint()
    play(fork, "go to sinkbasin 1", f"put {thing} in/on sinkbasin 1")
    assert play(episode, "inventory") == [f"You are carrying: a {thing}."]
    assert fork.fingerprint() != episode.fingerprint()
