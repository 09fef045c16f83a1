"""Many instances of the simulator in one Java process, each as if it were alone.

Contains loading, stepping and asking. Only the part of a loaded instance that plays is kept (about
0.5 MB instead of 11): the tables of all tasks that came with it are given back. Single-threaded:
the caller holds a lock.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from env_servers.environments.sciworld.facts import TASKS
from env_servers.environments.sciworld.globals import Globals, Own
from env_servers.environments.sciworld.jvm import JavaRaised, Jvm

__all__ = ["Assignment", "Instance", "Outcome", "Simulator", "Survey"]

UNREADABLE: Final = "No known action matches that input."
"""The simulator's own answer to what it cannot parse; also given where its parser raises."""
NOTHING_TOLD: Final = (
    "Unknown action.  Type 'help' for a list of actions, and 'objects' for a list of possible "
    "object referents. "
)
"""The original interface's answer where the simulator tells nothing."""
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_JAVA_BLANK: Final = "".join(map(chr, range(33)))
"""What Java's `trim` removes."""


class Assignment(NamedTuple):
    """What a loaded instance is."""

    task: str
    variation: int
    simplifications: str = ""
    """Comma-separated; empty = none, as in AgentGym."""


class Outcome(NamedTuple):
    """What a step led to."""

    text: str
    score: float
    """-1 after a failure, else 0..1."""
    completed: bool
    """The simulator's verdict: solved or failed."""
    moves: int
    """Simulated time so far."""


class Survey(NamedTuple):
    """What can be told of a state without a move."""

    description: str
    """The task in words."""
    room: str
    inventory: str
    progress: str
    """Of the task's goals; a line each, with tabs."""
    actions: list[str]
    """What can be done, in general: `open OBJ`."""
    objects: list[str]
    """What it can be done with, here."""
    last: Outcome
    """Of the last move."""


class Instance:
    """One loaded task in a Java process."""

    __slots__ = ("_interface", "_last", "_own", "_simulator", "_step")

    def __init__(self, simulator: Simulator, interface: Any, own: Own) -> None:
        self._simulator = simulator
        self._interface = interface
        self._own = own
        self._step = simulator.globals.step_function(interface, own)
        self._last = Outcome("", 0.0, False, 0)

    def step(self, action: str) -> Outcome:
        """Apply any text; raises JvmDied."""
        action = _SURROGATES.sub("\ufffd", action)
        try:
            answer = self._answer(action.strip(_JAVA_BLANK).lower())
            if answer is None:
                self._last = _outcome(self._simulator.jvm.call(lambda: self._step.apply(action)))
            else:
                self._last = self._last._replace(text=answer)
        except JavaRaised:
            self._last = self._last._replace(text=UNREADABLE)
        return self._last

    def description(self) -> str:
        """Return the task in words; raises JvmDied."""
        return self._ask(lambda: self._interface.getTaskDescription())

    def look(self) -> str:
        """Return the room as `look around` would tell it, without that anything happens."""
        return self._ask(lambda: self._interface.freeActionLook())

    def survey(self) -> Survey:
        """Return what a person may want to see of the state; raises JvmDied."""
        interface = self._interface
        room, inventory, progress = self._ask(
            lambda: (
                str(interface.freeActionLook()),
                str(interface.freeActionInventory()),
                str(interface.getGoalProgressStr()),
            )
        )
        actions = self._listed(self._actions)
        objects = self._listed(interface.getPossibleObjects)
        return Survey(self.description(), room, inventory, progress, actions, objects, self._last)

    def valid_actions(self) -> list[str]:
        """Return every action that can be done now, sorted; raises JvmDied."""
        return sorted(self._listed(self._interface.getValidActionObjectCombinations))

    def _answer(self, command: str) -> str | None:
        """Three commands are answered by the original's interface, before any parsing."""
        if command == "help":
            return "\n\t".join(["Possible actions: ", *self._listed(self._actions)])
        if command == "objects":
            objects = self._listed(self._interface.getPossibleObjects)
            return "\n\t".join(["Possible object references: ", *objects])
        if command == "task":
            return "Task description:\n" + self.description()
        return None

    def _actions(self) -> Any:
        return self._interface.getPossibleActions()

    def _listed(self, method: Any) -> list[str]:
        return self._ask(lambda: self._simulator.globals.listed(method()))

    def _ask(self, question: Any) -> Any:
        def asked() -> Any:
            self._simulator.globals.install(self._own, scratch=True)
            return question()

        return self._simulator.jvm.call(asked)


class Simulator:
    """A Java process with the simulator loaded."""

    def __init__(self, java: Path, heap_mib: int) -> None:
        """Starts it. Raises EnvironmentUnavailable."""
        self.jvm = Jvm(java, heap_mib)
        self.globals: Globals = self.jvm.call(lambda: Globals(self.jvm))
        self._loader: Any = self.jvm.call(
            lambda: self.jvm.classes.scienceworld.runtime.pythonapi.PythonInterface()
        )

    def load(self, assignment: Assignment) -> Instance:
        """Return a new instance of a task; raises JvmDied."""

        def loaded() -> Instance:
            own = self._load(assignment, gold=False)
            interface = self._loader.agentInterface().get()
            self.jvm.classes.agentgym.sciworld.SparingParser.install(interface)
            return Instance(self, interface, own)

        return self.jvm.call(loaded)

    def gold_path(self, assignment: Assignment) -> tuple[str, ...]:
        """Return the simulator's own solution; takes 0.1 to 8 seconds. Raises JvmDied."""

        def path() -> tuple[str, ...]:
            self._load(assignment, gold=True)
            joined: str = self.jvm.classes.java.lang.String.join(
                "\n", self._loader.getGoldActionSequence()
            )
            return tuple(joined.split("\n")) if joined else ()

        return self.jvm.call(path)

    def variations(self) -> dict[str, tuple[range, range, range]]:
        """(train, dev, test) variations of every task, asked of the simulator itself."""

        def sets(name: str) -> tuple[range, range, range]:
            self._load(Assignment(name, 0), gold=False)
            loader = self._loader
            return (
                _as_range(list(loader.getVariationsTrain())),
                _as_range(list(loader.getVariationsDev())),
                _as_range(list(loader.getVariationsTest())),
            )

        return self.jvm.call(lambda: {task.name: sets(task.name) for task in TASKS})

    def close(self) -> None:
        """End the Java process."""
        self.jvm.close()

    def _load(self, assignment: Assignment, *, gold: bool) -> Own:
        own = self.globals.fresh()
        self.globals.install(own)
        self._loader.load(assignment.task, assignment.variation, assignment.simplifications, gold)
        self.globals.save(own)
        return own


def _outcome(raw: str) -> Outcome:
    """Reads `moves(text,score,completed)`; the text may hold anything."""
    moves, _, rest = raw.partition("(")
    text, score, completed = rest[:-1].rsplit(",", 2)
    return Outcome(text or NOTHING_TOLD, float(score), completed == "true", int(moves))


def _as_range(numbers: list[int]) -> range:
    whole_range = range(numbers[0], numbers[-1] + 1)
    if list(whole_range) != numbers:
        raise ValueError("the simulator's variations are not consecutive")
    return whole_range
