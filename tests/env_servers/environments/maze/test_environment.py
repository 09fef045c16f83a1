"""MAZE, played: observations, rewards, limits, profiles, options, players."""

import random

import pytest

from env_servers.environments.maze.environment import STEP_LIMIT, MazeEnvironment
from env_servers.environments.maze.grid import Maze
from env_servers.environments.maze.prompt import ACTIONS, EXAMPLE_MAZE, GRAMMAR, INSTRUCTIONS
from env_servers.environments.maze.tasks import MazeTasks
from env_servers.sdk import (
    ActionFormat,
    EnvironmentConfig,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    load_environment,
)

TASKS = MazeTasks()


def _opened(item: str, profile: str = "agentgym", **options):
    game = MazeEnvironment(TASKS)
    first = game.reset(TASKS.get(item), ResetOptions(profile=profile, options=options))
    return game, first


def _view(first: Observation) -> str:
    assert first.text.startswith(INSTRUCTIONS)
    return first.text.removeprefix(INSTRUCTIONS)


def _won_in(game: MazeEnvironment, first: Observation) -> tuple[Observation, int]:
    observation, moves = first, 0
    while not (observation.terminated or observation.truncated):
        observation = game.step(game.advise_expert(moves).action)
        moves += 1
    return observation, moves


def test_the_registry_finds_it():
    assert load_environment("maze") is MazeEnvironment
    assert isinstance(MazeEnvironment.load_tasks(EnvironmentConfig()), MazeTasks)


def test_the_first_observation_tells_the_rules_and_then_the_view():
    _, first = _opened("lmrlgym_maze_16")
    assert _view(first) == (
        "The goal is at position 8, 6. Your current position is at position 5, 6. "
        "There is a wall above you.\n"
    )
    assert first.reward == 0.0


def test_moving_tells_the_new_position_and_its_walls():
    game, _ = _opened("lmrlgym_maze_16")
    assert game.step("move down") == Observation(
        "The goal is at position 8, 6. Your current position is at position 6, 6. "
        "There are walls to your right, to your left.\n",
        reward=0.0,
    )


def test_walls_are_told_right_left_above_below():
    _, first = _opened("lmrlgym_maze_25")
    assert _view(first).endswith("There are walls to your right, to your left, below you.\n")
    _, first = _opened("maze_1000001", start=[1, 1])
    assert "to your left, above you" in first.text


def test_an_open_crossing_has_no_walls():
    maze = Maze(("#####", "##.##", "#...#", "##.##", "#####"), (2, 2), (1, 2))
    game = MazeEnvironment(TASKS)
    first = game.reset(Task("maze_0", maze), ResetOptions())
    assert first.text.endswith("at position 2, 2. There are no walls near you.\n")


def test_reaching_the_goal_succeeds():
    game, _ = _opened("lmrlgym_maze_18")
    assert game.step("move down") == Observation(
        "Success\n", reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
    )


@pytest.mark.parametrize(
    "action",
    [
        "",
        "Move down",
        "move down.",
        "down",
        "move  down",
        "move down\nbecause",
        "\x00",
        "x" * 10**6,
    ],
)
def test_an_illegal_action_changes_nothing_and_says_nothing(action):
    game, first = _opened("lmrlgym_maze_16")
    assert game.step(action) == Observation(_view(first), reward=0.0)


def test_the_step_after_the_fiftieth_fails_even_if_it_would_reach_the_goal():
    game, _ = _opened("lmrlgym_maze_18")
    for _ in range(STEP_LIMIT):
        observation = game.step("move left")
        assert not observation.terminated
    assert game.step("move down") == Observation(
        "Failure\n", reward=-1.0, terminated=True, stop_reason=StopReason.GOAL_FAILED
    )


def test_the_fiftieth_step_may_still_win():
    game, _ = _opened("lmrlgym_maze_18")
    for _ in range(STEP_LIMIT - 1):
        game.step("move left")
    assert game.step("move down").text == "Success\n"


def test_starting_on_the_goal_any_reply_succeeds_as_recorded():
    game, _ = _opened("lmrlgym_maze_25")
    assert game.step("move left").text == "Success\n"
    game, _ = _opened("lmrlgym_maze_25")
    assert game.step("move up").reward == 0.0


def test_the_worked_example_is_a_real_game():
    example = INSTRUCTIONS.split("```\n")[1].splitlines()
    told = [line.removeprefix("environment: ") for line in example[::2]]
    actions = [line.removeprefix("action: ") for line in example[1::2]]
    game = MazeEnvironment(TASKS)
    played = [game.reset(Task("maze_0", EXAMPLE_MAZE), ResetOptions(options={"instructions": ""}))]
    played += [game.step(action) for action in actions]
    assert [observation.text.strip() for observation in played] == told
    assert played[-1].terminated


def test_fixed_reads_one_direction_word_in_any_clothes():
    for action in ("down", "Move Down.", 'Action: "move down"', "MOVE DOWN, because"):
        game, _ = _opened("lmrlgym_maze_16", "fixed")
        assert "position 6, 6" in game.step(action).text


def test_fixed_says_what_did_not_work():
    game, first = _opened("lmrlgym_maze_16", "fixed")
    assert game.step("move up").text == "A wall blocks the way up.\n" + _view(first)
    for action in ("jump", "", "up or down", "updown", "x" * 10**6 + " up"):
        assert game.step(action).text.startswith("That is no move.")
        assert game.step(action).text.endswith(_view(first))


