"""The scripted players, the prompts, and the three action formats."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from env_servers.environments.sciworld import SciWorld
from env_servers.environments.sciworld.expert import advise, progress
from env_servers.environments.sciworld.prompt import GRAMMAR, VERBS, expressible
from env_servers.environments.sciworld.tasks import SciWorldTasks
from env_servers.sdk import ActionFormat, Observation, Rejected, ResetOptions

FORMATS = list(ActionFormat)
PLANT = "sciworld_3236"
"""find-plant 0 under the default map: a short way to the greenhouse or the outside."""

PATH = ("open door to kitchen", "go to kitchen", "pick up cup", "focus on cup")
HALLWAY = "This room is called the hallway. In it, you see: \n\tthe agent\n"
DOORS = HALLWAY + "You also see:\n\tA door to the kitchen (that is closed)\n"


def start(tasks: SciWorldTasks, item: str, **options: object) -> tuple[SciWorld, Observation]:
    episode = SciWorld(tasks)
    return episode, episode.reset(tasks.get(item), ResetOptions(options=options))


def next_action(journal: Sequence[str], view: str = "", last: str = "") -> str:
    return advise(PATH, journal, opening=HALLWAY, last=last, look=lambda: view, wording=0).action


def test_the_path_is_followed_step_by_step() -> None:
    for count in range(len(PATH)):
        assert next_action(PATH[:count], view="never asked") == PATH[count]
    assert next_action(PATH) == "look around"
    assert progress(["focus on unknown substance B"], ["focus on unknown substance B"]) == 1


def test_harmless_detours_are_ignored() -> None:
    assert progress(PATH, ["inventory", *PATH[:2], "look around", "nonsense", PATH[2]]) == 3
    assert next_action(["inventory", "Open  door to KITCHEN"], view=HALLWAY) == PATH[1]


def test_who_walked_away_is_led_back() -> None:
    strayed = [*PATH[:2], "go to hallway"]
    assert next_action(strayed, view=DOORS) == "open door to kitchen"
    assert next_action(strayed, view=DOORS.replace("closed", "open")) == "go to kitchen"
    far = "This room is called the foundry. In it, you see: \n"
    assert next_action([*PATH[:2], "go to foundry"], view=far) == "go to outside"
    assert next_action([*strayed, "go to kitchen"], view=HALLWAY.replace("hallway", "kitchen")) == (
        "pick up cup"
    )


def test_a_question_that_the_path_did_not_expect_is_answered() -> None:
    assert next_action(["open door"], last="Ambiguous request: Please enter") == "0"


def test_the_expert_returns_from_anywhere(tasks: SciWorldTasks) -> None:
    # Something that does not live waits where it is.
    episode, observation = start(tasks, "sciworld_2936", simplifications="openDoors")
    rng = random.Random(4)
    for _ in range(8):
        rooms = ("hallway", "kitchen", "outside", "bathroom", "workshop", "bedroom")
        episode.step(f"go to {rng.choice(rooms)}")
    steps = 0
    while not observation.terminated and steps < 40:
        observation = episode.step(episode.advise_expert(steps).action)
        steps += 1
    assert observation.reward == 100.0


def test_the_seed_changes_the_words_and_nothing_else(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks, PLANT)
    advice = [episode.advise_expert(seed) for seed in range(6)]
    assert len({given.action for given in advice}) == 1
    assert len({given.thought for given in advice}) == 3


def test_advice_in_recorded_words_leads_to_the_goal(tasks: SciWorldTasks) -> None:
    episode, observation = start(tasks, PLANT, as_recorded=True)
    while not observation.terminated:
        action = episode.advise_expert(0).action
        assert "greenhouse" not in action
        observation = episode.step(action)
    assert observation.reward == 100.0


def test_doing_nothing_scores_zero(tasks: SciWorldTasks) -> None:
    episode, _ = start(tasks, "sciworld_0")
    for _ in range(30):
        observation = episode.step(episode.advise_noop().action)
        assert (observation.reward, observation.terminated) == (0.0, False)


def test_the_random_player_does_what_can_be_done(tasks: SciWorldTasks) -> None:
    episode, observation = start(tasks, "sciworld_0")
    rng = random.Random(2)
    refused = 0
    for _ in range(15):
        observation = episode.step(episode.advise_random(rng).action)
        refused += observation.text == "No known action matches that input."
        if observation.terminated:
            break
    assert refused == 0


@pytest.mark.parametrize("action_format", FORMATS)
def test_the_expert_speaks_every_format(tasks: SciWorldTasks, action_format: ActionFormat) -> None:
    episode, observation = start(tasks, "sciworld_1096")
    while not observation.terminated:
        advice = episode.advise_expert(1)
        reply = GRAMMAR.write(advice, action_format)
        assert GRAMMAR.read(reply, action_format) == advice.action
        observation = episode.step(advice.action)
    assert observation.reward == 100.0


@pytest.mark.parametrize(
    ("action", "name", "arguments"),
    [
        ("look around", "look_around", {}),
        ("open door to kitchen", "open", {"object": "door to kitchen"}),
        ("use thermometer in inventory on water", "use", {"object": "thermometer in inventory"}),
        ("use shovel", "use", {"object": "shovel"}),
        ("move soil to flower pot 3", "move", {"object": "soil", "target": "flower pot 3"}),
        ("pour cup into jug", "pour", {"object": "cup", "target": "jug"}),
        ("connect battery anode to blue wire terminal 1", "connect", {"object": "battery anode"}),
        ("wait1", "wait_once", {}),
        ("12", "choose", {"number": 12}),
    ],
)
def test_native_actions_are_calls(action: str, name: str, arguments: dict[str, object]) -> None:
    assert GRAMMAR.express is not None
    verb, given = GRAMMAR.express(action)
    assert verb == name
    assert arguments.items() <= given.items()
    assert GRAMMAR.read_call(verb, dict(given)) == action


def test_some_texts_are_no_call() -> None:
    assert not any(map(expressible, ("", "look", "012", "dance", "objects")))


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought:\nI go.\n\nAction:\ngo to kitchen", "go to kitchen"),
        ("Action: a\nAction: b", "b"),
        ("Action:\n0", "0"),
        ("go to kitchen", ""),
    ],
)
def test_replies_are_read_as_the_original_client_does(reply: str, action: str) -> None:
    assert GRAMMAR.read(reply, ActionFormat.REACT) == action


def test_an_unreadable_call_repeats_the_observation() -> None:
    for action_format in (ActionFormat.FUNCTION_CALLING, ActionFormat.CODE_AS_ACTION):
        read = GRAMMAR.read("go to kitchen", action_format)
        assert read == Rejected("Invalid Action.\n\n", repeat_observation=True)


@pytest.mark.parametrize("action_format", FORMATS)
def test_prompts_name_every_action(action_format: ActionFormat) -> None:
    text = SciWorld.spec.conversation_starts[action_format].instruction
    for verb in VERBS:
        if action_format is not ActionFormat.REACT:
            assert f"- {verb.name}(" in text
        elif verb.name not in {"choose", "drop", "reset_task", "teleport_to"}:
            assert str(verb.template).split(" {")[0].split("{")[0] in text or verb.name == "use"


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_expert_solves_what_can_be_solved_in_time(tasks: SciWorldTasks) -> None:
    """Sixty items of `eval`: two of each task. In 30 replies, and in the original's 100 moves."""
    chosen: dict[str, list[str]] = {}
    for item in tasks.item_ids("eval", 0, 10**6):
        chosen.setdefault(tasks.category(item), []).append(item)
    in_rounds: list[str] = []
    in_time: list[str] = []
    at_all: list[str] = []
    for name, items in sorted(chosen.items()):
        for item in (items[0], items[-1]):
            rounds, moves_left = solve(tasks, item)
            in_rounds += [name] if rounds <= 30 and moves_left else []
            in_time += [name] if moves_left else []
            at_all.append(name)
    print(len(in_rounds), len(in_time), len(at_all), sorted(set(at_all) - set(in_rounds)))
    assert len(at_all) == 60
    assert len(in_time) >= 50
    assert len(in_rounds) >= 30


def solve(tasks: SciWorldTasks, item: str) -> tuple[int, bool]:
    """Replies that the expert needs, and whether the original's limit lets it."""
    episode, observation = start(tasks, item, step_limit=1000)
    rounds, in_time = 0, True
    while not observation.terminated:
        observation = episode.step(episode.advise_expert(rounds).action)
        rounds += 1
        assert rounds < 400
        live = episode.episode
    assert observation.reward == 100.0
    limited, observation = start(tasks, item)
    for action in live.simulation.journal[1:]:
        observation = limited.step(action)
        if observation.terminated or observation.truncated:
            break
    in_time = observation.terminated
    limited.close()
    episode.close()
    return rounds, in_time
