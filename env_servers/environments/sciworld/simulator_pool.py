"""The Java process that all episodes of this process share, and how episodes outlive it.

The process is started by the first episode that needs it. What it holds in memory is bounded. A
process that died or had to be replaced is started anew by the next episode that needs it, and each
episode is rebuilt from its own journal when it is used again: a `Simulation` answers the same
whether or not that happened.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from env_servers.environments.sciworld.jvm import JvmDied
from env_servers.environments.sciworld.simulator import (
    Assignment,
    Instance,
    Outcome,
    Simulator,
    Survey,
)

__all__ = ["Simulation", "SimulatorCrashed", "SimulatorPool", "default_heap"]

T = TypeVar("T")

_MIB: Final = 1024 * 1024
_BASE_MIB: Final = 300
"""Heap that the simulator needs for itself, most of it while it loads."""
_INSTANCE_MIB: Final = 2
"""Heap that an instance is reckoned with; most need half of it."""
_FEWEST: Final = 8
"""Instances that are held at least."""
_CHECK_EVERY: Final = 128
"""Loads between two looks at the heap."""
_FULL: Final = 0.85
_STILL_FULL: Final = 0.7
"""Shares of the heap that make the pool collect, and then replace, its process."""
_GOLD_PATHS: Final = 4096
"""Gold paths that are remembered."""
_ATTEMPTS: Final = 2
"""Java processes that one call may end. Any episode may die with a process that another one broke,
so a call is tried again on a fresh process; the call that breaks that one too is to blame."""


class SimulatorCrashed(Exception):
    """When one call ended two Java processes."""


class Simulation:
    """An episode's state as its journal; an instance of the simulator makes it fast."""

    __slots__ = ("__weakref__", "_pool", "assignment", "instance", "journal")

    def __init__(self, pool: SimulatorPool, assignment: Assignment, journal: list[str]) -> None:
        self._pool = pool
        self.assignment = assignment
        self.journal = journal
        """Every action so far, as it was given to the simulator."""
        self.instance: Instance | None = None
        """The pool's: None, or in step with the journal on the process that it names."""

    def step(self, action: str) -> Outcome:
        """Apply any text; raises SimulatorCrashed."""
        outcome = self._pool.use(self, lambda instance: instance.step(action))
        self.journal.append(action)
        return outcome

    def description(self) -> str:
        """Return the task in words."""
        return self._pool.use(self, Instance.description)

    def look(self) -> str:
        """Return the room; asking changes nothing."""
        return self._pool.use(self, Instance.look)

    def survey(self) -> Survey:
        """Return what a person may want to see of the state."""
        return self._pool.use(self, Instance.survey)

    def valid_actions(self) -> list[str]:
        """Return every action that can be done now, sorted; asking changes nothing."""
        return self._pool.use(self, Instance.valid_actions)

    def copy(self) -> Simulation:
        """Return an independent simulation in the same state."""
        return Simulation(self._pool, self.assignment, list(self.journal))

    def close(self) -> None:
        """Give the instance back."""
        self._pool.release(self)


