"""The model of scale: what must hold for whatever is simulated, and what is known without it."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import asdict, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmark.scale.clock import Clock, Cores, Engines, Process
from benchmark.scale.driver import Figures, fit
from benchmark.scale.idle import IdleWorker
from benchmark.scale.inputs import RESULTS, read_inputs
from benchmark.scale.model import Cluster, Costs, Death, Deaths, Workload
from benchmark.scale.real_runs import Played, Setting
from benchmark.scale.simulation import Simulation, simulate
from benchmark.scale.validation import calibrate, predict, smallest_as_crowded
from orchestrator.leases import LeasePolicy
from orchestrator.placement import Placement
from orchestrator.ray_cluster.messages import Orders
from orchestrator.records import EpisodeKey
from orchestrator.scheduler import Assignment
from tests.kit.data import REPOSITORY

FREE = Costs(
    driver_message=0.0,
    driver_episode=0.0,
    worker_episode=0.0,
    worker_turn=0.0,
    server_reset=0.0,
    server_step=0.0,
)
DEAR = Costs(
    driver_message=6e-4,
    driver_episode=1e-5,
    worker_episode=4e-3,
    worker_turn=2e-3,
    server_reset=1e-3,
    server_step=1e-3,
    network=2e-4,
)


def test_a_queue_waits_as_long_as_theory_says() -> None:
    """M/D/1: the mean wait is rho / (2 (1 - rho)) services (Pollaczek and Khinchine)."""
    for load in (0.5, 0.8):
        clock, chance = Clock(), random.Random(1)
        process = Process(clock)
        came = 0.0
        for _ in range(40_000):
            came += chance.expovariate(load)
            clock.after(came, process.do, 1.0, lambda: None)
        clock.run(came)
        assert process.waited / process.jobs == pytest.approx(load / (2 * (1 - load)), rel=0.08)
        assert process.busy / clock.now == pytest.approx(load, rel=0.02)


def test_processes_share_cores_and_no_core_idles_while_one_waits() -> None:
    clock = Clock()
    cores = Cores(2)
    ended: list[float] = []
    for _ in range(4):
        process = Process(clock, cores)
        for _ in range(3):
            process.do(1.0, lambda: ended.append(clock.now))
    clock.run(100.0)
    assert ended == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]


def test_engines_write_as_many_replies_at_once_as_they_have_places() -> None:
    clock = Clock()
    engines = Engines(clock, places=3)
    ended: list[float] = []
    for _ in range(4):
        engines.reply(2, 1.0, lambda: ended.append(clock.now))
    clock.run(10.0)
    assert ended == [1.0, 2.0, 3.0, 4.0]
    assert (engines.busy, engines.waited) == (8.0, 2 * (1 + 2 + 3))
    with pytest.raises(ValueError, match="places"):
        engines.reply(4, 1.0, print)


sizes = st.builds(
    Cluster,
    nodes=st.integers(1, 6),
    concurrency=st.integers(1, 60),
    cores=st.sampled_from([None, None, 2]),
    places=st.sampled_from([None, 10, 40]),
    cohort=st.integers(1, 4),
    joining=st.sampled_from([0.0, 0.3]),
    near=st.booleans(),
)


@settings(max_examples=30, deadline=None)
@given(sizes, st.integers(0, 9), st.sampled_from([0.0, 0.2]), st.data())
def test_whatever_dies_every_episode_ends_once_and_nobody_works_more_than_all_the_time(
    cluster: Cluster, seed: int, failures: float, data: st.DataObject
) -> None:
    workload = Workload(episodes=150, turns=3, reply=0.3, spread=0.5, failures=failures)
    times = st.floats(0.1, 6.0)
    nodes = st.integers(0, cluster.nodes - 1)
    cluster = replace(cluster, lease=LeasePolicy(seconds=1.0, fence=2.0))
    deaths = Deaths(
        of=tuple(data.draw(st.lists(st.builds(Death, times, nodes), max_size=3))),
        noticed=data.draw(st.sampled_from([None, 0.1])),
        lock_freed=data.draw(st.booleans()),
        server_lost=0.2,
        replaced=1.0,
    )
    ends: Counter = Counter()
    simulation = Simulation(workload, cluster, DEAR, deaths, seed=seed)
    simulation.on_end = lambda key: ends.update([key])
    result = simulation.play(500.0)
    assert set(ends.values()) == {1} and len(ends) == 150 == result.ended
    assert simulation.scheduler.finished == 150 - result.given_up
    assert (result.given_up == 0) or failures
    assert all(0 <= used <= 1 + 1e-9 for used in result.used.values()), result.used
    assert result.live <= cluster.concurrency
    assert not any(math.isnan(it.played) for it in result.recoveries)
    # Little's law, which holds exactly where a run begins and ends empty.
    if not result.recoveries and not failures:
        assert result.live * result.seconds == pytest.approx(result.sojourn * 150)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 4), st.integers(1, 80), st.floats(0.05, 2.0))
@example(3, 76, 2.0)
@example(2, 57, 0.527)
def test_throughput_is_below_every_bound_and_near_the_lowest_one(
    nodes: int, each: int, reply: float
) -> None:
    turns, places = 4, 50
    workload = Workload(episodes=10**6, turns=turns, reply=reply)
    cluster = Cluster(nodes=nodes, concurrency=nodes * each, places=places)
    warm_up = 12 * turns * reply + 4.0
    result = simulate(workload, cluster, DEAR, until=3 * warm_up, warm_up=warm_up)
    sojourn = turns * (reply + DEAR.worker_turn + DEAR.server_step)
    bounds = (
        nodes * each / sojourn,
        places / (turns * reply),
        nodes / (DEAR.worker_episode + turns * DEAR.worker_turn),
        nodes / (DEAR.server_reset + turns * DEAR.server_step),
        1 / DEAR.driver_episode,
    )
    # Of those that are live when the warm-up ends all but the last turn may be played already, and
    # what ended in the two seconds before may be told of after it.
    ahead = nodes * each * (turns - 1) / turns + 2.0 * min(bounds)
    assert result.per_second <= min(bounds) + ahead / (2 * warm_up)
    assert result.per_second >= 0.6 * min(bounds)


def test_one_seed_gives_one_result() -> None:
    workload = Workload(episodes=400, turns=4, reply=0.5, spread=0.5, failures=0.1)
    cluster = Cluster(nodes=3, concurrency=60, places=40)
    deaths = Deaths(of=(Death(1.5, 1),), noticed=0.5, replaced=1.0, server_lost=0.2)
    first, again, other = (
        simulate(workload, cluster, DEAR, deaths, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_cohorts_change_little() -> None:
    workload = Workload(episodes=10**6, turns=6, reply=1.0, spread=0.5)
    cluster = Cluster(nodes=16, concurrency=1600)
    alone, together = (
        simulate(workload, replace(cluster, cohort=cohort), DEAR, until=90.0, warm_up=40.0)
        for cohort in (1, 8)
    )
    assert together.per_second == pytest.approx(alone.per_second, rel=0.03)
    for name in ("workers", "servers"):
        assert together.used[name] == pytest.approx(alone.used[name], rel=0.05)


def test_what_a_dead_node_held_is_played_by_others_after_the_lease_or_as_soon_as_it_is_known() -> (
    None
):
    workload = Workload(episodes=10**6, turns=4, reply=1.0, spread=0.5)
    cluster = Cluster(nodes=4, concurrency=200, near=False)
    for noticed, lock_freed, lowest, highest in (
        (None, True, 27.0, 37.0),
        (1.0, True, 1.0, 5.0),
        (1.0, False, 61.0, 66.0),
    ):
        deaths = Deaths(of=(Death(10.0, 2),), noticed=noticed, lock_freed=lock_freed)
        result = simulate(workload, cluster, FREE, deaths, until=100.0)
        (recovery,) = result.recoveries
        assert recovery.held >= 50
        assert lowest <= recovery.handed_on <= highest
        assert recovery.handed_on < recovery.played < recovery.handed_on + 13.0
        assert result.rebuilt >= 25  # those that others had on its server
    near = simulate(workload, replace(cluster, near=True), FREE, deaths, until=100.0)
    assert near.rebuilt == 0


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_servers_are_chosen_as_the_fleet_chooses_sound_ones_of_a_size(loads: list[int]) -> None:
    placement = Placement()
    names = [f"server {number}" for number in range(len(loads))]
    for name in names:
        placement.add(name)
    shares = {name: (load + 1) / 100 for name, load in zip(names, loads, strict=True)}
    simulated = loads.index(min(loads))
    assert placement.choose(shares, "maze", 0.0) == names[simulated]


def test_workers_that_join_late_get_their_part() -> None:
    """Of places, not of what ended: the first one had everything, and kept it (decision 121)."""
    workload = Workload(episodes=10**6, turns=1, reply=1.0)
    cluster = Cluster(nodes=16, concurrency=400, joining=0.3)
    result = simulate(workload, cluster, FREE, until=15.0, warm_up=8.0)
    assert result.per_second == pytest.approx(400.0, rel=0.05)


@pytest.mark.parametrize("workers", [1, 4, 16, 64])
def test_messages_cost_the_driver_as_much_whatever_the_number_of_workers(workers: int) -> None:
    """Of 16 episodes each, or every two seconds of workers that have fewer to tell."""
    workload = Workload(episodes=10**6, turns=1, reply=1.0, spread=0.5)
    cluster = Cluster(nodes=workers, concurrency=640)
    result = simulate(workload, cluster, FREE, until=24.0, warm_up=12.0)
    assert result.per_second == pytest.approx(640, rel=0.1)
    assert result.messages_per_second <= max(result.per_second / 16, workers / 2)


def test_sizes_that_make_no_sense_are_refused() -> None:
    workload = Workload(episodes=1, turns=1, reply=1.0)
    with pytest.raises(ValueError, match="cohort"):
        Simulation(workload, Cluster(nodes=1, concurrency=1, places=4, cohort=5), FREE)
    with pytest.raises(ValueError, match="spread"):
        Simulation(replace(workload, spread=1.0), Cluster(nodes=1, concurrency=1), FREE)
    with pytest.raises(ValueError, match="warming up"):
        simulate(workload, Cluster(nodes=1, concurrency=1), FREE, until=1.0, warm_up=1.0)


@pytest.mark.parametrize(
    ("nodes", "cores", "fewest"),
    [(1, 2, (1, 2)), (2, 2, (1, 1)), (4, 2, (2, 1)), (3, 2, (3, 2)), (6, 4, (3, 2))],
)
def test_costs_are_told_on_the_smallest_machine_that_is_as_crowded(
    nodes: int, cores: int, fewest: tuple[int, int]
) -> None:
    assert smallest_as_crowded(nodes, cores) == fewest


def test_a_run_on_fewer_cores_is_predicted_for_as_many() -> None:
    setting = Setting(nodes=4, concurrency=64, episodes=2000, turns=4, reply=0.0)
    two, one = (predict(replace(setting, cores=cores), DEAR)[0] for cores in (2, 1))
    assert one == pytest.approx(two / 2, rel=0.05)


def test_costs_are_told_apart_by_two_runs_and_a_third_one_is_predicted_by_them() -> None:
    """Runs of the model itself, whose costs are known, in place of real ones."""
    known = replace(DEAR, network=0.02)

    def played(turns: int) -> tuple[Setting, Played]:
        setting = Setting(nodes=1, concurrency=20, episodes=400, turns=turns, reply=0.2)
        per_second, sojourn = predict(setting, known)
        cpu = {
            "worker": known.worker_episode + turns * known.worker_turn,
            "server": known.server_reset + turns * known.server_step,
        }
        return setting, Played(per_second=per_second, sojourn=sojourn, seconds=1.0, cpu=cpu)

    driver = {"message_seconds": DEAR.driver_message, "episode_seconds": DEAR.driver_episode}
    found = calibrate([played(2), played(8)], driver)
    for name, cost in asdict(found).items():
        assert cost == pytest.approx(asdict(known)[name], rel=0.02), name
    another = Setting(nodes=2, concurrency=60, episodes=600, turns=5, reply=0.1)
    assert predict(another, found)[0] == pytest.approx(predict(another, known)[0], rel=0.02)


def test_what_a_driver_takes_for_a_message_and_an_episode_is_told_apart() -> None:
    runs = [
        Figures(
            workers=1,
            seconds=1.0,
            episodes=episodes,
            messages=messages,
            cpu_seconds=2e-3 * messages + 1e-5 * episodes,
            episodes_per_second=0.0,
            messages_per_episode=0.0,
            cpu_us_per_episode=0.0,
        )
        for messages, episodes in ((10, 1000), (300, 900), (50, 2000))
    ]
    assert fit(runs) == {
        "message_seconds": pytest.approx(2e-3),
        "episode_seconds": pytest.approx(1e-5),
    }


async def test_an_idle_worker_ends_what_it_is_granted_in_as_many_places_as_it_has() -> None:
    worker = IdleWorker(0.0, session=None)
    grants = tuple(Assignment(EpisodeKey("echo", f"echo_{it}", 0, "idle"), 1) for it in range(3))
    first = await worker.exchange(Orders(grants=grants, slots=2, pause=0.0, patience=5.0))
    second = await worker.exchange(Orders(slots=2, pause=0.0, patience=5.0))
    told = [it.assignment for report in (first, second) for it in report.outcomes]
    assert sorted(told, key=lambda it: it.key) == sorted(grants, key=lambda it: it.key)


def test_every_figure_of_the_table_is_in_the_result_that_it_names_or_says_why_it_is_assumed() -> (
    None
):
    inputs = read_inputs()
    assert inputs.workloads == ["games", "sciworld"]
    for name, figure in inputs.figures.items():
        assert figure.value > 0, name
        assert figure.source.startswith(("benchmark/results/", "assumed: ")), name
    assert inputs.costs("sciworld").server_step > inputs.costs("games").server_step


def test_the_committed_table_stands_on_the_figures_that_are_committed_now() -> None:
    """Who measures a cost anew computes the sizes anew: `python -m benchmark.scale`."""
    committed = json.loads((RESULTS / "scale" / "sizes.json").read_text())
    used = {name: figure["value"] for name, figure in committed["inputs"].items()}
    assert used == {name: figure.value for name, figure in read_inputs().figures.items()}
    table = (RESULTS / "scale" / "sizes.md").read_text()
    assert all(f"| {name} | {value:.4g} |" in table for name, value in used.items())


def test_the_committed_table_says_what_is_full_first_and_reaches_a_million_episodes() -> None:
    committed = json.loads((RESULTS / "scale" / "sizes.json").read_text())
    for rows in committed["cases"].values():
        assert [row["nodes"] for row in rows] == [1, 10, 100, 1000]
        assert rows[-1]["live"] == 1_000_000
    limits = {row["limit"] for rows in committed["cases"].values() for row in rows}
    assert limits == {"", "driver", "engines", "servers", "workers"}
    advice = (
        (REPOSITORY / "docs" / "how-to" / "ray.md").read_text().partition("What is full\nfirst")
    )
    for limit in limits - {""}:
        assert f"| {limit} |" in advice[2] or f"| the {limit} |" in advice[2]


@pytest.mark.parametrize("name", ["validation", "validation_busy"])
def test_measured_rates_were_predicted_within_15_percent(name: str) -> None:
    result = json.loads((RESULTS / "scale" / f"{name}.json").read_text())
    rows = [*result["replies of a second"], *result["replies without time"]]
    assert [row["nodes"] for row in rows] == [1, 2, 4]
    assert all(abs(row["error"]) <= 0.15 for row in rows)
