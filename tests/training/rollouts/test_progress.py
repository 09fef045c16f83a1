from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator.training_folder import Metric, validation_stage
from tests.orchestrator.records import build_episode
from training.rollouts.progress import Checkpoints, ProgressConfig, Validation, write_table
from training.runs.run_dir import RunDir


def test_steps_are_due_by_their_number():
    config = ProgressConfig(validate_every=10, checkpoint_every=4)
    assert [step for step in range(1, 21) if config.validates(step)] == [10, 20]
    assert [step for step in range(1, 21) if config.keeps(step)] == [4, 8, 10, 12, 16, 20]
    assert not ProgressConfig().keeps(10) and not ProgressConfig().tabulates(10)


@pytest.mark.parametrize(
    "changes", [{"keep_checkpoints": 0}, {"table_every": -1}, {"choose": "validation"}]
)
def test_what_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match=r"at least|needs validate_every"):
        ProgressConfig(**changes)


def validated(run_dir: RunDir, step: int, *values: float) -> None:
    metrics = {
        name: Metric(name, False, ((f"{name}_1", value),)).to_plain()
        for name, value in zip(("maze", "wordle"), values, strict=True)
    }
    run_dir.stage(validation_stage(step), lambda: metrics)


def test_the_best_is_the_earliest_of_the_highest_means(tmp_path):
    run_dir = RunDir.open(tmp_path / "run", {}, algorithm="grpo")
    validated(run_dir, 10, 0.5, 0.5)
    validated(run_dir, 20, 1.0, 0.25)
    validated(run_dir, 30, 0.25, 1.0)
    validation = Validation(RunDir.read(tmp_path / "run"), {})
    assert validation.best([10, 20, 30]) == 20
    assert validation.best([10]) == 10
    assert validation.best([40]) is None


def test_the_newest_checkpoints_stay_and_the_best(tmp_path):
    checkpoints = Checkpoints(tmp_path, ProgressConfig(checkpoint_every=10, keep_checkpoints=2))
    checkpoints.prune(10, None)  # nothing was written
    for step in (10, 20, 30, 40, 50):
        checkpoints.path(step).mkdir()
    (tmp_path / "mine").mkdir()
    # The process that wrote 50 was cut off, and another one goes on from an earlier state.
    checkpoints.prune(40, 10)
    there = sorted(it.name for it in tmp_path.iterdir())
    assert there == ["mine", "step-000010", "step-000030", "step-000040"]


def test_a_table_has_all_episodes_of_its_tasks(tmp_path: Path):
    episodes = [build_episode(f"maze_{n // 2}", sample=n % 2) for n in range(6)]
    rewards = [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    advantages = [np.array([0.5 * n, 0.0], np.float32) for n in range(6)]
    path = tmp_path / "tables" / "step-000010.jsonl"
    write_table(path, episodes, rewards, advantages, tasks=2)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["item_id"], row["sample"], row["reward"]) for row in rows] == [
        ("maze_0", 0, 0.0),
        ("maze_0", 1, 1.0),
        ("maze_1", 0, 1.0),
        ("maze_1", 1, 1.0),
    ]
    assert rows[1]["advantages"] == [0.5, 0.0]
    assert rows[0]["messages"][0] == {"role": "user", "text": "Find the goal.", "sampled": False}
    assert (rows[0]["turns"], rows[0]["episode_id"]) == (2, episodes[0].episode_id)