class SimulatorPool:
    """At most one Java process, and the simulations that have an instance on it."""

    def __init__(self, java: Path, heap_mib: int) -> None:
        """Starts nothing. `heap_mib` bounds the Java heap."""
        self._java = java
        self.heap_mib = heap_mib
        self.capacity = max(_FEWEST, (heap_mib - _BASE_MIB) // _INSTANCE_MIB)
        """Instances that are held; the least recently used one goes first."""
        self.starts = 0
        """Java processes started so far."""
        self._lock = threading.RLock()
        self._simulator: Simulator | None = None
        self._recent: OrderedDict[int, weakref.ref[Simulation]] = OrderedDict()
        self._gold_paths: OrderedDict[Assignment, tuple[str, ...]] = OrderedDict()
        self._loads = 0

    @property
    def pid(self) -> int | None:
        """The Java process, if one was started; it may have died since."""
        return None if self._simulator is None else self._simulator.jvm.pid

    @property
    def instances(self) -> int:
        """How many simulations have an instance now."""
        return len(self._recent)

    def open(self, assignment: Assignment) -> Simulation:
        """Return a new simulation; its instance is made at the first use."""
        return Simulation(self, assignment, [])

    def use(self, simulation: Simulation, work: Callable[[Instance], T]) -> T:
        """Do something with a simulation's instance, rebuilding it where it is gone."""
        return self._run(lambda simulator: work(self._instance(simulator, simulation)))

    def gold_path(self, assignment: Assignment) -> tuple[str, ...]:
        """Return the simulator's own solution from the start; remembered."""
        with self._lock:
            path = self._gold_paths.get(assignment)
            if path is None:
                path = self._run(lambda simulator: simulator.gold_path(assignment))
                self._gold_paths[assignment] = path
                if len(self._gold_paths) > _GOLD_PATHS:
                    self._gold_paths.popitem(last=False)
            return path

    def release(self, simulation: Simulation) -> None:
        """Forget a simulation's instance."""
        with self._lock:
            simulation.instance = None
            self._recent.pop(id(simulation), None)

    def recycle(self) -> None:
        """End the Java process; simulations go on, on the next one."""
        with self._lock:
            for reference in self._recent.values():
                if (simulation := reference()) is not None:
                    simulation.instance = None
            self._recent.clear()
            if self._simulator is not None:
                self._simulator.close()
                self._simulator = None

    close = recycle

    def _run(self, work: Callable[[Simulator], T]) -> T:
        with self._lock:
            for attempt in range(_ATTEMPTS):
                try:
                    return work(self._start())
                except JvmDied as death:
                    self.recycle()
                    # Dead for want of memory: what was held was too much, whatever was computed.
                    if death.out_of_memory:
                        self.capacity = max(_FEWEST, self.capacity // 2)
                    if attempt + 1 == _ATTEMPTS:
                        raise SimulatorCrashed(f"twice: {death}") from death
        raise AssertionError("unreachable")

    def _start(self) -> Simulator:
        if self._simulator is None:
            self._simulator = Simulator(self._java, self.heap_mib)
            self.starts += 1
        return self._simulator

    def _instance(self, simulator: Simulator, simulation: Simulation) -> Instance:
        if simulation.instance is not None:
            self._recent.move_to_end(id(simulation))
            return simulation.instance
        self._make_room()
        instance = self._start().load(simulation.assignment)
        for action in simulation.journal:
            instance.step(action)
        simulation.instance = instance
        key = id(simulation)
        # Weak, so that an episode dropped without close gives its room back when it is collected.
        self._recent[key] = weakref.ref(simulation, partial(self._forget_dropped, key))
        return instance

    def _forget_dropped(self, key: int, reference: weakref.ref[Simulation]) -> None:
        """A simulation was dropped without being closed."""
        if self._recent.get(key) is reference:
            del self._recent[key]

    def _make_room(self) -> None:
        self._loads += 1
        if self._loads % _CHECK_EVERY == 0:
            self._replace_if_full()
        while len(self._recent) >= self.capacity:
            _, reference = self._recent.popitem(last=False)
            if (simulation := reference()) is not None:
                simulation.instance = None

    def _replace_if_full(self) -> None:
        """Replace a process whose heap stays full: it leaks, or instances are larger than said."""
        jvm = self._start().jvm
        used, most = jvm.heap()
        if used < _FULL * most:
            return
        used, most = jvm.heap(collect=True)
        if used > _STILL_FULL * most:
            self.capacity = max(_FEWEST, min(self.capacity, len(self._recent) * 3 // 4))
            self.recycle()


def default_heap(workers: int | None = None) -> int:
    """MiB of Java heap for one of `workers` processes (None: one a core): half of the memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB
    share = memory // 2 // (workers or os.cpu_count() or 1)
    return max(384, min(4096, share))
