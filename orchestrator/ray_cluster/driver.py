"""The driver of a run on a cluster: hands episodes out by lease, takes in what became of them.

It plays nothing itself. Each worker is asked again and again, by one message that grants what it
has room for, renews its lease and brings back all that ended meanwhile. Which episode is next the
scheduler says, who holds it `orchestrator.leases`, how many a worker gets `rations`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from agent_runtime.errors import PolicyUnavailable
from agent_runtime.logs import get_logger
from agent_runtime.request_retry import RequestCounts
from agent_runtime.spawned_server import RestartBackoff
from agent_runtime.supervision import Supervisor
from orchestrator.discovery import Member, ToldSource
from orchestrator.errors import ClusterError, StoreWriteFailed, UsageError
from orchestrator.fleet import Fleet
from orchestrator.leases import LeasePolicy, Leases
from orchestrator.ray_cluster.actors import Actor, ActorLost
from orchestrator.ray_cluster.installation import describe_differences
from orchestrator.ray_cluster.messages import (
    Introduction,
    Orders,
    Outcome,
    Problem,
    Report,
    Welcome,
)
from orchestrator.ray_cluster.placement import Node, Slot
from orchestrator.ray_cluster.rations import Rations
from orchestrator.ray_cluster.worker import to_outcome
from orchestrator.retry import GiveUp
from orchestrator.run_folder import is_written, shard_folder
from orchestrator.run_limits import RunAccount
from orchestrator.scheduler import Assignment, Scheduler
from orchestrator.store import RunReader, RunStore

__all__ = ["RolloutDriver", "Staffing"]

log = get_logger(__name__)

_LOOK_SECONDS: Final = 0.2
"""Between two looks at limits, at leases, and at the lock of a worker that is gone."""
_START_SECONDS: Final = 60.0
"""After which people are told that a worker is not there yet."""
_END_SECONDS: Final = 30.0
"""For which workers may take to end in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staffing:
    """How a driver gets its workers."""

    hire: Callable[[Slot], Actor]
    """Gives a process of a slot in which nobody works (`worker.WorkerProcess`)."""
    welcome: Callable[[str, Slot], Welcome]
    """Says what the worker of a name in a slot is told."""
    release: Callable[[Slot, Actor], None]
    """Takes back the process of a worker that has ended in order."""
    stores: Sequence[RunStore]
    """Of the runs that are played; each worker has a shard of each."""
    versions: Mapping[str, str]
    """What is installed here: a worker has to have the same versions."""
    concurrency: int
    """Episodes that are live at once, on all workers together."""
    source: ToldSource | None
    """Lists the servers that were started for the run; None = workers find those they are told."""
    patience: float
    """Seconds that are waited for a node where none is left."""
    session: int
    """Number of the run's session, from 1: names of workers are never used twice."""


@dataclass(slots=True)
class _Seat:
    """A worker that is at work."""

    name: str
    slot: Slot
    actor: Actor
    told: Sequence[Member] | None = None
    """The servers that it knows of."""
    weights: str = ""
    """The version of the weights that it knows of."""
    live: int = 0
    live_steps: int = 0
    outage: str = ""
    requests: Mapping[str, RequestCounts] = field(default_factory=dict[str, RequestCounts])


