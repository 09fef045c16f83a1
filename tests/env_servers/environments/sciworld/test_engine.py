"""One Java process for all episodes: isolation, eviction, death, recycling."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest

from env_servers.environments.sciworld.engine import Engine, EngineCrashed, Play, default_heap
from env_servers.environments.sciworld.jvm import JvmDied
from env_servers.environments.sciworld.simulator import Assignment, Instance
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


def transcript(play: Play) -> list[str]:
    return [repr(play.step(action)) for action in ACTIONS]


@pytest.fixture(scope="module")
def shared(tasks: SciWorldTasks) -> Engine:
    """An engine that no test may break: starting Java takes seconds."""
    return tasks.engine


@pytest.fixture(scope="module")
def alone(shared: Engine) -> list[str]:
    return transcript(shared.open(BEES))


def kill(engine: Engine) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)


def test_an_engine_starts_at_its_first_use(java: Path) -> None:
    engine = Engine(java, 128)
    play = engine.open(BEES)
    assert (engine.starts, engine.pid, engine.held, play.journal) == (0, None, 0, [])
    engine.close()


def test_interleaved_plays_are_as_if_alone(shared: Engine, alone: list[str]) -> None:
    tasks = [BEES, Assignment("grow-plant", 2), BEES, Assignment("boil", 1, "easy"), BEES]
    plays = [shared.open(task) for task in tasks]
    told = [[repr(play.step(action)) for play in plays] for action in ACTIONS]
    for index in (0, 2, 4):
        assert [row[index] for row in told] == alone


def test_asking_changes_nothing(shared: Engine, alone: list[str]) -> None:
    play, told = shared.open(BEES), []
    for action in ACTIONS:
        assert play.valid_actions()
        assert play.look() == play.look()
        assert play.description()
        told.append(repr(play.step(action)))
    assert told == alone


def test_a_copy_goes_its_own_way(shared: Engine, alone: list[str]) -> None:
    play = shared.open(BEES)
    told = [repr(play.step(action)) for action in ACTIONS[:4]]
    copy, disturbed = play.copy(), play.copy()
    disturbed.step("wait")
    rest = [repr(play.step(action)) for action in ACTIONS[4:]]
    assert told + rest == alone
    assert [repr(copy.step(action)) for action in ACTIONS[4:]] == rest


def test_a_call_that_kills_every_process_is_an_error_and_the_others_go_on(engine: Engine) -> None:
    victim, bystander = engine.open(BEES), engine.open(BEES)
    before, starts = bystander.look(), engine.starts

    def murder(instance: Instance) -> str:
        kill(engine)
        return instance.look()

    with pytest.raises(EngineCrashed):
        engine.use(victim, murder)
    assert bystander.look() == before
    assert engine.starts == starts + 2


def test_plays_survive_the_death_of_their_process(engine: Engine, alone: list[str]) -> None:
    play, other = engine.open(BEES), engine.open(BEES)
    first = [repr(play.step(action)) for action in ACTIONS[:5]]
    other.step(ACTIONS[0])
    starts = engine.starts
    kill(engine)
    assert first + [repr(play.step(action)) for action in ACTIONS[5:]] == alone
    assert alone[1:] == [repr(other.step(action)) for action in ACTIONS[1:]]
    assert engine.starts == starts + 1


def test_a_full_heap_replaces_the_process_unnoticed(engine: Engine, alone: list[str]) -> None:
    play = engine.open(BEES)
    told = [repr(play.step(action)) for action in ACTIONS[:6]]
    running = engine._simulator
    assert running is not None
    used, most = running.jvm.heap(collect=True)
    assert 0 < used < most <= engine.heap_mib * 2**20
    running.jvm.heap = lambda *, collect=False: (90, 100)  # type: ignore[method-assign]
    engine._relieve()
    assert (engine.pid, engine.held) == (None, 0)
    assert told + [repr(play.step(action)) for action in ACTIONS[6:]] == alone
    assert engine.pid is not None


def test_the_least_recently_used_instance_goes_first(
    shared: Engine, alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "capacity", 2)
    plays = [shared.open(BEES) for _ in range(3)]
    told = [[repr(play.step(action)) for play in plays] for action in ACTIONS]
    assert shared.held == 2
    assert plays[0].instance is None
    assert all([row[index] for row in told] == alone for index in range(3))


def test_closed_and_dropped_plays_give_their_instance_back(shared: Engine) -> None:
    gc.collect()
    before = shared.held
    closed, dropped = shared.open(BEES), shared.open(BEES)
    closed.look()
    dropped.look()
    assert shared.held == before + 2
    closed.close()
    del dropped
    gc.collect()
    assert shared.held == before


def test_a_demand_beyond_the_heap_halves_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfMemory:
        """A process that ends as Java does when its heap is exhausted."""

        def __init__(self, java: Path, heap_mib: int) -> None:
            self.java, self.heap_mib = java, heap_mib

        def load(self, assignment: Assignment) -> Instance:
            raise JvmDied(3)

        def close(self) -> None:
            pass

    monkeypatch.setattr("env_servers.environments.sciworld.engine.Simulator", OutOfMemory)
    engine = Engine(Path("java"), 1324)
    assert engine.capacity == 512
    with pytest.raises(EngineCrashed):
        engine.open(BEES).look()
    assert engine.capacity == 128


def test_the_default_heap_leaves_memory_to_others() -> None:
    assert 384 <= default_heap(1024) <= default_heap(1) <= 4096
