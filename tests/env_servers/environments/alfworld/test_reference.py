"""Both engines on the same games: every string, every list of commands, every end.

Runs where TextWorld is installed (extra `alfworld-reference`); the native engine is always there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.play import NativePlay, Play
from env_servers.environments.alfworld.reference import ReferencePlay, check_installed
from env_servers.environments.alfworld.scripted_player import plan
from env_servers.environments.alfworld.tasks import AlfworldTasks, Source
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, ResetOptions
from tests.kit.fidelity import recordings

try:
    check_installed()
except EnvironmentUnavailable as missing:
    pytest.skip(str(missing), allow_module_level=True)

INVALID = (
    "",
    "dance",
    "go to",
    "go to fridge 99",
    "put apple 1 on countertop 1",
    "LOOK",
    "  look  ",
    "look\n",
    "look look",
    "go to cabinet  1",
    "help",
    "examine agent1",
    "use desklamp 9",
    "\0",
    "{o}",
    "#look.feedback#",
)


def differences(
    native: Play, reference: Play, commands: Sequence[str] | None, seed: int, length: int
) -> list[str]:
    """Where two engines disagree over given commands, or over random and invalid ones."""
    rng = random.Random(seed)
    found = [] if native.intro() == reference.intro() else [f"intro: {reference.intro()!r}"]
    for step in range(len(commands) if commands is not None else length):
        possible = native.admissible()
        if possible != reference.admissible():
            found.append(f"{step}: admissible {reference.admissible()}")
        if commands is not None:
            command = commands[step]
        else:
            work = [each for each in possible if not each.startswith(("go to", "close"))]
            command = rng.choice(
                rng.choice([INVALID, possible, work or possible, work or possible])
            )
        ours, theirs = native.act(command), reference.act(command)
        if ours != theirs:
            found.append(f"{step} {command!r}: {theirs} is told as {ours}")
        if ours[1]:
            break
    return found


def compare(
    tasks: AlfworldTasks, source: Source, commands: Sequence[str] | None = None, length: int = 40
) -> None:
    game = tasks.game(source)
    reference = ReferencePlay(game, tasks.game_file(source))
    try:
        seed = len(game.intro())
        assert differences(NativePlay(game), reference, commands, seed, length) == [], source
    finally:
        reference.close()


def expert_commands(tasks: AlfworldTasks, source: Source) -> list[str]:
    """The planner's way to the goal, as commands."""
    game = tasks.game(source)
    state, commands = game.first, []
    for step in plan(game, state, 60) or []:
        commands.append(game.command(state, step.grounded))
        state, _ = game.do(state, step.grounded)
    return commands


@pytest.mark.parametrize("number", range(6))
def test_generated_games_are_the_same_game_to_both(embedded: AlfworldTasks, number: int) -> None:
    source = embedded.get(f"alfworld_{1_600_000 + number}").payload
    compare(embedded, source, expert_commands(embedded, source))
    compare(embedded, source)


def test_recorded_experts_are_told_the_same_by_both(official: AlfworldTasks) -> None:
    for recording in recordings("alfworld", every=100):
        commands = [reply.removeprefix("Action:\n") for reply in recording.replies]
        compare(official, official.named(recording.options["game"]), commands)


@pytest.mark.slow
def test_random_and_invalid_commands_are_told_the_same_by_both(official: AlfworldTasks) -> None:
    splits = ("official_train", "official_eval", "official_valid_unseen")
    for split in splits:
        for item in official.item_ids(split, 0, 1000)[:: 400 // 8]:
            compare(official, official.get(item).payload, length=30)


def test_an_episode_can_be_played_by_the_reference() -> None:
    tasks = Alfworld.load_tasks(EnvironmentConfig(settings={"alfworld.engine": "textworld"}))
    episode = Alfworld(tasks)
    observation = episode.reset(tasks.get("alfworld_1600000"), ResetOptions())
    assert "AVAILABLE ACTIONS: go to " in observation.text
    while not observation.terminated:
        twin = episode.fork()
        action = episode.advise_expert(0).action
        observation = episode.step(action)
        assert twin.step(action) == observation
        twin.close()
    assert observation.reward == 1.0
    episode.close()
