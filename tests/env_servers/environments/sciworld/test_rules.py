"""Scores, ends and observations of an episode."""

from __future__ import annotations

from typing import Any

import pytest

from env_servers.environments.sciworld import SciWorld
from env_servers.environments.sciworld.tasks import SciWorldTasks
from env_servers.environments.sciworld.vocabulary import recorded_action, recorded_text
from env_servers.sdk import InvalidOption, Observation, ResetOptions, StopReason, Task

BOIL = "sciworld_0"


def start(tasks: SciWorldTasks, item: str = BOIL, **options: Any) -> tuple[SciWorld, Observation]:
    episode = SciWorld(tasks)
    return episode, episode.reset(tasks.get(item), ResetOptions(options=options))


def test_the_first_observation_is_the_task_and_the_room(tasks: SciWorldTasks) -> None:
    _, first = start(tasks)
    head, _, room = first.text.partition("\n")
    assert head.startswith("Your task is to boil water. ")
    assert room.startswith("This room is called the hallway. In it, you see: \n\tthe agent\n")
    assert "\tA door to the art studio (that is closed)\n" in room
    assert (first.reward, first.terminated, first.truncated) == (None, False, False)


def test_actions_are_answered_by_the_simulator(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks)
    assert episode.step("open door to art studio").text == "The door is now open."
    assert episode.step("do something").text == "No known action matches that input."
    assert episode.step("").text == "No known action matches that input."
    assert episode.step("task").text.startswith("Task description:\nYour task is to boil water.")
    assert episode.step(" HELP ").text.startswith("Possible actions: \n\tactivate OBJ\n")
    assert episode.step("objects").text.startswith("Possible object references: \n\t")


def test_an_ambiguous_action_is_answered_with_its_number(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks)
    asked = episode.step("open door")
    assert asked.text.startswith(
        "Ambiguous request: Please enter the number for the action you intended "
        "(or blank to cancel):\n0:\t"
    )
    assert episode.step("0").text == "The door is now open."


def test_focusing_on_the_wrong_thing_costs_a_hundred_and_ends(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks)
    ended = episode.step("focus on agent")
    assert (ended.reward, ended.terminated, ended.truncated) == (-100.0, True, False)
    assert ended.stop_reason is StopReason.GOAL_FAILED


def test_the_reward_is_the_score_so_far(tasks: SciWorldTasks) -> None:
    episode, observation = start(tasks, "sciworld_2636")
    rewards = []
    while not observation.terminated:
        observation = episode.step(episode.advise_expert(0).action)
        rewards.append(observation.reward)
    assert rewards == sorted(rewards)
    assert rewards[-1] == 100.0
    assert observation.stop_reason is StopReason.GOAL_REACHED


def test_more_than_a_hundred_moves_end_the_episode(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks)
    told = [episode.step("wait") for _ in range(10)]
    assert [each.truncated for each in told] == [False] * 9 + [True]
    assert told[-1].stop_reason is StopReason.STEP_LIMIT
    assert not told[-1].terminated


def test_the_limit_can_be_chosen(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks, step_limit=15.0)
    assert [episode.step("wait").truncated for _ in range(2)] == [False, True]


def test_simplifications_open_the_doors(tasks: SciWorldTasks) -> None:
    _, first = start(tasks, simplifications="openDoors")
    assert "(that is closed)" not in first.text
    episode, _ = start(tasks, simplifications="easy")
    assert episode.step("teleport to kitchen").text == "You teleport to the kitchen."


def test_recorded_words_are_spoken_on_demand(tasks: SciWorldTasks) -> None:
    episode, first = start(tasks, as_recorded=True)
    assert "A door to the green house (that is open)" in first.text
    assert episode.step("go to green house").text == "You move to the green house."
    _, measured = start(tasks, "sciworld_120", as_recorded=True)
    assert "degrees celsius" not in measured.text


NUTS = "sciworld_3838"


def test_recorded_words_are_understood_where_a_recipe_has_them(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks, NUTS, as_recorded=True)
    recipe = "Your task is to use chemistry to create the substance 'mixed nuts'"
    assert recipe in episode.step("task").text
    told: list[str] = []
    seen = episode.step("look around")
    while not seen.terminated:
        told.append(episode.advise_expert(0).action)
        seen = episode.step(told[-1])
        told.append(seen.text)
    assert seen.reward == 100.0
    texts = "\n".join(told)
    assert ("cachew" in texts, "cashew" in texts) == (True, False)


@pytest.mark.parametrize(
    ("recorded", "today"),
    [
        ("focus on gasseous tin", "focus on gaseous tin"),
        ("pick up voilet paper", "pick up violet paper"),
        ("focus on violet paint", "focus on violet paint"),
        ("examine gaseous apple juice", "examine gaseous apple juice"),
    ],
)
def test_only_the_names_that_differ_are_translated(recorded: str, today: str) -> None:
    assert (recorded_action(recorded), recorded_text(today)) == (today, recorded)


@pytest.mark.parametrize(
    "options",
    [
        {"as_recorded": 1.0},
        {"simplifications": "magic"},
        {"simplifications": "easy,openDoors"},
        {"simplifications": ["easy"]},
        {"step_limit": 0},
        {"step_limit": 1.5},
        {"step_limit": float("nan")},
        {"step_limit": float("inf")},
        {"step_limit": True},
        {"anything": 1},
    ],
)
def test_wrong_options_are_refused(tasks: SciWorldTasks, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        start(tasks, **options)


def test_electrical_tasks_keep_their_actions(tasks: SciWorldTasks) -> None:
    with pytest.raises(InvalidOption, match="electrics"):
        start(tasks, "sciworld_1096", simplifications="noElectricalAction")


def test_a_megabyte_of_anything_is_answered(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks)
    for text in ("x" * 2**20, "look " * 200_000, "\0" * 1000, "\ud800", "'\"\\\n\r\t"):
        assert episode.step(text).text == "No known action matches that input."
    assert episode.step("look" + " " * 2**20 + "around").text.startswith("This room is called")


def test_before_a_reset_there_is_nothing_to_step(tasks: SciWorldTasks) -> None:
    with pytest.raises(RuntimeError):
        SciWorld(tasks).step("look around")


def test_tasks_are_categorised_by_their_name(tasks: SciWorldTasks) -> None:
    task: Task = tasks.get(BOIL)
    assert task.category == "boil"
