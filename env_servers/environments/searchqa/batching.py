"""Concurrent searches of many episodes as few questions to one retriever.

Contains the queue in front of a retriever. A search that finds nobody at work goes at once; those
that arrive meanwhile wait and are asked together, as one batch, when the work before them is done:
there is no timer, so a lone search is never delayed. Equal queries that wait share one answer, and
the latest answers are kept. An episode cannot tell any of this: equal queries get equal answers,
and a failure reaches exactly those who waited for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from env_servers.environments.searchqa.passages import Passage, Retriever
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["SearchQueue", "Traffic"]

_KEPT_CHARS: Final = 2_000
"""Answers of longer queries are not kept."""


@dataclass(slots=True)
class Traffic:
    """What went through a queue so far."""

    searches: int = 0
    cached_answers: int = 0
    """Answered from the latest answers."""
    shared: int = 0
    """Joined an equal query that was waiting or being asked."""
    batches: int = 0
    largest: int = 0
    """Queries in the largest batch."""


class _PendingQuery:
    """One query that somebody waits for."""

    __slots__ = ("answer", "error", "query", "settled")

    def __init__(self, query: str) -> None:
        self.query = query
        self.answer: tuple[Passage, ...] | None = None
        self.error: BaseException | None = None
        self.settled = threading.Event()
        """Set when there is an answer or error, or when the waiter is to take over the work."""

    @property
    def done(self) -> bool:
        return self.answer is not None or self.error is not None


class SearchQueue:
    """The one way to a retriever; called from any number of threads."""

    def __init__(
        self,
        retriever: Retriever,
        *,
        batch: int = 32,
        parallel: int = 1,
        cached_answers: int = 4096,
    ) -> None:
        """Ask at most `batch` queries at once in at most `parallel` calls."""
        self.retriever = retriever
        self.traffic = Traffic()
        self._batch, self._parallel, self._cache_size = batch, parallel, cached_answers
        self._lock = threading.Lock()
        self._waiting: deque[_PendingQuery] = deque()
        self._open: dict[str, _PendingQuery] = {}
        """Queries waiting or being asked, so that an equal one joins instead of asking again."""
        self._working = 0
        self._latest: OrderedDict[str, tuple[Passage, ...]] = OrderedDict()

    def search(self, query: str) -> tuple[Passage, ...]:
        """Return the best passages, best first; raises EnvironmentUnavailable."""
        with self._lock:
            self.traffic.searches += 1
            cached = self._latest.get(query)
            if cached is not None:
                self._latest.move_to_end(query)
                self.traffic.cached_answers += 1
                return cached
            pending = self._open.get(query)
            if pending is None:
                pending = self._open[query] = _PendingQuery(query)
                self._waiting.append(pending)
            else:
                self.traffic.shared += 1
        while not pending.done:
            if self._take_up():
                self._work(pending)
            else:
                self._wait(pending)
        if pending.error is not None:
            raise _copy_error(pending.error)
        return pending.answer or ()

    def close(self) -> None:
        """Release the retriever."""
        self.retriever.close()

    def _take_up(self) -> bool:
        """Become one of those who ask, if there is something to ask and room."""
        with self._lock:
            free = self._working < self._parallel and bool(self._waiting)
            self._working += free
            return free

    def _wait(self, pending: _PendingQuery) -> None:
        pending.settled.wait()
        with self._lock:
            if not pending.done:
                # Woken to take over, but another thread was faster: wait again.
                pending.settled.clear()

    def _work(self, own: _PendingQuery) -> None:
        """Ask batches until the own query is settled, then hand the rest to a waiter."""
        try:
            while not own.done:
                with self._lock:
                    size = min(self._batch, len(self._waiting))
                    batch = [self._waiting.popleft() for _ in range(size)]
                if not batch:
                    break
                self._ask(batch)
        finally:
            with self._lock:
                self._working -= 1
                # Nobody else would ask what still waits: the first waiter has to wake up for it.
                if self._waiting:
                    self._waiting[0].settled.set()

    def _ask(self, batch: Sequence[_PendingQuery]) -> None:
        error: BaseException | None = None
        answers: list[tuple[Passage, ...]] = []
        try:
            answers = self.retriever.search([pending.query for pending in batch])
            if len(answers) != len(batch):
                raise EnvironmentUnavailable("the retriever answered another number of queries")
        except Exception as raised:  # noqa: BLE001 - boundary: handed to everybody who waits
            error = raised
        except BaseException as raised:
            # An interrupted thread ends, but those who wait for its batch must not hang.
            error = raised
            raise
        finally:
            self._settle(batch, answers, error)

    def _settle(
        self,
        batch: Sequence[_PendingQuery],
        answers: Sequence[tuple[Passage, ...]],
        error: BaseException | None,
    ) -> None:
        with self._lock:
            self.traffic.batches += 1
            self.traffic.largest = max(self.traffic.largest, len(batch))
            for index, pending in enumerate(batch):
                if error is None:
                    pending.answer = answers[index]
                    self._remember(pending.query, pending.answer)
                else:
                    pending.error = error
                del self._open[pending.query]
                pending.settled.set()

    def _remember(self, query: str, answer: tuple[Passage, ...]) -> None:
        if len(query) <= _KEPT_CHARS and self._cache_size:
            self._latest[query] = answer
            if len(self._latest) > self._cache_size:
                self._latest.popitem(last=False)


def _copy_error(error: BaseException) -> Exception:
    """Return the error for one more of those who waited: each raises one of its own."""
    if isinstance(error, EnvironmentUnavailable):
        return EnvironmentUnavailable(str(error))
    return EnvironmentUnavailable(f"the retriever failed: {type(error).__name__}: {error}")
