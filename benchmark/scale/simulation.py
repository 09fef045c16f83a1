"""Plays a workload on a cluster under a virtual clock.

What is real: the scheduler with its retries, the leases, how much a worker gets and how often it is
asked, which outcome of whose lease counts. What is simulated: how long everything takes.

What is simplified: a job of a process is done in one piece, in the order of coming; costs are
their means; an engine takes the same time for a reply whatever else it writes; engines are behind
a router that wastes nothing; nobody's memory runs out; files, disks and networks have no limit.
With cohorts, episodes of a worker that began together go through their turns together, on one
server.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from agentgym.env.v1 import types_pb2
from benchmark.scale.clock import Clock, Cores, Engines, Process
from benchmark.scale.model import Cluster, Costs, Death, Deaths, Recovery, Result, Workload
from orchestrator.leases import Leases
from orchestrator.ray_cluster.rations import Ration, Rations
from orchestrator.records import EpisodeKey
from orchestrator.retry import Failure, Retry, RetryBudget
from orchestrator.scheduler import Assignment, Limits, Scheduler

__all__ = ["Simulation", "simulate"]

_LOOK: Final = 0.2
"""Seconds between two looks of the driver at leases and locks."""
_SLICE: Final = 0.003
"""Seconds for which another program uses a core at once; Linux's `base_slice_ns`."""
_AHEAD: Final = 2
"""Keys are planned as they are needed: so many times what is live at once wait."""
_Outcome = tuple[Assignment, bool]
"""What is on record, and whether it failed."""
_FAILURE: Final = Failure(fault=types_pb2.FAULT_INFRASTRUCTURE, reason="simulated")


@dataclass(slots=True, eq=False)
class _Server:
    process: Process
    alive: bool = True
    deaths: int = 0
    """So far; who was placed before one has to look whether its server is still there."""


@dataclass(slots=True, eq=False)
class _Worker:
    name: str
    node: int
    process: Process
    loads: list[float]
    """Of its own episodes on each node's server; inf = it is not there."""
    alive: bool = True
    slots: int = 0
    live: int = 0
    granted: deque[Assignment] = field(default_factory=deque[Assignment])
    outcomes: list[_Outcome] = field(default_factory=list[_Outcome])
    """On record and not told yet."""
    exchange: int = 0
    """Number of the message that it is to answer."""
    waiting: bool = False
    """It answers as soon as there is something to tell."""
    pausing: bool = False
    """It answers as soon as it has nothing left to play."""
    playing: set[_Cohort] = field(default_factory=set["_Cohort"])

    @property
    def holds(self) -> bool:
        """Whether it has something left to play."""
        return bool(self.playing or self.granted)


@dataclass(slots=True, eq=False)
class _Cohort:
    """Episodes of a worker that are played together."""

    assignments: list[Assignment]
    worker: _Worker
    turns: int
    began: float
    server: int = -1
    """Node of its server; -1 = it has none now."""
    deaths: int = 0
    """Of its server, when it was placed there."""
    played: int = 0


@dataclass(slots=True, eq=False)
class _Loss:
    """A node's death, while it is made good."""

    at: float
    held: set[EpisodeKey] = field(default_factory=set[EpisodeKey])
    waiting: set[EpisodeKey] = field(default_factory=set[EpisodeKey])
    """Not granted to others yet."""
    open: set[EpisodeKey] = field(default_factory=set[EpisodeKey])
    """Not ended yet."""
    turns: int = 0
    handed_on: float = math.nan
    played: float = math.nan


