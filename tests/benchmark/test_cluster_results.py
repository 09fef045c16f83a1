"""What runs on clusters have to come to, held to the results that are committed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.data import REPOSITORY

RESULTS = REPOSITORY / "benchmark" / "results"


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def test_ray_costs_no_more_than_a_seventh_of_the_throughput() -> None:
    assert read("ray_cluster")["figures"]["throughput"]["ratio_of_rates"] >= 0.85


def test_an_episode_costs_the_driver_little_with_one_worker_and_with_sixteen() -> None:
    driver = read("ray_cluster")["figures"]["driver"]
    assert set(driver) == {"1", "4", "16"}
    assert all(row["cpu_ms_per_episode"] <= 0.3 for row in driver.values())
    # More workers do not make a second dearer: each has the fewer messages.
    assert driver["16"]["cpu_ms_per_second"] <= driver["1"]["cpu_ms_per_second"]


@pytest.mark.parametrize("ray", ["with Ray", "without Ray"])
def test_at_a_given_rate_an_episode_stays_below_the_bound_whatever_the_workers(ray: str) -> None:
    rows = read("scale/driver")[ray]["workers"]
    assert {1, 4, 16} <= {row["workers"] for row in rows}
    assert all(row["episodes_per_second"] > 1900 for row in rows)
    assert all(row["cpu_us_per_episode"] <= 300 for row in rows)


def test_a_node_that_joins_plays_within_ten_seconds() -> None:
    assert read("ray_cluster")["figures"]["join_seconds"] <= 10


def test_whatever_was_killed_nothing_was_lost_doubled_or_changed() -> None:
    result = read("cluster_chaos")
    assert (result["config"]["nodes"], result["config"]["concurrency"]) == (4, 2000)
    assert set(result["killed"]) == {"worker", "server", "node", "driver"}
    verdict = result["verdict"]
    assert verdict["passed"] and verdict["identical"] == verdict["episodes"] == 6000
    assert (verdict["lost"], verdict["double_steps"], verdict["problems"]) == (0, 0, [])