def test_fixed_truncates_at_the_fiftieth_step_without_a_penalty():
    game, _ = _opened("lmrlgym_maze_16", "fixed")
    for _ in range(STEP_LIMIT - 1):
        assert not game.step("move up").truncated
    last = game.step("move up")
    assert (last.truncated, last.terminated, last.reward) == (True, False, 0.0)
    assert last.stop_reason is StopReason.STEP_LIMIT


def test_fixed_wins_with_the_fiftieth_step():
    game, _ = _opened("lmrlgym_maze_18", "fixed")
    for _ in range(STEP_LIMIT - 1):
        game.step("left")
    last = game.step("down")
    assert (last.terminated, last.truncated, last.reward) == (True, False, 1.0)


def test_generated_mazes_can_be_asked_for_in_another_size():
    _, first = _opened("maze_2000003", rows=31.0, columns=21, braid=1)
    again, _ = _opened("maze_2000003", rows=31, columns=21, braid=1.0)
    assert b"#" * 21 in again.fingerprint()
    assert _won_in(again, first)[0].reward == 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 8},
        {"rows": 33},
        {"rows": "9"},
        {"rows": 9.5},
        {"rows": float("inf")},
        {"columns": True},
        {"braid": "much"},
        {"braid": float("nan")},
        {"start": [0, 0]},
        {"start": [-1, 1]},
        {"start": [1]},
        {"start": "1,1"},
        {"instructions": 3},
        {"colour": "red"},
    ],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(InvalidOption):
        _opened("maze_1000000", **options)


def test_the_official_maze_has_one_size_and_unknown_profiles_are_refused():
    with pytest.raises(InvalidOption):
        _opened("lmrlgym_maze_3", rows=9)
    with pytest.raises(InvalidOption):
        _opened("lmrlgym_maze_3", "strict")


def test_the_official_instructions_can_be_put_in_place_of_ours():
    _, first = _opened("lmrlgym_maze_18", instructions="Go!\n")
    assert first.text.startswith("Go!\nThe goal is at position 8, 6.")


@pytest.mark.parametrize("profile", MazeEnvironment.spec.profiles)
@pytest.mark.parametrize("split", ["eval", "official_eval"])
def test_the_expert_wins_every_game_within_the_rounds_of_an_evaluation(split, profile):
    limit = MazeEnvironment.spec.max_rounds
    for item in TASKS.item_ids(split, 0, 10_000):
        game, first = _opened(item, profile)
        last, moves = _won_in(game, first)
        assert (last.reward, moves <= limit) == (1.0, True), item


def test_the_expert_takes_shortest_ways():
    game, first = _opened("lmrlgym_maze_0")
    assert _won_in(game, first)[1] == 2 + 4 + 3 + 3


def test_the_seed_changes_the_thought_and_nothing_else():
    game, _ = _opened("lmrlgym_maze_16")
    advice = [game.advise_expert(seed) for seed in range(6)]
    assert {a.action for a in advice} == {"move down"}
    assert len({a.thought for a in advice}) > 1
    assert advice == [game.advise_expert(seed) for seed in range(6)]


def test_the_expert_speaks_of_a_detour_when_it_leaves_the_straight_line():
    game, _ = _opened("lmrlgym_maze_19")
    assert game.advise_expert(0).action == "move left"
    game, _ = _opened("lmrlgym_maze_0")
    assert "detour" not in game.advise_expert(2).thought
    game, _ = _opened("lmrlgym_maze_4")
    advice = game.advise_expert(2)
    assert (advice.action, "detour" in advice.thought) == ("move left", True)


def test_doing_nothing_never_scores():
    for split in ("official_eval", "eval"):
        for item in TASKS.item_ids(split, 0, 30):
            game, _ = _opened(item)
            rewards = [game.step(game.advise_noop().action).reward for _ in range(15)]
            assert set(rewards) == {0.0}


def test_the_random_player_tries_all_moves():
    game, _ = _opened("lmrlgym_maze_16")
    rng = random.Random(0)
    assert {game.advise_random(rng).action for _ in range(60)} == set(ACTIONS)


@pytest.mark.parametrize("action_format", ActionFormat)
def test_every_format_has_a_start_and_carries_every_move(action_format):
    assert MazeEnvironment.spec.conversation_starts[action_format].instruction
    game, _ = _opened("lmrlgym_maze_16")
    for advice in (game.advise_expert(1), game.advise_noop(), game.advise_random(random.Random(1))):
        assert GRAMMAR.read(GRAMMAR.write(advice, action_format), action_format) == advice.action


def test_the_first_of_several_actions_counts_and_a_bare_reply_is_an_action():
    read = GRAMMAR.read_react
    assert read("Thought:\nx\n\nAction:\nmove up\nAction: move down") == "move up"
    assert read("  move left \n") == "move left"
    assert read("Action: move up\nso that I get there") == "move up\nso that I get there"


def test_a_fork_goes_its_own_way():
    game, _ = _opened("lmrlgym_maze_16")
    game.step("move down")
    twin = game.fork()
    assert twin.fingerprint() == game.fingerprint()
    twin.step("move up")
    assert twin.fingerprint() != game.fingerprint()
    assert "position 7, 6" in game.step("move down").text


def test_fingerprints_tell_steps_and_profiles_apart():
    game, _ = _opened("lmrlgym_maze_16")
    before = game.fingerprint()
    game.step("nothing")
    other, _ = _opened("lmrlgym_maze_16", "fixed")
    assert len({before, game.fingerprint(), other.fingerprint()}) == 3
