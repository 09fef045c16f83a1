"""`benchmark.fidelity` says what a replay shows, and no more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agent_runtime.episode import Transition
from benchmark.fidelity.__main__ import Score
from benchmark.fidelity.recordings import Recording
from tests.kit.data import require_data


def transition(seq: int, *, reward: float | None = None, ended: bool = False) -> Transition:
    return Transition(seq, f"text {seq}", reward, None, ended, False, 0, b"", None, None)


def recording(reward: float | None, *, plays_on: bool = False) -> Recording:
    observations = ("text 0", "text 1")
    return Recording("sciworld_1", ("a", "b"), observations, reward=reward, plays_on=plays_on)


@pytest.mark.parametrize(
    ("recorded", "ours", "steps", "plays_on", "ended_as_recorded"),
    [
        (100.0, 100.0, 2, False, 1),
        (100.0, 29.0, 2, False, 0),
        (0.0, 0.0, 2, False, 1),
        (0.0, 1.0, 2, False, 0),
        (None, 0.9, 2, False, 1),
        (None, 0.0, 2, False, 0),
        (1.0, 1.0, 1, False, 0),
        (1.0, 1.0, 1, True, 1),
    ],
)
def test_an_episode_counts_where_it_ends_with_the_recorded_reward_at_the_recorded_reply(
    recorded: float | None, ours: float, steps: int, plays_on: bool, ended_as_recorded: int
) -> None:
    seen = [transition(number) for number in range(steps)]
    result = Score()
    result.add(
        recording(recorded, plays_on=plays_on), [*seen, transition(steps, reward=ours, ended=True)]
    )
    assert result.ended_as_recorded == ended_as_recorded


def test_an_episode_that_goes_on_has_not_ended_as_recorded() -> None:
    result = Score()
    result.add(recording(1.0), [transition(0), transition(1), transition(2, reward=1.0)])
    assert (result.identical, result.ended_as_recorded) == (1, 0)


def test_no_conversation_is_its_own_answer() -> None:
    """Films are looked up: what an own conversation is worth is told apart."""
    data = require_data("agenttraj_l/movie.jsonl.gz", "tools/movie.jsonl")
    command = [sys.executable, "-m", "benchmark.fidelity", "--env", "movie", "--data", str(data)]
    done = subprocess.run(
        [*command, "--no-save"],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    row = next(line for line in done.stdout.splitlines() if "movie" in line)
    cells = [cell.strip() for cell in row.replace("\u2502", "|").strip("| ").split("|")]
    assert cells == ["movie", "108", "108 / 108", "118 / 321 (36.76 %)", "108 / 108"]
    assert "other_tasks: 118, none: 3, all: 321" in done.stdout
