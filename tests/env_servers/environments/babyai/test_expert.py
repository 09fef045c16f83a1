from __future__ import annotations

import random
from collections import Counter

import pytest

from env_servers.environments.babyai.levels import LEVELS
from tests.env_servers.environments.babyai.play import begin, solve, start

UNSOLVABLE = "KeyInBox"
"""No text action of the original opens a box."""


@pytest.mark.parametrize("number", range(1, 41))
def test_the_expert_reaches_the_goal_of_every_level_that_can_be_won(number):
    episode, _ = start(number, 3)
    last, actions = solve(episode, 60)
    won = LEVELS[number - 1] != UNSOLVABLE
    assert last.terminated == won, actions


@pytest.mark.parametrize("number", [12, 16, 18, 23, 26, 28, 38])
def test_the_expert_wins_without_the_originals_bugs_too(number):
    episode, _ = start(number, 5, "fixed")
    assert solve(episode, 30)[0].terminated


@pytest.mark.parametrize(
    ("level", "seed"),
    [
        (27, 25),  # a ball behind the locked door
        (27, 3),  # a key before the door, which must not be dropped in the way
        (28, 1),  # a ball before the locked door
        (29, 0),  # a key behind another key's door
        (34, 1),  # the spot to fill is in a dead end
        (35, 25_001),  # walled in by things, room for nothing
        (38, 25_003),  # what has to be reached must be moved first
    ],
)
def test_the_expert_clears_unlocks_and_carries(level, seed):
    episode, _ = start(level, seed)
    assert (solve(episode, 60)[0].score or 0.0) > 0.0


def test_advice_does_not_depend_on_how_often_it_was_asked():
    asked, _ = start(39, 2)
    silent, _ = start(39, 2)
    for _ in range(12):
        advice = asked.advise_expert(1)
        assert asked.advise_expert(1) == advice
        assert asked.advise_expert(2).action == advice.action
        assert asked.step(advice.action) == silent.step(advice.action)
    assert asked.fingerprint() == silent.fingerprint()
    assert asked.advise_expert(0) == silent.advise_expert(0)


def test_a_fork_gets_the_same_advice():
    episode, _ = start(37, 4)
    for _ in range(6):
        fork = episode.fork()
        assert fork.advise_expert(0) == episode.advise_expert(0)
        episode.step(episode.advise_expert(0).action)


def test_the_expert_says_why_in_several_ways():
    episode, _ = start(28, 0)
    thoughts = {episode.advise_expert(seed).thought for seed in range(20)}
    assert len(thoughts) >= 3
    assert all(thoughts)


def test_the_expert_copes_with_whatever_was_done_before():
    rng = random.Random(5)
    for number in range(1, 41):
        episode, seen = start(number, 11)
        for _ in range(15):
            if seen.terminated:
                break
            advice = episode.advise_random(rng)
            assert advice.action in episode.episode.scene.offers
            seen = episode.step(advice.action)
            assert episode.advise_expert(0).action in episode.episode.scene.offers


def test_doing_nothing_earns_nothing():
    episode, _ = begin("babyai_0")
    for _ in range(20):
        seen = episode.step(episode.advise_noop().action)
    assert seen.score == 0.0
    assert not seen.terminated


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "share"), [("agentgym", 0.95), ("fixed", 0.97)])
def test_the_expert_wins_95_percent_over_all_levels(profile, share):
    won, played = Counter[str](), 0
    for number in range(1, 41):
        for seed in range(25_000, 25_010):
            episode, _ = start(number, seed, profile)
            last, _ = solve(episode, 200)
            won[LEVELS[number - 1]] += (last.score or 0.0) > 0.0
            played += 1
    assert won.total() / played >= share, won
