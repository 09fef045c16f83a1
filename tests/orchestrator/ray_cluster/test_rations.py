"""Who of a cluster's workers gets how many episodes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.leases import Leases
from orchestrator.ray_cluster.rations import Rations
from orchestrator.records import EpisodeKey
from orchestrator.retry import RetryBudget, RetryPolicy
from orchestrator.scheduler import Limits, Scheduler


class Run:
    """Workers that play in rounds: each begins what it may, and ends some of it."""

    def __init__(self, keys: int, concurrency: int) -> None:
        self.scheduler = Scheduler(
            (EpisodeKey("maze", f"maze_{number}", 0, "expert") for number in range(keys)),
            limits=Limits(total=concurrency),
            retries=RetryBudget(RetryPolicy()),
        )
        self.leases = Leases()
        self.rations = Rations(self.scheduler, self.leases, concurrency)
        self.granted: dict[str, list] = {}
        self.live: dict[str, list] = {}

    def join(self, name: str) -> None:
        self.leases.join(name, 0.0)
        self.granted[name], self.live[name] = [], []

    def ask(self, name: str) -> None:
        due = self.rations.next(name, 0.0)
        self.granted[name] += due.grants
        while self.granted[name] and len(self.live[name]) < due.slots:
            self.live[name].append(self.granted[name].pop(0))

    def report(self, name: str, ended: int) -> None:
        """End some, begin what waits (in no more places), and be asked again."""
        for assignment in self.live[name][:ended]:
            assert self.leases.settle(name, assignment)
            self.scheduler.succeeded(assignment.key)
        del self.live[name][:ended]
        self.rations.note(name, ended=ended, live=len(self.live[name]))
        self.ask(name)

    def lose(self, name: str) -> None:
        self.rations.forget(name)
        self.leases.lose(name, 0.0)
        for assignment in self.leases.release(name):
            self.scheduler.cancelled(assignment.key)
        del self.granted[name], self.live[name]

    def playing(self) -> int:
        return sum(map(len, self.live.values()))


def test_a_worker_that_was_first_does_not_keep_what_others_have_places_for() -> None:
    run = Run(100_000, concurrency=2000)
    run.join("first")
    run.ask("first")
    assert len(run.live["first"]) == 2000
    for number in range(15):
        run.join(f"later {number}")
        run.ask(f"later {number}")
    assert run.playing() == 2000  # there are no more places
    run.report("first", 2000)
    for number in range(15):
        run.report(f"later {number}", 0)
    assert [len(live) for live in run.live.values()] == [125] * 16


def test_who_has_room_is_who_may_play_more_than_it_holds() -> None:
    run = Run(3, concurrency=4)
    for name in ("a", "b"):
        run.join(name)
    assert run.rations.with_room() == []  # nobody was told yet
    for name in ("a", "b"):
        run.ask(name)
    assert (run.leases.load("a"), run.leases.load("b")) == (2, 1)
    assert run.rations.with_room() == ["b"]
    run.scheduler.add([EpisodeKey("maze", "maze_9", 0, "expert")])
    run.ask("b")
    assert run.rations.with_room() == []
    run.report("a", ended=1)
    run.leases.retire("a")
    assert run.rations.with_room() == []
    run.lose("b")
    assert run.rations.with_room() == []


def test_what_waits_at_one_worker_takes_no_place_from_another() -> None:
    run = Run(100_000, concurrency=40)
    for name in "ab":
        run.join(name)
    run.ask("a")
    run.ask("b")
    run.report("a", 20)
    run.report("b", 20)
    assert [run.leases.load(name) for name in "ab"] == [60, 60]
    assert run.playing() == 40


def test_where_servers_take_less_than_may_be_live_nothing_waits_at_a_worker() -> None:
    run = Run(100_000, concurrency=40)
    run.scheduler.limits = replace(run.scheduler.limits, per_environment={"maze": 2})
    run.rations.capacity = 2
    for name in "ab":
        run.join(name)
        run.ask(name)
    assert [run.leases.load(name) for name in "ab"] == [2, 0]
    run.report("a", 1)
    run.report("b", 0)
    run.report("a", 1)
    run.report("b", 1)
    assert [run.leases.load(name) for name in "ab"] == [1, 1] == [*map(len, run.live.values())]


def test_who_retires_gets_nothing_more_and_keeps_its_places_until_it_has_played_what_it_holds() -> (
    None
):
    run = Run(100_000, concurrency=40)
    for name in "ab":
        run.join(name)
        run.ask(name)
    for name in "ab":
        run.report(name, 20)
    run.leases.retire("a")
    while run.leases.load("a"):
        held = run.leases.load("a")
        run.report("b", 5)
        run.report("a", 5)
        assert run.leases.load("a") == held - 5
        assert run.playing() <= 40
    run.report("b", 0)
    assert len(run.live["b"]) == 40


def test_near_the_end_everybody_has_a_part() -> None:
    run = Run(8, concurrency=100)
    for number in range(4):
        run.join(f"{number}")
    for number in range(4):
        run.ask(f"{number}")
    assert [len(live) for live in run.live.values()] == [2, 2, 2, 2]


@given(st.data())
def test_no_more_than_asked_for_is_live_and_nothing_is_left_over(data: st.DataObject) -> None:
    concurrency = data.draw(st.integers(1, 30))
    keys = data.draw(st.integers(0, 120))
    run = Run(keys, concurrency)
    names = [f"{number}" for number in range(data.draw(st.integers(1, 5)))]
    for name in names:
        run.join(name)
        run.ask(name)
        if data.draw(st.booleans()):
            run.report(name, data.draw(st.integers(0, len(run.live[name]))))
        assert run.playing() <= concurrency
    if len(names) > 1 and data.draw(st.booleans()):
        run.lose(names.pop(data.draw(st.integers(0, len(names) - 1))))
    rounds = 0
    while not run.scheduler.done and rounds < 1000:
        for name in names:
            some = data.draw(st.integers(0, len(run.live[name]))) if rounds < 5 else None
            run.report(name, len(run.live[name]) if some is None else some)
            assert run.playing() <= concurrency
        rounds += 1
    assert run.scheduler.finished == keys


def test_a_worker_with_little_to_tell_is_asked_less_often_and_one_with_much_soon_again() -> None:
    run = Run(100_000, concurrency=400)
    run.join("a")
    run.ask("a")
    pauses = []
    for ended in (*[0] * 10, *[20] * 3, *[40] * 10):
        run.report("a", ended)
        due = run.rations.next("a", 0.0)
        assert due.rest == 0.05
        pauses.append(due.pause)
    slow, steady, quick = pauses[:10], pauses[10:13], pauses[13:]
    assert slow == sorted(slow) and slow[-1] == 2.0
    assert steady == [2.0] * 3
    assert quick == sorted(quick, reverse=True) and quick[-1] == 0.05


def test_a_worker_of_few_places_gets_what_it_plays_meanwhile() -> None:
    run = Run(10_000, concurrency=8)
    for name in "ab":
        run.join(name)
    for name in "ab":
        run.ask(name)
    loads = []
    for _ in range(6):  # all that it holds is played until the next message
        held = run.leases.load("a")
        run.live["a"] += run.granted["a"]
        run.granted["a"].clear()
        run.report("a", held)
        loads.append(run.leases.load("a"))
    assert loads == [4 + 10, 4 + 28, 4 + 64, 4 + 64, 4 + 64, 4 + 64]
    assert len(run.live["b"]) == 4
