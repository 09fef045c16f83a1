from __future__ import annotations

import ast
import json
import struct

import pytest

from env_servers.environments.babyai.scene import UNRECOGNISED
from env_servers.sdk import (
    ActionFormat,
    Advice,
    EnvironmentConfig,
    ImageType,
    InvalidOption,
    Rejected,
    StopReason,
)
from env_servers.sdk.contract import EnvironmentContract, Terms
from tests.env_servers.environments.babyai.play import begin, play, start

RED_BALL = (
    "Your goal: go to the red ball\n"
    "In front of you in this room, you can see several objects: "
    "There is a grey key 1 1 steps in front of you and 1 steps to your left.  "
)


class TestBabyai(EnvironmentContract):
    environment_name = "babyai"
    # Two levels of forty are not solvable on every seed, see the README.
    terms = Terms(expert_items_per_split=20, expert_success=0.9)


def test_the_first_observation_names_the_goal_the_view_and_the_actions():
    _, first = begin("babyai_0")
    goal, view, actions = first.text.split("\n")
    assert f"{goal}\n{view}".startswith(RED_BALL)
    assert view.endswith("You are facing a wall 6 steps away. You are not carrying anything.")
    listed = json.loads(actions.removeprefix("Available actions: "))
    assert listed[:3] == ["turn left", "turn right", "move forward"]
    assert listed[-1] == "check available actions"
    assert "go to red ball 1" in listed
    assert (first.reward, first.score) == (0.0, 0.0)


def test_the_list_of_actions_can_be_left_out():
    _, first = begin("babyai_0", available_actions=False)
    assert "Available actions" not in first.text


def test_images_show_what_the_agent_sees_and_change_no_text():
    episode, first = begin("babyai_0", images=True)
    _, plain = begin("babyai_0")
    assert first._replace(images=()) == plain
    (image,) = first.images
    width, height = struct.unpack("!II", image.content[16:24])
    assert (image.media_type, width, height) == (ImageType.PNG, 224, 224)
    assert episode.fork().step("turn left").images != first.images
    turned = [episode.step("turn left") for _ in range(4)]
    assert turned[-1].images == first.images
    with pytest.raises(InvalidOption, match="true or false"):
        begin("babyai_0", images="yes")


def test_the_original_of_2024_takes_all_lines_for_the_action_and_lists_no_actions():
    reply = "Action:\ngo to red ball 1\npick up red ball 1"
    today, _ = begin("babyai_0", original="2025")
    assert today.grammar.read(reply, ActionFormat.REACT) == "go to red ball 1"
    recorded, first = begin("babyai_0", original=2024)
    whole = recorded.fork().grammar.read(reply, ActionFormat.REACT)
    assert whole == "go to red ball 1\npick up red ball 1"
    assert recorded.step(whole).text == UNRECOGNISED
    assert "Available actions" not in first.text
    _, listed = begin("babyai_0", original="2024", available_actions=True)
    assert "Available actions" in listed.text
    for wrong in ({"original": "2023"}, {"original": "2024", "profile": "fixed"}):
        with pytest.raises(InvalidOption, match="option original"):
            begin("babyai_0", **wrong)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_the_option_must_be_true_or_false(value):
    with pytest.raises(InvalidOption):
        begin("babyai_0", available_actions=value)


def test_reaching_the_goal_ends_the_episode_with_a_reward_for_few_moves():
    episode, _ = begin("babyai_0")
    last = episode.step("Go To Red Ball 1 ")
    assert last.terminated
    assert last.stop_reason is StopReason.GOAL_REACHED
    assert "\n The task is completed.\nAvailable actions: [" in last.text
    assert last.score == pytest.approx(1 - 0.9 * 8 / 64)
    assert last.reward == last.score


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("fly", UNRECOGNISED),
        ("pick up red ball 1", UNRECOGNISED),
        ("go to red ball 2", UNRECOGNISED),
        ("", "No change in state."),
        ("drop", "You cannot drop the object, as you are not carrying anything."),
        ("please check this", "You can take the following actions: turn left, turn right,"),
    ],
)
def test_what_cannot_be_done_is_said_and_costs_nothing(action, answer):
    episode, first = begin("babyai_0")
    told = episode.step(action)
    assert told.text.startswith(answer)
    assert told.text.endswith(first.text.rpartition("\n")[2])
    assert not told.terminated
    assert told.score == 0.0


def test_standing_before_a_thing_going_there_changes_nothing():
    episode, _ = begin("babyai_0")
    assert play(episode, ["go to grey key 1", "go to grey key 1"])[1].text.startswith(
        "No change in state."
    )


def test_a_wall_ahead_is_a_barrier():
    episode, _ = start(13, 0)
    told = play(episode, ["turn left"] * 2 + ["move forward"] * 6)
    assert any("There is a barrier in front of you" in seen.text for seen in told)


def test_a_locked_door_wants_its_key():
    episode, _ = begin("babyai_1984")
    while "locked door" not in episode.step("turn left").text:
        pass
    door = next(name for name in episode.episode.scene.refusals if "locked door" in name)
    assert episode.step(door).text.startswith(f"You cannot {door}, as you are not carrying a key.")


