"""Which tasks there are, that listing them needs no Java, and that they are the simulator's."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from env_servers.environments.sciworld import SciWorld
from env_servers.environments.sciworld.facts import BY_NAME, ROOMS, TASKS
from env_servers.environments.sciworld.simulator import Assignment
from env_servers.environments.sciworld.simulator_pool import SimulatorPool
from env_servers.environments.sciworld.tasks import SciWorldTasks, load_tasks, official_order
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    UnknownItem,
)

EVERYTHING = 10**6


def assignments(tasks: SciWorldTasks, split: str) -> list[Assignment]:
    return [tasks.get(item).payload for item in tasks.item_ids(split, 0, EVERYTHING)]


def test_listing_tasks_starts_no_java() -> None:
    tasks = SciWorld.load_tasks(EnvironmentConfig())
    for split, size in tasks.splits().items():
        assert len(tasks.item_ids(split, 0, EVERYTHING)) == size
    assert tasks.digest()
    assert tasks.pool.starts == 0
    assert tasks.pool.pid is None


def test_embedded_splits_are_all_variations_and_disjoint() -> None:
    tasks = load_tasks(EnvironmentConfig())
    parts = [assignments(tasks, split) for split in ("train", "dev", "eval")]
    assert [len(part) for part in parts] == [3592, 1796, 1819]
    everything = {pair for part in parts for pair in part}
    assert len(everything) == 7207
    assert {name for name, _, _ in everything} == set(BY_NAME)


def test_any_stretch_of_a_split_is_a_mixture_of_tasks() -> None:
    drawn = Counter(found.task for found in assignments(load_tasks(EnvironmentConfig()), "eval"))
    first = Counter(
        found.task for found in assignments(load_tasks(EnvironmentConfig()), "eval")[:300]
    )
    for name, total in drawn.items():
        assert abs(first[name] - 300 * total / 1819) <= 1.5


@pytest.mark.parametrize(
    ("ids", "item", "task", "variation"),
    [
        ("4339", 0, "boil", 0),
        ("4339", 119, "change-the-state-of-matter-of", 29),
        ("4339", 1095, "measure-melting-point-known-substance", 435),
        ("4339", 1096, "power-component", 0),
        ("4339", 4338, "identify-life-stages-2", 9),
        ("4639", 1095, "measure-melting-point-known-substance", 435),
        ("4639", 1096, "measure-melting-point-unknown-substance", 0),
        ("4639", 1396, "power-component", 0),
        ("4639", 2936, "find-living-thing", 0),
        ("4639", 4240, "lifespan-longest-lived", 0),
        ("4639", 4638, "identify-life-stages-2", 9),
    ],
)
def test_official_ids_follow_either_map(ids: str, item: int, task: str, variation: int) -> None:
    tasks = load_tasks(EnvironmentConfig(settings={"sciworld.ids": ids}))
    assert tasks.splits()["official"] == len(official_order(ids)) == int(ids)
    assert tasks.get(f"sciworld_{item}").payload == Assignment(task, variation)
    with pytest.raises(UnknownItem):
        tasks.get(f"sciworld_{ids}")


def test_agentevals_list_divides_the_official_ids(tmp_path: Path) -> None:
    rows = [{"item_id": "sciworld_4283"}, {"item_id": "sciworld_624"}]
    (tmp_path / "agenteval").mkdir()
    (tmp_path / "agenteval" / "sciworld_test.json").write_text(json.dumps(rows))
    tasks = load_tasks(EnvironmentConfig(tmp_path))
    assert tasks.item_ids("official_eval", 0, 9) == ["sciworld_4283", "sciworld_624"]
    assert tasks.splits()["official_train"] == 4337
    assert "official" not in tasks.splits()


def test_the_official_list_has_200_items_none_of_them_recorded(data_dir: Path) -> None:
    tasks = load_tasks(EnvironmentConfig(data_dir))
    assert tasks.splits()["official_eval"] == 200


def test_a_broken_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "sciworld_test.json").write_text('[{"item')
    with pytest.raises(EnvironmentUnavailable, match="no list of AgentEval items"):
        load_tasks(EnvironmentConfig(tmp_path))


@pytest.mark.parametrize(
    "settings",
    [
        {"sciworld.ids": "5000"},
        {"sciworld.heap_mib": "lots"},
        {"sciworld.heap_mib": "1"},
        {"sciworld.heep_mib": "512"},
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidOption):
        load_tasks(EnvironmentConfig(settings=settings))


def test_settings_of_other_environments_are_none_of_ours() -> None:
    tasks = load_tasks(EnvironmentConfig(settings={"textcraft.ids": "5000"}))
    assert tasks.splits() == load_tasks(EnvironmentConfig()).splits()


def test_doors_lead_both_ways() -> None:
    for room, neighbours in ROOMS.items():
        assert all(room in ROOMS[neighbour] for neighbour in neighbours)


@pytest.mark.slow
def test_the_facts_are_the_simulators(pool: SimulatorPool) -> None:
    pool.open(Assignment("boil", 0)).look()
    simulator = pool._simulator
    assert simulator is not None
    sets = simulator.variations()
    assert sets == {task.name: (task.train, task.dev, task.test) for task in TASKS}
    assert sum(sum(map(len, parts)) for parts in sets.values()) == 7207