class Simulation:
    """One run. `play` it once."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        costs: Costs,
        deaths: Deaths | None = None,
        *,
        seed: int = 0,
    ) -> None:
        """Set everything up: all nodes are there, nothing is granted yet.

        Raises ValueError where the sizes make no sense.
        """
        if not 1 <= cluster.cohort <= (cluster.places or math.inf):
            raise ValueError("a cohort has a member, and the engines have places for one")
        if cluster.elsewhere and not 0 < cluster.elsewhere < (cluster.cores or 0):
            raise ValueError("others use less than all cores of a machine that has a number")
        if not 0 <= workload.spread < 1:
            raise ValueError("the spread is at least 0 and less than 1")
        self.workload, self.cluster, self.costs = workload, cluster, costs
        self.deaths = deaths or Deaths()
        self.clock = Clock()
        self.scheduler = Scheduler(
            (),
            limits=Limits(total=cluster.concurrency),
            retries=RetryBudget(workload.retry, seed=seed),
            endless=True,
        )
        self.leases = Leases(cluster.lease)
        self.rations = Rations(self.scheduler, self.leases, cluster.concurrency)
        self.on_end: Callable[[EpisodeKey], None] = lambda _key: None
        """Is told of each key that ended, by the record that counts, or was given up."""
        self._random = random.Random(seed)
        self._cores = None if cluster.cores is None else Cores(cluster.cores)
        self._driver = Process(self.clock, self._cores)
        self._engines = Engines(self.clock, cluster.places)
        self._servers = [_Server(Process(self.clock, self._cores)) for _ in range(cluster.nodes)]
        self._workers: dict[str, _Worker] = {}
        self._by_node: list[_Worker | None] = [None] * cluster.nodes
        self._processes: list[Process] = []
        """Of all workers that ever were."""
        self._planned = 0
        self._losses: list[_Loss] = []
        self._lost_keys: dict[EpisodeKey, list[_Loss]] = {}
        """What was held by one that died, once or again, and has not ended."""
        self._messages = self._ended = self._given_up = self._rebuilt = self._recorded = 0
        self._live = 0
        self._live_seconds = self._counted = self._sojourns = 0.0

    # ------------------------------------------------------------------ the whole

    def play(self, until: float = math.inf, *, warm_up: float = 0.0) -> Result:
        """Play until everything has ended, or until then; figures are of the time after `warm_up`.

        Raises ValueError where the times make no sense.
        """
        if not 0 <= warm_up < until:
            raise ValueError("warming up ends before the simulation does")
        self._plan()
        for node in range(self.cluster.nodes):
            self.clock.after(node * self.cluster.joining, self._join, node)
        self._disturb()
        for death in self.deaths.of:
            self.clock.after(death.at, self._die, death)
        if self.deaths.of:
            self.clock.after(_LOOK, self._look)
        if warm_up:
            self.clock.run(warm_up)
        before = self._snapshot()
        self.clock.run(until, stop=self._over)
        return self._result(before, self._snapshot())

    def _over(self) -> bool:
        return self._planned == self.workload.episodes and not (
            self.scheduler.pending or self.scheduler.running
        )

    def _plan(self) -> None:
        """Plan further keys before those that wait run out."""
        missing = _AHEAD * self.cluster.concurrency - self.scheduler.pending
        count = min(missing, self.workload.episodes - self._planned)
        if count > 0:
            numbers = range(self._planned, self._planned + count)
            self.scheduler.add(EpisodeKey("e", "i", number, "p") for number in numbers)
            self._planned += count

    def _disturb(self) -> None:
        """Have others use cores: a process for each core, which works and sleeps in turns."""
        if self.cluster.cores is None or not self.cluster.elsewhere:
            return
        share = self.cluster.elsewhere / self.cluster.cores
        rest = _SLICE * (1 - share) / share

        def work(process: Process) -> None:
            process.do(_SLICE, self.clock.after, rest, work, process)

        for _ in range(self.cluster.cores):
            work(Process(self.clock, self._cores))

    # ------------------------------------------------------------------ the driver

    def _join(self, node: int) -> None:
        """Have a worker on a node, and ask it for the first time."""
        name = f"w{len(self._processes)}"
        process = Process(self.clock, self._cores)
        loads = [0.0 if server.alive else math.inf for server in self._servers]
        worker = _Worker(name, node, process, loads)
        self._processes.append(process)
        self._workers[name] = self._by_node[node] = worker
        self.leases.join(name, self.clock.now)
        self._driver.do(self.costs.driver_message, self._ask, worker)

    def _ask(self, worker: _Worker) -> None:
        if not self.leases.takes(worker.name):
            return
        if self.scheduler.pending < self.cluster.concurrency:
            self._plan()
        due = self.rations.next(worker.name, self.clock.now)
        if self._lost_keys:
            for assignment in due.grants:
                self._note_granted(assignment.key)
        self._messages += 1
        self.clock.after(self.costs.network / 2, self._deliver, worker, due)

    def _take(self, worker: _Worker, outcomes: list[_Outcome], live: int) -> None:
        """Take in what a worker reports, and ask it again."""
        known = self.leases.renew(worker.name, self.clock.now)
        self.rations.note(worker.name, ended=len(outcomes), live=live)
        self._settle(worker, outcomes)
        if known:
            self._ask(worker)

    def _settle(self, worker: _Worker, outcomes: Sequence[_Outcome]) -> None:
        for assignment, failed in outcomes:
            if not self.leases.settle(worker.name, assignment):
                continue  # another's by now
            if failed:
                decision = self.scheduler.failed(assignment.key, _FAILURE, self.clock.now)
                if isinstance(decision, Retry):
                    continue
                self._given_up += 1
            else:
                self.scheduler.succeeded(assignment.key)
            self._ended += 1
            self.on_end(assignment.key)
            if self._lost_keys:
                self._note_played(assignment.key)

    def _look(self) -> None:
        """Miss workers that are silent."""
        for name in self.leases.silent(self.clock.now):
            self._fence(self._workers[name])
        self.clock.after(_LOOK, self._look)

    def _notice(self, worker: _Worker) -> None:
        if self.leases.lose(worker.name, self.clock.now):
            self._fence(worker)

    def _fence(self, worker: _Worker) -> None:
        """Hand back what a lost worker held once it certainly writes no more."""
        self.rations.forget(worker.name)
        wait = _LOOK if self.deaths.lock_freed else self.leases.policy.fence
        self.clock.after(wait, self._release, worker)

    def _release(self, worker: _Worker) -> None:
        self._settle(worker, worker.outcomes)  # they are on record
        for assignment in self.leases.release(worker.name):
            self.scheduler.cancelled(assignment.key)
        del self._workers[worker.name]

    # ------------------------------------------------------------------ a worker

    def _deliver(self, worker: _Worker, due: Ration) -> None:
        if not worker.alive:
            return
        worker.slots = due.slots
        worker.granted.extend(due.grants)
        self._begin(worker)
        worker.exchange += 1
        worker.waiting = worker.pausing = False
        self.clock.after(due.rest, self._pause, worker, worker.exchange, due)

    def _pause(self, worker: _Worker, exchange: int, due: Ration) -> None:
        worker.pausing = worker.holds
        rest = due.pause - due.rest if worker.holds else 0.0
        self.clock.after(rest, self._wait_for_news, worker, exchange, due)

    def _wait_for_news(self, worker: _Worker, exchange: int, due: Ration) -> None:
        if worker.exchange != exchange:
            return
        worker.pausing = False
        if worker.outcomes:
            self._answer(worker)
        else:
            worker.waiting = True
            self.clock.after(due.patience - due.pause, self._answer_anyway, worker, exchange)

    def _answer_anyway(self, worker: _Worker, exchange: int) -> None:
        if worker.waiting and worker.exchange == exchange:
            self._answer(worker)

    def _answer(self, worker: _Worker) -> None:
        if not worker.alive:
            return
        worker.exchange += 1  # what still waits for this one is too late
        worker.waiting = worker.pausing = False
        outcomes, worker.outcomes = worker.outcomes, []
        seconds = self.costs.driver_message + self.costs.driver_episode * len(outcomes)
        self.clock.after(
            self.costs.network / 2,
            self._driver.do,
            seconds,
            self._take,
            worker,
            outcomes,
            worker.live,
        )

    def _begin(self, worker: _Worker) -> None:
        """Begin as many episodes as may be live."""
        while worker.granted and worker.live < worker.slots:
            room = worker.slots - worker.live
            count = min(self.cluster.cohort, room, len(worker.granted))
            chosen = [worker.granted.popleft() for _ in range(count)]
            cohort = _Cohort(chosen, worker, self._draw(self.workload.turns), self.clock.now)
            worker.live += count
            worker.playing.add(cohort)
            self._count_live(count)
            seconds = count * self.costs.worker_episode / 2
            worker.process.do(seconds, self._place, cohort)

    def _draw(self, mean: int) -> int:
        spread = self.workload.spread
        low, high = math.ceil(mean * (1 - spread)), math.floor(mean * (1 + spread))
        return max(1, self._random.randint(low, high))

    def _place(self, cohort: _Cohort) -> None:
        """Open episodes on the near server, or on the one on which their worker has the fewest."""
        worker = cohort.worker
        if not worker.alive:
            return
        number, count = self._choose(worker), len(cohort.assignments)
        if number is None:  # until one is back
            self.clock.after(self.deaths.server_lost, self._place, cohort)
            return
        server = self._servers[number]
        cohort.server, cohort.deaths = number, server.deaths
        worker.loads[number] += count
        work = count * (self.costs.server_reset + cohort.played * self.costs.server_step)
        self.clock.after(self.costs.network / 2, server.process.do, work, self._prompt, cohort)

    def _choose(self, worker: _Worker) -> int | None:
        """As `orchestrator.placement.Placement.choose` does where all servers are sound."""
        if self.cluster.near and self._servers[worker.node].alive:
            return worker.node
        least = min(worker.loads)
        return None if least == math.inf else worker.loads.index(least)

    def _leave(self, cohort: _Cohort) -> None:
        cohort.worker.loads[cohort.server] -= len(cohort.assignments)
        cohort.server = -1

    def _prompt(self, cohort: _Cohort) -> None:
        """Ask for the next reply, the environment having answered."""
        if not cohort.worker.alive or self._is_rebuilt(cohort):
            return
        if cohort.played == cohort.turns:
            self._leave(cohort)
            seconds = self.costs.worker_episode / 2 * len(cohort.assignments)
            self.clock.after(
                self.costs.network / 2, cohort.worker.process.do, seconds, self._record, cohort
            )
            return
        spread = self.workload.spread
        seconds = self.workload.reply * self._random.uniform(1 - spread, 1 + spread)
        self._engines.reply(
            len(cohort.assignments), seconds + self.costs.network / 2, self._replied, cohort
        )

    def _replied(self, cohort: _Cohort) -> None:
        if cohort.worker.alive:
            seconds = self.costs.worker_turn * len(cohort.assignments)
            cohort.worker.process.do(seconds, self._step, cohort)

    def _step(self, cohort: _Cohort) -> None:
        if not cohort.worker.alive or self._is_rebuilt(cohort):
            return
        seconds = self.costs.server_step * len(cohort.assignments)
        process = self._servers[cohort.server].process
        self.clock.after(self.costs.network / 2, process.do, seconds, self._stepped, cohort)

    def _stepped(self, cohort: _Cohort) -> None:
        cohort.played += 1
        self._prompt(cohort)

    def _is_rebuilt(self, cohort: _Cohort) -> bool:
        """Have episodes rebuilt elsewhere if their server died; whether it did."""
        if self._servers[cohort.server].deaths == cohort.deaths:
            return False
        self._leave(cohort)
        self._rebuilt += len(cohort.assignments)
        self.clock.after(self.deaths.server_lost, self._place, cohort)
        return True

    def _record(self, cohort: _Cohort) -> None:
        """Have episodes on record: they are told of with the next message."""
        worker = cohort.worker
        if not worker.alive:
            return
        count = len(cohort.assignments)
        worker.playing.discard(cohort)
        worker.live -= count
        self._count_live(-count)
        self._recorded += count
        self._sojourns += count * (self.clock.now - cohort.began)
        share = self.workload.failures
        for assignment in cohort.assignments:
            worker.outcomes.append((assignment, self._random.random() < share))
        self._begin(worker)
        if worker.waiting or (worker.pausing and not worker.holds):
            self._answer(worker)

    # ------------------------------------------------------------------ deaths

    def _die(self, death: Death) -> None:
        """Let a node's worker and server be gone."""
        worker = self._by_node[death.node]
        if worker is None:
            return
        self._by_node[death.node] = None
        worker.alive = False
        self._count_live(-worker.live)
        loss = _Loss(self.clock.now)
        loss.turns = sum(it.played * len(it.assignments) for it in worker.playing)
        told = {assignment for assignment, _ in worker.outcomes}
        loss.held = {it.key for it in self.leases.held(worker.name) if it not in told}
        loss.waiting, loss.open = set(loss.held), set(loss.held)
        self._losses.append(loss)
        for key in loss.held:
            self._lost_keys.setdefault(key, []).append(loss)
        if not loss.held:
            loss.handed_on = loss.played = 0.0
        server = self._servers[death.node]
        server.alive = False
        server.deaths += 1
        for other in self._workers.values():
            other.loads[death.node] = math.inf
        if self.deaths.noticed is not None:
            self.clock.after(self.deaths.noticed, self._notice, worker)
        self.clock.after(self.deaths.replaced, self._replace, death.node)

    def _replace(self, node: int) -> None:
        self._servers[node].alive = True
        for worker in self._workers.values():
            # Of who has not noticed yet that its server died, the old one's episodes still count.
            placed = (len(it.assignments) for it in worker.playing if it.server == node)
            worker.loads[node] = sum(placed, start=0.0)
        self._join(node)

    def _note_granted(self, key: EpisodeKey) -> None:
        for loss in self._lost_keys.get(key, ()):
            if key in loss.waiting:
                loss.waiting.remove(key)
                if not loss.waiting:
                    loss.handed_on = self.clock.now - loss.at

    def _note_played(self, key: EpisodeKey) -> None:
        for loss in self._lost_keys.pop(key, ()):
            loss.open.remove(key)
            if not loss.open:
                loss.played = self.clock.now - loss.at

    # ------------------------------------------------------------------ figures

    def _count_live(self, change: int) -> None:
        self._live_seconds += self._live * (self.clock.now - self._counted)
        self._counted = self.clock.now
        self._live += change

    def _snapshot(self) -> dict[str, float]:
        """Return everything that is counted, as it is now."""
        self._count_live(0)
        servers = [server.process for server in self._servers]
        counted = {
            "now": self.clock.now,
            "messages": self._messages,
            "ended": self._ended,
            "given up": self._given_up,
            "rebuilt": self._rebuilt,
            "recorded": self._recorded,
            "sojourns": self._sojourns,
            "live": self._live_seconds,
            "engines": self._engines.busy,
            "engines waited": self._engines.waited,
            "engines jobs": self._engines.replies,
        }
        for name, group in (
            ("driver", [self._driver]),
            ("workers", self._processes),
            ("servers", servers),
        ):
            counted |= {f"{name} {number}": it.busy for number, it in enumerate(group)}
            counted[f"{name} waited"] = sum(it.waited for it in group)
            counted[f"{name} jobs"] = sum(it.jobs for it in group)
        return counted

    def _result(self, before: dict[str, float], after: dict[str, float]) -> Result:
        gone = {name: value - before.get(name, 0.0) for name, value in after.items()}
        seconds = gone["now"]

        def used(name: str, count: int) -> list[float]:
            return [gone[f"{name} {number}"] / seconds for number in range(count)]

        workers = used("workers", len(self._processes))
        servers = used("servers", len(self._servers))
        places = self.cluster.places
        return Result(
            seconds=seconds,
            ended=round(gone["ended"]),
            given_up=round(gone["given up"]),
            per_second=gone["ended"] / seconds,
            live=gone["live"] / seconds,
            sojourn=gone["sojourns"] / max(1.0, gone["recorded"]),
            used={
                "driver": used("driver", 1)[0],
                "workers": sum(workers) / self.cluster.nodes,
                "busiest worker": max(workers),
                "servers": sum(servers) / len(servers),
                "busiest server": max(servers),
                "engines": gone["engines"] / seconds / places if places else 0.0,
            },
            waits={
                name: gone[f"{name} waited"] / max(1.0, gone[f"{name} jobs"])
                for name in ("driver", "workers", "servers", "engines")
            },
            messages_per_second=gone["messages"] / seconds,
            rebuilt=round(gone["rebuilt"]),
            recoveries=tuple(
                Recovery(
                    held=len(loss.held),
                    handed_on=loss.handed_on,
                    played=loss.played,
                    turns_lost=loss.turns,
                )
                for loss in self._losses
            ),
        )


def simulate(
    workload: Workload,
    cluster: Cluster,
    costs: Costs,
    deaths: Deaths | None = None,
    *,
    until: float = math.inf,
    warm_up: float = 0.0,
    seed: int = 0,
) -> Result:
    """Return what comes out of a run; the arguments are those of `Simulation` and its `play`."""
    return Simulation(workload, cluster, costs, deaths, seed=seed).play(until, warm_up=warm_up)
