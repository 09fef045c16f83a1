from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from minigrid.minigrid_env import MiniGridEnv

from env_servers.environments.babyai.levels import LEVELS, build

STEP_LIMITS = {
    "GoToRedBallGrey": 64, "GoToObjS6": 16, "GoToObjMazeS7": 441, "GoToImpUnlock": 576,
    "GoToSeqS5R2": 100, "OpenRedDoor": 50, "OpenRedBlueDoorsDebug": 720, "PickupDistDebug": 49,
    "PickupAbove": 288, "PutNextLocalS6N4": 72, "PutNextS7N4Carrying": 392, "Unlock": 576,
    "UnlockPickupDist": 72, "BlockedUnlockPickup": 576, "UnlockToUnlock": 1080, "FindObjS7": 980,
    "KeyCorridorS6R3": 1080, "OneRoomS20": 400, "MoveTwoAcrossS8N9": 1024,
}  # fmt: skip


def minigrid_image(level: MiniGridEnv) -> tuple[int, ...]:
    pixels = MiniGridEnv.gen_obs(level)["image"].astype(int)
    codes = pixels[..., 0] << 8 | pixels[..., 1] << 4 | pixels[..., 2]
    return tuple(int(code) for code in codes.T.reshape(-1))


def test_there_are_forty_levels_in_the_original_order():
    assert len(LEVELS) == 40
    assert (LEVELS[0], LEVELS[30], LEVELS[39]) == (
        "GoToRedBallGrey",
        "FindObjS7",
        "BossLevelNoUnlock",
    )


@pytest.mark.parametrize("name", STEP_LIMITS)
def test_levels_have_the_original_step_limits(name):
    level, _ = build(LEVELS.index(name) + 1, 0)
    assert level.max_steps == STEP_LIMITS[name]


@pytest.mark.parametrize("number", range(1, 41))
def test_the_image_equals_minigrids_own_wherever_the_agent_goes(number):
    level, image = build(number, number)
    if number != 23:  # there the hand is filled only after the first image was made
        assert image == minigrid_image(level)
    rng = random.Random(number)
    for _ in range(25):
        seen, *_ = level.step(rng.choice([0, 1, 2, 2, 2, 3, 4, 5]))
        assert seen["image"] == level.image() == minigrid_image(level)


def test_rooms_are_those_of_the_minigrid_version_that_was_recorded():
    """Missions and grids of MiniGrid 2.3.1, as digests over ids 0..199."""
    digest = hashlib.blake2b(digest_size=8)
    for index in range(200):
        level, _ = build(1 + index % 40, index // 40)
        grid = level.grid.encode().astype(np.uint8).tobytes()
        digest.update(f"{level.mission}|{level.max_steps}|{int(level.agent_dir)}|".encode() + grid)
    assert digest.hexdigest() == "506d08c2e852c1fb"


@pytest.mark.parametrize(
    ("index", "mission"),
    [
        (1, "go to the red ball"),
        (79, "pick up a purple ball and open a red door"),
        (155, "go to the red box"),
        (156, "put the purple box next to the grey box and go to the door on your right"),
    ],
)
def test_missions_are_the_recorded_ones_even_where_newer_versions_draw_others(index, mission):
    level, _ = build(1 + index % 40, index // 40)
    assert level.mission == mission


def test_building_levels_writes_nothing(capfd):
    for seed in range(8):
        build(18, seed)
        build(9, seed)
    assert capfd.readouterr() == ("", "")


def test_the_global_generators_do_not_matter():
    random.seed(1)
    np.random.seed(1)
    first, _ = build(39, 7)
    random.seed(2)
    np.random.seed(2)
    second, _ = build(39, 7)
    assert first.mission == second.mission
    assert np.array_equal(first.grid.encode(), second.grid.encode())


def test_a_seed_on_which_minigrid_never_finds_a_place_for_the_agent_gives_a_level():
    seed, level = divmod(1_003_074, len(LEVELS))
    first, _ = build(level + 1, seed)
    second, _ = build(level + 1, seed)
    assert first.mission == second.mission
    assert first.grid == second.grid


def test_a_level_that_was_built_before_is_a_copy_of_its_own():
    first, seen = build(20, 5)
    second, seen_again = build(20, 5)
    other = first.step(1)[0]["image"]
    assert seen_again == seen != other
    assert second.image() == seen
    assert second.agent_dir != first.agent_dir


def test_what_a_move_changes_is_seen_and_nothing_else_of_the_grid_is_read_again():
    level, _ = build(13, 3)
    for move in (2, 5, 1, 2, 3, 0, 2, 4, 5, 2):
        image = level.step(move)[0]["image"]
        level.forget_sight()
        assert level.image() == image
