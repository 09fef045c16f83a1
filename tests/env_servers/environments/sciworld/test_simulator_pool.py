"""One Java process for all episodes: isolation, eviction, death, recycling."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest

from env_servers.environments.sciworld.jvm import JvmDied
from env_servers.environments.sciworld.simulator import Assignment, Instance
from env_servers.environments.sciworld.simulator_pool import (
    Simulation,
    SimulatorCrashed,
    SimulatorPool,
    default_heap,
)
from env_servers.environments.sciworld.tasks import SciWorldTasks

BEES = Assignment("find-animal", 3)
"""Outside are bees: what they do is drawn."""
ACTIONS = (
    "look around",
    "open door to outside",
    "go to outside",
    "look around",
    "open door",
    "1",
    "wait",
    "look around",
    "focus on agent",
)


def transcript(simulation: Simulation) -> list[str]:
    return [repr(simulation.step(action)) for action in ACTIONS]


@pytest.fixture(scope="module")
def shared_pool(tasks: SciWorldTasks) -> SimulatorPool:
    """A pool that no test may break: starting Java takes seconds."""
    return tasks.pool


@pytest.fixture(scope="module")
def alone(shared_pool: SimulatorPool) -> list[str]:
    return transcript(shared_pool.open(BEES))


def kill(pool: SimulatorPool) -> None:
    assert pool.pid is not None
    os.kill(pool.pid, signal.SIGKILL)


def test_a_pool_starts_at_its_first_use(java: Path) -> None:
    pool = SimulatorPool(java, 128)
    simulation = pool.open(BEES)
    assert (pool.starts, pool.pid, pool.instances, simulation.journal) == (0, None, 0, [])
    pool.close()


def test_interleaved_simulations_are_as_if_alone(
    shared_pool: SimulatorPool, alone: list[str]
) -> None:
    tasks = [BEES, Assignment("grow-plant", 2), BEES, Assignment("boil", 1, "easy"), BEES]
    simulations = [shared_pool.open(task) for task in tasks]
    told = [[repr(simulation.step(action)) for simulation in simulations] for action in ACTIONS]
    for index in (0, 2, 4):
        assert [row[index] for row in told] == alone


def test_asking_changes_nothing(shared_pool: SimulatorPool, alone: list[str]) -> None:
    simulation, told = shared_pool.open(BEES), []
    for action in ACTIONS:
        assert simulation.valid_actions()
        assert simulation.look() == simulation.look()
        assert simulation.description()
        told.append(repr(simulation.step(action)))
    assert told == alone


def test_a_copy_goes_its_own_way(shared_pool: SimulatorPool, alone: list[str]) -> None:
    simulation = shared_pool.open(BEES)
    told = [repr(simulation.step(action)) for action in ACTIONS[:4]]
    copy, disturbed = simulation.copy(), simulation.copy()
    disturbed.step("wait")
    rest = [repr(simulation.step(action)) for action in ACTIONS[4:]]
    assert told + rest == alone
    assert [repr(copy.step(action)) for action in ACTIONS[4:]] == rest


def test_a_call_that_kills_every_process_is_an_error_and_the_others_go_on(
    pool: SimulatorPool,
) -> None:
    victim, bystander = pool.open(BEES), pool.open(BEES)
    before, starts = bystander.look(), pool.starts

    def murder(instance: Instance) -> str:
        kill(pool)
        return instance.look()

    with pytest.raises(SimulatorCrashed):
        pool.use(victim, murder)
    assert bystander.look() == before
    assert pool.starts == starts + 2


def test_plays_survive_the_death_of_their_process(pool: SimulatorPool, alone: list[str]) -> None:
    simulation, other = pool.open(BEES), pool.open(BEES)
    first = [repr(simulation.step(action)) for action in ACTIONS[:5]]
    other.step(ACTIONS[0])
    starts = pool.starts
    kill(pool)
    assert first + [repr(simulation.step(action)) for action in ACTIONS[5:]] == alone
    assert alone[1:] == [repr(other.step(action)) for action in ACTIONS[1:]]
    assert pool.starts == starts + 1


def test_a_full_heap_replaces_the_process_unnoticed(pool: SimulatorPool, alone: list[str]) -> None:
    simulation = pool.open(BEES)
    told = [repr(simulation.step(action)) for action in ACTIONS[:6]]
    running = pool._simulator
    assert running is not None
    used, most = running.jvm.heap(collect=True)
    assert 0 < used < most <= pool.heap_mib * 2**20
    running.jvm.heap = lambda *, collect=False: (90, 100)  # type: ignore[method-assign]
    pool._replace_if_full()
    assert (pool.pid, pool.instances) == (None, 0)
    assert told + [repr(simulation.step(action)) for action in ACTIONS[6:]] == alone
    assert pool.pid is not None


def test_the_least_recently_used_instance_goes_first(
    shared_pool: SimulatorPool, alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pool, "capacity", 2)
    simulations = [shared_pool.open(BEES) for _ in range(3)]
    told = [[repr(simulation.step(action)) for simulation in simulations] for action in ACTIONS]
    assert shared_pool.instances == 2
    assert simulations[0].instance is None
    assert all([row[index] for row in told] == alone for index in range(3))


def test_closed_and_dropped_simulations_give_their_instance_back(
    shared_pool: SimulatorPool,
) -> None:
    gc.collect()
    before = shared_pool.instances
    closed, dropped = shared_pool.open(BEES), shared_pool.open(BEES)
    closed.look()
    dropped.look()
    assert shared_pool.instances == before + 2
    closed.close()
    del dropped
    gc.collect()
    assert shared_pool.instances == before


def test_a_demand_beyond_the_heap_halves_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfMemory:
        """A process that ends as Java does when its heap is exhausted."""

        def __init__(self, java: Path, heap_mib: int) -> None:
            self.java, self.heap_mib = java, heap_mib

        def load(self, assignment: Assignment) -> Instance:
            raise JvmDied(3)

        def close(self) -> None:
            pass

    monkeypatch.setattr("env_servers.environments.sciworld.simulator_pool.Simulator", OutOfMemory)
    pool = SimulatorPool(Path("java"), 1324)
    assert pool.capacity == 512
    with pytest.raises(SimulatorCrashed):
        pool.open(BEES).look()
    assert pool.capacity == 128


def test_the_default_heap_leaves_memory_to_others() -> None:
    assert 384 <= default_heap(1024) <= default_heap(1) <= 4096