def test_agentgym_joins_ordered_goals_with_and_while_fixed_keeps_the_order():
    item = "babyai_15"  # OpenDoorsOrderN4Debug
    texts = {
        profile: [begin(f"babyai_{15 + 40 * seed}", profile)[1].text for seed in range(12)]
        for profile in ("agentgym", "fixed")
    }
    assert begin(item)[1].text.startswith("Your goal: open the ")
    assert not any(", then " in text or "after you" in text for text in texts["agentgym"])
    assert any(", then " in text for text in texts["fixed"])
    assert any("after you" in text for text in texts["fixed"])


def late_success(profile: str):
    """GoToObjS6 allows 16 moves; this reaches the goal at move 14."""
    episode, _ = begin("babyai_43", profile)
    return episode, [*play(episode, ["turn left"] * 12), episode.step("go to yellow key 1")]


def test_agentgym_forgets_a_late_success_and_earns_it_again_every_round():
    episode, told = late_success("agentgym")
    assert "The task is completed." in told[-1].text
    assert not told[-1].terminated
    earned = told[-1].score
    assert earned is not None
    assert 0 < earned <= 0.5
    assert episode.step("nonsense").score == pytest.approx(2 * earned)
    assert episode.step("nonsense").score == pytest.approx(3 * earned)
    assert episode.advise_expert(0).action == "check available actions"


def test_fixed_ends_with_a_late_success():
    _, told = late_success("fixed")
    assert told[-1].terminated
    assert told[-1].score is not None
    assert 0 < told[-1].score <= 0.5


def test_only_fixed_ends_at_the_step_limit_of_the_level():
    fixed, _ = begin("babyai_43", "fixed")
    agentgym, _ = begin("babyai_43")
    assert play(fixed, ["turn left"] * 16)[-1].truncated
    assert not play(agentgym, ["turn left"] * 30)[-1].truncated


def test_opening_the_wrong_door_fails_only_in_fixed():
    for profile in ("agentgym", "fixed"):
        episode, first = begin("babyai_55", profile)
        goal = first.text.partition("\n")[0].split()
        for _ in range(4):
            doors = [
                action
                for action in episode.episode.scene.offers
                if action.startswith("toggle and") and action.split()[4] not in goal
            ]
            if doors:
                break
            episode.step("turn left")
        last = episode.step(doors[0])
        assert last.terminated == (profile == "fixed")
        if profile == "fixed":
            assert last.stop_reason is StopReason.GOAL_FAILED
            assert last.score == 0.0


def test_fixed_understands_pick_up_in_two_words():
    episode, _ = begin("babyai_0", "fixed")
    assert "You are carrying a grey key." in episode.step("pick up grey key 1").text


def test_going_through_hides_a_final_opening_in_agentgym():
    """The original reports the last move of an action only, and that is the step ahead."""
    episode, _ = start(13, 0)
    for _ in range(4):
        opening = [name for name in episode.episode.scene.offers if name.startswith("toggle and")]
        if opening:
            break
        episode.step("turn left")
    assert not episode.step(opening[0]).terminated
    fixed, _ = start(13, 0, "fixed")
    while opening[0] not in fixed.episode.scene.offers:
        fixed.step("turn left")
    assert fixed.step(opening[0]).terminated


def test_official_evaluation_ids_come_from_the_data_folder(tmp_path):
    from env_servers.environments.babyai import environment as babyai

    folder = tmp_path / "agenteval"
    folder.mkdir()
    (folder / "babyai_test.json").write_text('[{"item_id": "babyai_1804"}]')
    tasks = babyai.load_tasks(EnvironmentConfig(data_dir=tmp_path))
    assert list(tasks.item_ids("official_eval", 0, 9)) == ["babyai_1804"]
    assert "official_eval" not in babyai.load_tasks(EnvironmentConfig()).splits()


@pytest.mark.parametrize("action_format", ActionFormat)
@pytest.mark.parametrize(
    "action",
    [
        "turn left", "go to red ball 1", "pickup grey key 2", "drop", "toggle",
        "go through blue open door 1", "toggle and go through red locked door 1",
        "go to grey closed door 3", "check available actions",
    ],
)  # fmt: skip
def test_every_action_can_be_said_in_every_format(action, action_format):
    grammar = begin("babyai_0")[0].spec.grammar
    said = grammar.write(Advice(action, "Because."), action_format)
    assert grammar.read(said, action_format) == action


def test_two_actions_in_one_reply_are_rejected():
    grammar = begin("babyai_0")[0].spec.grammar
    found = grammar.read("Action:\nturn left\nAction:\nturn right", ActionFormat.REACT)
    assert isinstance(found, Rejected)


def test_the_fingerprint_is_written_as_python_writes_its_parts():
    episode, _ = start(7, 3)
    for turn in range(6):
        episode.step(episode.advise_expert(turn).action)
        written = episode.fingerprint().decode()
        options, _, (mission, *_), image, visits, _ = parts = ast.literal_eval(written)
        assert repr(parts) == written
        assert (options, mission) == ((True, True, "2025"), str(episode.episode.level.mission))
        assert image == episode.episode.image
        marks = episode.episode.visits.items()
        assert visits == sorted(f"({mark!r}, {count})" for mark, count in marks)
