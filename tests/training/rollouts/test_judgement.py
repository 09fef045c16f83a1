from __future__ import annotations

import random

import pytest

from orchestrator.training_folder import Metric
from training.errors import TrainingError
from training.rollouts.judgement import (
    JudgedRow,
    compare_rows,
    differences_as_markdown,
    estimate_row,
    rows_as_markdown,
)

TASKS = 200


def row(name: str, rate: float, *, seeds: int = 3, spread: float = 0.0) -> JudgedRow:
    """Agents that win the tasks whose number is below their rate, each seed a little other."""
    metrics = {}
    for seed in range(seeds):
        order = random.Random(0).sample(range(TASKS), TASKS)
        limit = (rate + spread * (seed - (seeds - 1) / 2)) * TASKS
        values = tuple((f"maze_{item}", float(order[item] < limit)) for item in range(TASKS))
        metrics[seed] = {"maze": Metric("maze", False, tuple(sorted(values)))}
    return JudgedRow(name, "", metrics)


def test_a_figure_is_the_mean_over_tasks_and_seeds():
    estimate = estimate_row(row("agent", 0.6), ["maze"])
    assert estimate["maze"].value == pytest.approx(0.6)
    assert estimate["maze"] == estimate["mean"]
    low, high = estimate["maze"].interval
    assert (low, high) == pytest.approx((0.53, 0.67), abs=0.015)


def test_seeds_that_differ_widen_the_interval():
    alike, apart = (estimate_row(row("agent", 0.6, spread=it), ["maze"])["mean"] for it in (0, 0.2))
    width = [it.interval.high - it.interval.low for it in (alike, apart)]
    assert width[1] > 1.5 * width[0]


def test_a_difference_is_paired_by_task_and_seed():
    base, evolved = row("BC_base", 0.6, spread=0.1), row("AgentEvol", 0.7, spread=0.1)
    difference = compare_rows(base, evolved, ["maze"])
    assert difference.mean.value == pytest.approx(0.1)
    low, high = difference.mean.interval
    own = estimate_row(evolved, ["maze"])["mean"].interval
    assert 0.05 < low < high < 0.15
    assert high - low < own.high - own.low
    assert difference.tasks == {"maze": TASKS}


def test_only_tasks_that_all_finished_are_compared():
    first, second = row("a", 0.5), row("b", 0.5)
    short = Metric("maze", False, second.metrics[1]["maze"].values[:50])
    second = JudgedRow("b", "", {**second.metrics, 1: {"maze": short}})
    assert compare_rows(first, second, ["maze"]).tasks == {"maze": 50}
    none = JudgedRow("c", "", {0: {"maze": Metric("maze", False, ())}})
    with pytest.raises(TrainingError, match="no task of maze was finished by all"):
        estimate_row(none, ["maze"])


def test_agents_of_other_seeds_are_not_compared():
    with pytest.raises(TrainingError, match="different seeds"):
        compare_rows(row("a", 0.5, seeds=2), row("b", 0.5, seeds=3), ["maze"])


def test_tables_have_intervals():
    base, evolved = row("BC_base", 0.6), row("AgentEvol", 0.7)
    table = rows_as_markdown([(base, estimate_row(base, ["maze"]))], ["maze"])
    assert "| BC_base | 60.0 [" in table
    table = differences_as_markdown([compare_rows(base, evolved, ["maze"])], ["maze"])
    assert "| AgentEvol - BC_base | +10.0 [" in table
