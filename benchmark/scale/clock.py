"""A virtual clock and what uses up its time: processes that work off jobs, and engines.

A heap of events and not SimPy: what happens most is a job of a process, which is one event here and
in SimPy several (a request, a grant, a timeout, a release), each dearer than one of the heap by
more than twice.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Clock", "Cores", "Engines", "Process"]

Then = Callable[..., None]


class Clock:
    """Virtual seconds, and what happens when; of two things at one time the first said is first."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        """That have happened."""
        self._due: list[tuple[float, int, Then, tuple[Any, ...]]] = []
        self._said = 0

    def after(self, seconds: float, do: Then, *arguments: Any) -> None:
        """Have something done so many seconds from now."""
        self._said += 1
        heapq.heappush(self._due, (self.now + seconds, self._said, do, arguments))

    def run(self, until: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time go on until then, or until nothing is left to happen, or `stop` says so."""
        due = self._due
        while due and due[0][0] <= until and not stop():
            self.now, _, do, arguments = heapq.heappop(due)
            self.events += 1
            do(*arguments)
        if not stop():
            self.now = max(self.now, until)


class Cores:
    """The cores of a machine: at most so many of its processes run at once, each in its turn."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._ready: deque[Process] = deque()

    def ask(self, process: Process) -> None:
        """Let a process begin its next job as soon as there is a core for it."""
        self._ready.append(process)
        self._hand_on()

    def give_back(self) -> None:
        """Take a core back from a process whose job is done."""
        self._free += 1
        self._hand_on()

    def _hand_on(self) -> None:
        while self._free and self._ready:
            self._free -= 1
            self._ready.popleft().begin()


class Process:
    """Works off jobs one after another, in the order in which they came, as an event loop does."""

    def __init__(self, clock: Clock, cores: Cores | None = None) -> None:
        """Describe a process; without cores it never waits for one."""
        self._clock = clock
        self._cores = cores
        self._jobs: deque[tuple[float, float, Then, tuple[Any, ...]]] = deque()
        self._at_work = False
        self._began: float | None = None
        self._busy = 0.0
        self.waited = 0.0
        """Seconds that its jobs waited before they began, together."""
        self.jobs = 0
        """That began."""

    @property
    def busy(self) -> float:
        """Seconds of this clock in which it worked so far."""
        return self._busy + (0.0 if self._began is None else self._clock.now - self._began)

    def do(self, seconds: float, then: Then, *arguments: Any) -> None:
        """Work for so many seconds when all that came before is done; then do something."""
        self._jobs.append((self._clock.now, seconds, then, arguments))
        if not self._at_work:
            self._at_work = True
            self._go_on()

    def _go_on(self) -> None:
        if self._cores is None:
            self.begin()
        else:
            self._cores.ask(self)

    def begin(self) -> None:
        """Begin the next job; a core is there."""
        came, seconds, then, arguments = self._jobs.popleft()
        self._began = self._clock.now
        self.waited += self._clock.now - came
        self.jobs += 1
        self._clock.after(seconds, self._end, then, arguments)

    def _end(self, then: Then, arguments: tuple[Any, ...]) -> None:
        self._busy, self._began = self.busy, None
        if self._jobs:
            self._go_on()  # behind the others that wait for a core
        else:
            self._at_work = False
        if self._cores is not None:
            self._cores.give_back()
        then(*arguments)


class Engines:
    """Model servers behind a router that wastes no place: so many replies at once, then a queue."""

    def __init__(self, clock: Clock, places: int | None) -> None:
        """Describe them by the replies that they write at once together; None = as many as come."""
        self._clock = clock
        self._places = places
        self._queue: deque[tuple[float, int, float, Then, tuple[Any, ...]]] = deque()
        self._taken = 0
        self._busy = 0.0
        self._counted = 0.0
        """Until when `_busy` was counted."""
        self.waited = 0.0
        """Seconds that replies waited for a place, together."""
        self.replies = 0
        """That began."""

    @property
    def busy(self) -> float:
        """Seconds in which places were taken so far, all places together."""
        return self._busy + self._taken * (self._clock.now - self._counted)

    def reply(self, count: int, seconds: float, then: Then, *arguments: Any) -> None:
        """Write so many replies at once; then do something.

        Raises ValueError where there are not as many places.
        """
        if self._places is not None and count > self._places:
            raise ValueError(f"{count} replies at once, and places for {self._places}")
        self._queue.append((self._clock.now, count, seconds, then, arguments))
        self._admit()

    def _admit(self) -> None:
        while self._queue:
            came, count, seconds, then, arguments = self._queue[0]
            if self._places is not None and self._taken + count > self._places:
                return
            self._queue.popleft()
            self._take(count)
            self.replies += count
            self.waited += count * (self._clock.now - came)
            self._clock.after(seconds, self._end, count, then, arguments)

    def _take(self, count: int) -> None:
        self._busy, self._counted = self.busy, self._clock.now
        self._taken += count

    def _end(self, count: int, then: Then, arguments: tuple[Any, ...]) -> None:
        self._take(-count)
        self._admit()
        then(*arguments)