class RolloutDriver:
    """Runs a scheduler's episodes on workers: of one that ends, or of an endless one until `stop`.

    Whoever adds keys to an endless one says so by `wake`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        fleet: Fleet,
        staffing: Staffing,
        on_outcome: Callable[[Outcome], None],
        *,
        account: RunAccount,
        on_limit: Callable[[str], None],
        tell: Callable[[str], None],
        leases: LeasePolicy,
    ) -> None:
        """Describe the work; `want` says where workers belong, and `run` does the work.

        Args:
            scheduler: Says which episode is next, and what follows a failure.
            fleet: Knows how many episodes the servers take; none are played by it.
            staffing: How workers are had.
            on_outcome: Sees what became of every episode, once its record is stored.
            account: What may be spent, and what was.
            on_limit: Is told once, in words, that a limit was reached.
            tell: Is told in a sentence what happens to workers.
            leases: How long a worker is trusted.
        """
        self.scheduler = scheduler
        self.on_live: Callable[[int], None] = lambda _live: None
        """Is told how many episodes are live, whenever workers have said so."""
        self._weights = ""
        self._fleet = fleet
        self._staffing = staffing
        self._on_outcome = on_outcome
        self._account = account
        self._on_limit = on_limit
        self._tell = tell
        self._leases = Leases(leases)
        self._rations = Rations(scheduler, self._leases, staffing.concurrency)
        self._seats: dict[str, _Seat] = {}
        self._slots: dict[Slot, asyncio.Task[None]] = {}
        self._leaving: dict[Slot, asyncio.Task[None]] = {}
        """Slots on draining nodes whose workers end what they hold."""
        self._given_up: dict[Slot, Exception] = {}
        self._names = 0
        self._staffed = False
        """Whether a worker has started."""
        self._ended: dict[str, list[RequestCounts]] = {}
        """How requests of workers fared that are gone, by policy."""
        self._started = 0.0
        self._grace_ends: float | None = None
        self._deserted: float | None = None
        """Since when no node has had room; None = some have."""
        self._closing = False
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()
        self._background = Supervisor()

    # ------------------------------------------------------------------ what is shown

    @property
    def live(self) -> int:
        """Episodes that are being played now, as the workers last said."""
        return sum(seat.live for seat in self._seats.values())

    @property
    def live_steps(self) -> int:
        """Steps of the episodes that are being played now, as the workers last said."""
        return sum(seat.live_steps for seat in self._seats.values())

    @property
    def workers(self) -> int:
        """Workers that hold a lease and take something."""
        return self._leases.at_work

    def describe_outages(self) -> str:
        """Say what holds policies up; empty = nothing."""
        return next((seat.outage for seat in self._seats.values() if seat.outage), "")

    def request_counts(self) -> dict[str, RequestCounts]:
        """Return how the requests of all workers fared, by policy."""
        counts = {name: list(ended) for name, ended in self._ended.items()}
        for seat in self._seats.values():
            for name, count in seat.requests.items():
                counts.setdefault(name, []).append(count)
        return {name: _add_up(those) for name, those in counts.items()}

    # ------------------------------------------------------------------ orders from outside

    def want(self, slots: Sequence[Slot], draining: Collection[Node] = ()) -> None:
        """Have a worker in each of these slots, and in no other.

        Those on draining nodes end what they hold and go; the others' nodes are gone.
        """
        for slot in slots:
            if not (slot in self._slots or slot in self._leaving or self._closing):
                name = f"worker {slot.number} on {slot.node.host}"
                self._slots[slot] = self._background.start(
                    self._keep(slot), name, on_failure=self.fail
                )
        for slot in self._slots.keys() - set(slots):
            task = self._slots.pop(slot)
            self._given_up.pop(slot, None)
            if slot.node in draining:
                self._retire(slot, task)
            else:
                self._abandon(slot, task)
        for slot in [it for it in self._leaving if it not in slots and it.node not in draining]:
            self._abandon(slot, self._leaving.pop(slot))

    def _retire(self, slot: Slot, task: asyncio.Task[None]) -> None:
        """Let the worker of a slot go when it has ended what it holds."""
        seats = [
            seat
            for seat in self._seats.values()
            if seat.slot == slot and self._leases.takes(seat.name)
        ]
        if not seats:  # it has none yet
            task.cancel()
            return
        self._leaving[slot] = task
        task.add_done_callback(lambda _task: self._leaving.pop(slot, None))
        for seat in seats:
            held = self._leases.load(seat.name)
            self._leases.retire(seat.name)
            log.info("worker retires", worker=seat.name, node=slot.node.id, held=held)
            self._tell(f"{slot.node.host} drains; {seat.name} ends its {held} episodes and goes")

    def _abandon(self, slot: Slot, task: asyncio.Task[None]) -> None:
        """Miss what was in a slot: its node is gone."""
        task.cancel()
        for seat in [it for it in self._seats.values() if it.slot == slot]:
            self._lose(seat, "its node has left the cluster")

    def wake(self) -> None:
        """Look at the scheduler now: keys were added. Workers with room for them are asked."""
        self._changed.set()
        for name in self._rations.with_room()[: self.scheduler.pending]:
            self._hurry(name)

    def tell_weights(self, version: str) -> None:
        """Tell all workers, soon, and those to come what version model servers were given."""
        self._weights = version
        for name in self._leases.workers:
            self._hurry(name)

    def _hurry(self, name: str) -> None:
        """Have a worker answer now what it may take seconds for."""

        async def call(actor: Actor) -> None:
            with suppress(ActorLost):  # whoever attends to it is told, too
                await actor.call("hurry")

        self._background.start(call(self._seats[name].actor), f"hurry {name}")

    def stop(self) -> None:
        """Start nothing more and give up what is live; finished records stay."""
        self.scheduler.drain()
        self._closing = True
        self._changed.set()

    def fail(self, error: BaseException) -> None:
        """Stop as `stop` does, and let `run` raise the error: nothing can be played any more."""
        self._failure = self._failure or error
        self.stop()

    async def run(self) -> None:
        """Have everything played until nothing is left to wait for, or a limit is reached.

        Raises:
            ClusterError: No worker is left that can play.
            FleetError: No environment server is left.
            PolicyUnavailable: A policy's server was down for longer than requests wait.
            StoreWriteFailed: The disk or the database of a worker takes no more records.
        """
        self._started = time.monotonic()
        try:
            with self._fleet.followed(self._follow_capacities, self.fail):
                await self._watch()
                await self._close()
        finally:
            await self._background.close()
            for seat in self._seats.values():
                seat.actor.kill()
        if self._failure is not None:
            raise self._failure

    async def _watch(self) -> None:
        """Keep limits and leases while workers play, until nothing is left or the run is ended."""
        looked = -math.inf
        while not (self._closing or self.scheduler.done):
            self._keep_limits()
            if (now := time.monotonic()) >= looked + _LOOK_SECONDS:
                looked = now  # not at each report: all workers are looked at
                self._end_silent(now)
                self._miss_nodes(now)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()

    def _follow_capacities(self) -> None:
        """Let as many episodes be out as the servers of now take."""
        capacities = {name: max(1, it) for name, it in self._fleet.capacities().items()}
        self._rations.capacity = sum(capacities.values())
        self.scheduler.limits = replace(self.scheduler.limits, per_environment=capacities)

    def _keep_limits(self) -> None:
        now = time.monotonic()
        if self._grace_ends is not None:
            if now >= self._grace_ends:
                log.warning("live episodes given up", live=self.live)
                self.stop()
            return
        limit = self._account.reached(now - self._started)
        if limit and not self.scheduler.draining:
            self._grace_ends = now + self._account.limits.limit_grace
            log.warning("limit reached", limit=limit, live=self.live)
            self.scheduler.drain()
            self._on_limit(limit)

    # ------------------------------------------------------------------ workers come and go

    async def _keep(self, slot: Slot) -> None:
        """Have a worker in a slot, and another one after it where it is lost."""
        backoff = RestartBackoff()
        while not self._closing:
            began = time.monotonic()
            problem = await self._employ(slot)
            if slot in self._leaving:
                return
            delay = backoff.next_delay(time.monotonic() - began) if problem is None else None
            if delay is None:
                self._give_up(slot, problem or ClusterError("its workers die one after another"))
                return
            await asyncio.sleep(delay)

    def _give_up(self, slot: Slot, problem: Exception) -> None:
        """Go on without a slot; without any, end the run."""
        log.error("slot given up", node=slot.node.host, number=slot.number, error=str(problem))
        self._tell(f"no worker on {slot.node.host} any more: {problem}")
        self._given_up[slot] = problem
        if all(it in self._given_up for it in self._slots):
            self.fail(problem)

    async def _employ(self, slot: Slot) -> Exception | None:
        """Start a worker and attend to it until it is gone; returns why none can work there."""
        self._names += 1
        name = f"s{self._staffing.session}-w{self._names}"
        actor = self._staffing.hire(slot)
        seated = False
        try:
            said = await self._start(actor, name, slot)
            problem = said if isinstance(said, Problem) else self._code_problem(said)
            if problem is not None:
                log.warning("worker did not start", worker=name, problem=problem.message)
                return None if self._may_pass(problem) else _to_error(problem)
            log.info("worker joins", worker=name, node=slot.node.id)
            for store in self._staffing.stores:
                store.note_shards([name])
            seat = self._seats[name] = _Seat(name, slot, actor)
            seated = True
            self._leases.join(name, time.monotonic())
            self._staffed = True
            await self._attend(seat)
        except ActorLost as error:
            if name in self._seats:
                self._lose(self._seats[name], str(error))
            elif not self._closing:
                log.warning("worker did not start", worker=name, error=str(error))
                self._tell(f"a worker on {slot.node.host} did not start: {error}")
        finally:
            if not seated:
                actor.kill()
        return None

    def _may_pass(self, problem: Problem) -> bool:
        """Whether what kept a worker from starting may be over soon.

        Servers may be on their way back, as a model server that workers have reached before; one
        that none has reached is at an address that nodes do not see. Whatever else is wrong stays.
        """
        return problem.kind == "fleet" or (problem.kind == "policy" and self._staffed)

    async def _start(self, actor: Actor, name: str, slot: Slot) -> Introduction | Problem:
        """Start a worker; say so where that takes long, because Ray waits for room for ever."""
        text = (
            f"still waiting for a worker on {slot.node.host} to start: `ray status` tells whether "
            "others hold its CPU"
        )
        telling = asyncio.get_running_loop().call_later(_START_SECONDS, self._tell, text)
        try:
            return await actor.call("start", self._staffing.welcome(name, slot))
        finally:
            telling.cancel()

    def _code_problem(self, said: Introduction) -> Problem | None:
        """Return what of a worker's code and libraries is another than the driver's."""
        other = describe_differences(said.versions, self._staffing.versions)
        if not other:
            return None
        host = said.session.machine["host"]
        return Problem("usage", f"node {host} has {other}: install the same on every node")

    async def _attend(self, seat: _Seat) -> None:
        """Ask a worker again and again, until it is lost, has retired, or the run ends."""
        while not self._closing:
            if self._leases.retired(seat.name):
                await self._see_off(seat)
                return
            report: Report = await seat.actor.call("exchange", self._orders(seat))
            known = self._leases.renew(seat.name, time.monotonic())
            self._take(seat, report)
            if not known:
                return
            if report.problem is not None:
                if report.problem.kind != "fleet":
                    self.fail(_to_error(report.problem))
                self._lose(seat, report.problem.message)
                return

    def _orders(self, seat: _Seat) -> Orders:
        """Return what to tell a worker now."""
        due = self._rations.next(seat.name, time.monotonic())
        members = self._members()
        told, seat.told = seat.told, members
        known, seat.weights = seat.weights, self._weights
        return Orders(
            grants=due.grants,
            slots=due.slots,
            rest=due.rest,
            members=None if told == members else members,
            pause=due.pause,
            patience=due.patience,
            weights="" if known == self._weights else self._weights,
        )

    def _members(self) -> tuple[Member, ...] | None:
        source = self._staffing.source
        return None if source is None else tuple(source.members)

    def _lose(self, seat: _Seat, reason: str) -> None:
        """Note that a worker is gone, or is to go; what it holds waits until that is certain."""
        if not self._leases.lose(seat.name, time.monotonic()):
            return
        self._bury(seat, reason)

    def _end_silent(self, now: float) -> None:
        for name in self._leases.silent(now):
            self._bury(self._seats[name], "it is silent")

    def _miss_nodes(self, now: float) -> None:
        """End the run where no node has had room for a worker for long."""
        if self._slots or self._leaving:
            self._deserted = None
            return
        if self._deserted is None:
            self._deserted = now
            self._tell("no node of the cluster has room for a worker; waiting for one")
        elif now - self._deserted > self._staffing.patience:
            self.fail(
                ClusterError(
                    f"no node has had room for a worker for {self._staffing.patience:g} s; all "
                    "finished episodes are kept: resume the run when there are some"
                )
            )

    def _bury(self, seat: _Seat, reason: str) -> None:
        self._rations.forget(seat.name)
        held = self._leases.load(seat.name)
        log.warning(
            "worker lost", worker=seat.name, node=seat.slot.node.host, held=held, reason=reason
        )
        self._tell(f"{seat.name} on {seat.slot.node.host} is lost with {held} episodes: {reason}")
        seat.actor.kill()
        self._background.start(self._fence(seat), f"fence {seat.name}", on_failure=self.fail)

    async def _fence(self, seat: _Seat) -> None:
        """Hand back what a lost worker held, but what it has on record, once it writes no more."""
        shards = self._shards(seat.name)
        while any(map(is_written, shards)):
            if seat.name in self._leases.overdue(time.monotonic()):
                log.error("worker may still write", worker=seat.name)
                break
            await asyncio.sleep(_LOOK_SECONDS)
        held = self._leases.held(seat.name)
        recorded = await asyncio.to_thread(_read_outcomes, shards, held)
        self._settle(seat, recorded)
        for assignment in self._leases.release(seat.name):
            self.scheduler.cancelled(assignment.key)
        self._remove(seat)

    def _shards(self, name: str) -> list[Path]:
        return [shard_folder(store.folder, name) for store in self._staffing.stores]

    def _remove(self, seat: _Seat) -> None:
        del self._seats[seat.name]
        self._rations.forget(seat.name)
        for name, count in seat.requests.items():
            self._ended.setdefault(name, []).append(count)
        self.on_live(self.live)
        self._changed.set()

    # ------------------------------------------------------------------ what workers say

    def _take(self, seat: _Seat, report: Report) -> None:
        """Take in what a worker reports."""
        seat.live, seat.live_steps = report.live, report.live_steps
        seat.outage, seat.requests = report.outage, report.requests
        self._rations.note(seat.name, ended=len(report.outcomes), live=report.live)
        for spending in report.spending:
            self._account.add(spending.key, spending.spent, priced=spending.priced)
        self.on_live(self.live)
        self._settle(seat, report.outcomes)
        if report.outcomes:
            self._changed.set()

    def _settle(self, seat: _Seat, outcomes: Iterable[Outcome]) -> None:
        """Tell the scheduler what became of episodes; one of a lost lease is another's by now."""
        for outcome in outcomes:
            key = outcome.assignment.key
            if not self._leases.settle(seat.name, outcome.assignment):
                log.warning("late record", worker=seat.name, key=str(key))
                continue
            self._account.recorded(key)
            if outcome.failure is None:
                self.scheduler.succeeded(key)
            else:
                decision = self.scheduler.failed(key, outcome.failure, time.monotonic())
                given_up = isinstance(decision, GiveUp)
                log.info(
                    "episode given up" if given_up else "episode will be retried",
                    key=str(key),
                    reason=outcome.failure.reason,
                    worker=seat.name,
                )
            self._on_outcome(outcome)

    # ------------------------------------------------------------------ the end

    async def _close(self) -> None:
        """End all workers in order; what they did not finish stays pending."""
        self._closing = True
        at_work = [self._seats[name] for name in self._leases.workers]
        await asyncio.gather(*map(self._dismiss, at_work))
        lost = [self._seats[name] for name in self._leases.lost if name in self._seats]
        for seat in lost:  # their records are found by a resume, if not by those who fence them
            for assignment in self._leases.release(seat.name):
                self.scheduler.cancelled(assignment.key)
            del self._seats[seat.name]

    async def _see_off(self, seat: _Seat) -> None:
        """End a worker that has retired."""
        log.info("worker leaves", worker=seat.name)
        self._leases.leave(seat.name)
        try:
            await self._end(seat)
        finally:
            self._remove(seat)
            seat.actor.kill()

    async def _end(self, seat: _Seat) -> bool:
        """Let a worker end, and take in what it says at last; returns whether it was in order."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                report: Report = await seat.actor.call("close")
        except (ActorLost, TimeoutError) as error:
            log.warning("worker did not end in order", worker=seat.name, error=repr(error))
            return False
        self._take(seat, report)
        return report.problem is None

    async def _dismiss(self, seat: _Seat) -> None:
        in_order = await self._end(seat)
        self._leases.lose(seat.name, time.monotonic())
        for assignment in self._leases.release(seat.name):
            self.scheduler.cancelled(assignment.key)
        self._remove(seat)
        if in_order:
            self._staffing.release(seat.slot, seat.actor)
        else:
            seat.actor.kill()


def _read_outcomes(shards: Sequence[Path], held: Collection[Assignment]) -> list[Outcome]:
    """Return those of some episodes that are on record in a worker's shards."""
    found: list[Outcome] = []
    for shard in shards:
        with RunReader.open(shard) as reader:
            records = (reader.get(assignment.key) for assignment in held)
            found += [to_outcome(it, whole=True) for it in records if it is not None]
    # An earlier attempt may be on record, of an episode that is played again.
    return [outcome for outcome in found if outcome.assignment in held]


def _add_up(counts: Sequence[RequestCounts]) -> RequestCounts:
    return RequestCounts(
        limit=sum(count.limit for count in counts),
        answered=sum(count.answered for count in counts),
        resent=sum((count.resent for count in counts), Counter[str]()),
        given_up=sum(count.given_up for count in counts),
        from_cache=sum(count.from_cache for count in counts),
    )


def _to_error(problem: Problem) -> Exception:
    match problem.kind:
        case "usage":
            return UsageError(problem.message)
        case "policy":
            return PolicyUnavailable(problem.message)
        case "store":
            return StoreWriteFailed(problem.message)
        case "fleet" | "defect":
            return ClusterError(problem.message)
