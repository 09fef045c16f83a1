"""What takes longer than a page waits: computed by a thread beside the requests, and kept.

A result belongs to a state of what it was computed from. Where that is another one, it is computed
anew; of a run that is being played, which is another one all the time, only so often that most of
the time is left for the pages.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

__all__ = ["Background"]

Result = TypeVar("Result")

_REST: Final = 10
"""Times as long as computing took, until it is done again."""


@dataclass(slots=True)
class _Known(Generic[Result]):
    """A result that was asked for."""

    state: object
    future: Future[Result]
    due: float
    """When it may be computed again, by the monotonic clock."""
    before: Future[Result] | None
    """The last one that was finished."""


class Background(Generic[Result]):
    """Results by name, one computed at a time. Any thread may ask."""

    def __init__(self, name: str, *, kept: int = 0) -> None:
        """`name` is the thread's; `kept` bounds how many results are remembered, 0 = all."""
        self._kept = kept
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, _Known[Result]] = OrderedDict()
        # One at a time: it is computing, and pages are answered meanwhile.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def close(self) -> None:
        """Wait for what is under way, and drop what waits."""
        self._thread.shutdown(cancel_futures=True)

    def ask(self, name: Hashable, state: object, compute: Callable[[], Result]) -> Future[Result]:
        """Return the result of a name, finished or on its way, computed anew where it is due."""
        with self._lock:
            known = self._known.get(name)
            if known is None or (known.state != state and time.monotonic() >= known.due):
                before = None if known is None else known.future
                future = self._thread.submit(self._compute, name, compute)
                known = self._known[name] = _Known(state, future, math.inf, before)
            self._known.move_to_end(name)
            self._forget()
            return known.future

    def newest(
        self,
        name: Hashable,
        state: object,
        compute: Callable[[], Result],
        *,
        patience: float = 0,
    ) -> Result | None:
        """Return the newest finished result, be it of an earlier state; None = there is none yet.

        Waits `patience` seconds for the one of this state. Raises what computing raised.
        """
        future = self.ask(name, state, compute)
        try:
            return future.result(timeout=patience)
        except TimeoutError:
            if future.done():  # computing it raised this
                raise
        with self._lock:
            known = self._known.get(name)
            before = None if known is None else known.before
        return None if before is None or before.exception() else before.result()

    def knows(self, name: Hashable) -> bool:
        """Tell whether a name was asked for."""
        with self._lock:
            return name in self._known

    def _compute(self, name: Hashable, compute: Callable[[], Result]) -> Result:
        begun = time.monotonic()
        try:
            return compute()
        finally:
            now = time.monotonic()
            with self._lock:
                if name in self._known:
                    self._known[name].due = now + _REST * (now - begun)

    def _forget(self) -> None:
        """Forget what nobody asked for the longest, but nothing that is on its way."""
        for name in list(self._known):
            if not self._kept or len(self._known) <= self._kept:
                return
            if self._known[name].future.done():
                del self._known[name]
