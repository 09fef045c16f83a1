"""Many searches at once are few questions to the retriever, and nobody notices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from env_servers.environments.searchqa.batching import SearchQueue
from env_servers.environments.searchqa.passages import Passage
from env_servers.sdk import EnvironmentUnavailable


class Gated:
    """Answers every query with itself, but only when the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[list[str]] = []
        self.inside = threading.Semaphore(0)
        self.fail: Callable[[Sequence[str]], BaseException | None] = lambda queries: None
        self.closed = False

    def search(self, queries: Sequence[str]) -> list[tuple[Passage, ...]]:
        self.asked.append(list(queries))
        self.inside.release()
        assert self.gate.wait(20)
        if error := self.fail(queries):
            raise error
        return [(Passage(query, query, "text"),) for query in queries]

    def close(self) -> None:
        self.closed = True


def waiting_for(queue: SearchQueue, searches: int) -> None:
    """Until so many searches have arrived."""
    for _ in range(2000):
        if queue.traffic.searches >= searches:
            return
        threading.Event().wait(0.005)
    raise AssertionError(f"only {queue.traffic.searches} of {searches} searches arrived")


def test_a_lone_search_goes_at_once() -> None:
    retriever = Gated()
    retriever.gate.set()
    queue = SearchQueue(retriever)
    assert queue.search("a") == (Passage("a", "a", "text"),)
    assert retriever.asked == [["a"]]


def test_searches_that_arrive_meanwhile_are_asked_together_and_equal_ones_once() -> None:
    retriever = Gated()
    queue = SearchQueue(retriever, batch=32)
    with ThreadPoolExecutor(40) as pool:
        first = pool.submit(queue.search, "first")
        assert retriever.inside.acquire(timeout=20)
        later = [pool.submit(queue.search, f"q{n % 10}") for n in range(30)]
        waiting_for(queue, 31)
        retriever.gate.set()
        assert first.result(20)[0].id == "first"
        assert [found.result(20)[0].id for found in later] == [f"q{n % 10}" for n in range(30)]
    assert len(retriever.asked) == 2
    assert sorted(retriever.asked[1]) == [f"q{n}" for n in range(10)]
    assert queue.traffic.shared == 20
    assert queue.traffic.largest == 10


def test_a_batch_has_a_limit_and_leftovers_find_somebody_to_ask_for_them() -> None:
    retriever = Gated()
    queue = SearchQueue(retriever, batch=4)
    with ThreadPoolExecutor(40) as pool:
        pool.submit(queue.search, "first")
        assert retriever.inside.acquire(timeout=20)
        later = [pool.submit(queue.search, f"q{n}") for n in range(30)]
        waiting_for(queue, 31)
        retriever.gate.set()
        assert {found.result(20)[0].id for found in later} == {f"q{n}" for n in range(30)}
    assert max(map(len, retriever.asked)) == 4
    assert sum(map(len, retriever.asked)) == 31


def test_calls_run_in_parallel_up_to_the_limit() -> None:
    retriever = Gated()
    queue = SearchQueue(retriever, batch=1, parallel=3)
    with ThreadPoolExecutor(10) as pool:
        found = [pool.submit(queue.search, f"q{n}") for n in range(8)]
        waiting_for(queue, 8)
        for _ in range(3):
            assert retriever.inside.acquire(timeout=20)
        assert not retriever.inside.acquire(timeout=0.05)
        retriever.gate.set()
        assert [each.result(20)[0].id for each in found] == [f"q{n}" for n in range(8)]


def test_latest_answers_are_kept_and_the_oldest_forgotten() -> None:
    retriever = Gated()
    retriever.gate.set()
    queue = SearchQueue(retriever, cached_answers=2)
    for query in ("a", "b", "a", "c", "a", "b"):
        queue.search(query)
    assert retriever.asked == [["a"], ["b"], ["c"], ["b"]]
    queue.search("x" * 10_000)
    queue.search("x" * 10_000)
    assert len(retriever.asked) == 6


def test_a_failure_reaches_those_who_waited_for_it_and_nobody_else() -> None:
    retriever = Gated()
    queue = SearchQueue(retriever, batch=2)
    retriever.fail = lambda queries: ValueError("broken") if "bad" in queries else None
    with ThreadPoolExecutor(10) as pool:
        first = pool.submit(queue.search, "first")
        assert retriever.inside.acquire(timeout=20)
        bad = [pool.submit(queue.search, "bad") for _ in range(2)]
        waiting_for(queue, 3)
        bad.append(pool.submit(queue.search, "beside bad"))
        waiting_for(queue, 4)
        good = [pool.submit(queue.search, f"q{n}") for n in range(3)]
        waiting_for(queue, 7)
        retriever.gate.set()
        assert first.result(20)
        for failed in bad:
            with pytest.raises(EnvironmentUnavailable, match="broken"):
                failed.result(20)
        assert [found.result(20)[0].id for found in good] == ["q0", "q1", "q2"]
    retriever.fail = lambda queries: None
    assert queue.search("bad") == (Passage("bad", "bad", "text"),)


def test_a_worker_that_is_torn_away_leaves_the_queue_working() -> None:
    class Torn(BaseException):
        pass

    retriever = Gated()
    retriever.gate.set()
    queue = SearchQueue(retriever)
    retriever.fail = lambda queries: Torn()
    with pytest.raises(Torn):
        queue.search("a")
    retriever.fail = lambda queries: None
    assert queue.search("a")[0].id == "a"


def test_an_answer_for_another_number_of_queries_is_a_failure() -> None:
    class Short(Gated):
        def search(self, queries: Sequence[str]) -> list[tuple[Passage, ...]]:
            return []

    with pytest.raises(EnvironmentUnavailable, match="another number"):
        SearchQueue(Short()).search("a")


def test_a_storm_of_searches_is_answered_right() -> None:
    retriever = Gated()
    retriever.gate.set()
    queue = SearchQueue(retriever, batch=8, parallel=2, cached_answers=50)
    queries = [f"q{(n * n) % 97}" for n in range(3000)]
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(queue.search, queries))
    assert [passages[0].id for passages in found] == queries
    assert queue.traffic.searches == 3000
    queue.close()
    assert retriever.closed
