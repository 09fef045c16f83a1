"""The client process of one measurement: closed loops over one contender's client.

Owns the loop that asks, waits for the answer, checks it and asks again; the same loop for every
client that offers `step`, so that differences in the figures are differences of the contenders.
Invariant: only answers that arrive within the window and carry their own action are counted.
Knows no contender by name and starts no server: `benchmark.load` runs this module as a process
(`python -m benchmark.drive PLAN`), reads the window from it as a line of JSON, sends an empty line
once it has sampled the process at the window's end, and reads the tally as another.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import json
import sys
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast, runtime_checkable

from agent_runtime.event_loop import raise_file_limit

__all__ = [
    "ACTION_BYTES",
    "ClosedLoop",
    "LoadClient",
    "Plan",
    "SelfDrivingClient",
    "Tally",
    "Target",
    "Window",
    "WrongAnswer",
    "drive",
    "open_each",
    "script_of",
]

ACTION_BYTES: Final = 80
"""Size of every action of the echo environment."""
PROOF_CHARACTERS: Final = 32
"""What of an action must come back; no two actions of a measurement begin alike."""
MOVES: Final = 4
"""Different actions per episode, so that an answer to an older action is noticed."""
OPENING_AT_ONCE: Final = 64
"""Episodes that are opened at the same time; opening is not measured."""
CLOSE_S: Final = 5.0
TEXTCRAFT_MOVES: Final = ("inventory", "get 1 oak log", "inventory", "get 1 cobblestone")
"""Legal actions that end no TextCraft task: goals have to be crafted."""


class WrongAnswer(Exception):
    """An observation that does not belong to the action it should answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server listens and how long a client may wait for one answer."""

    address: str
    """`127.0.0.1:<port>`, `unix:<path>`, or empty where there is no server."""
    environment: str
    request_timeout_s: float

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class Window:
    """The measured span, on the system's monotonic clock, in seconds."""

    begin: float
    end: float


@dataclass(slots=True)
class Tally:
    """What one closed loop, or several added up, saw within the window."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    """Seconds from asking to having the answer, one per step."""
    answered: int = 0
    """Episodes with at least one answer."""
    errors: Counter[str] = field(default_factory=Counter[str])
    """Episodes that ended by a failure, by its type."""
    observation_bytes: int = 0
    """Length of the last answer, in characters."""

    def add(self, other: Tally) -> None:
        """Take over what another loop saw."""
        self.latencies.extend(other.latencies)
        self.answered += other.answered
        self.errors.update(other.errors)
        self.observation_bytes = max(self.observation_bytes, other.observation_bytes)

    def as_json(self) -> dict[str, Any]:
        """Counts and nearest-rank percentiles in milliseconds; absent without any step."""
        ordered = sorted(self.latencies)
        result: dict[str, Any] = {
            "steps": len(ordered),
            "answered": self.answered,
            "errors": dict(self.errors),
            "observation_bytes": self.observation_bytes,
        }
        if ordered:
            for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)):
                rank = max(0, min(len(ordered) - 1, round(share * len(ordered)) - 1))
                result[name] = 1e3 * ordered[rank]
        return result


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """The task of a client that drives itself: play these scripts until the window ends."""

    scripts: tuple[tuple[str, ...], ...]
    """Actions per episode, repeated for ever."""
    window: Window
    echoes: bool
    """Every observation must contain the first PROOF_CHARACTERS of its action."""
    max_steps: int | None = None
    """Steps of each episode, if the window does not end first; None = any number."""

    def moves(self, episode: int) -> Iterator[str]:
        """The episode's actions, in order."""
        return itertools.islice(itertools.cycle(self.scripts[episode]), self.max_steps)

    def check(self, action: str, observation: str) -> None:
        """Raises WrongAnswer where the observation cannot be the action's."""
        if (self.echoes and action[:PROOF_CHARACTERS] not in observation) or not observation:
            raise WrongAnswer(f"{observation[:120]!r} does not answer {action!r}")

    def play(self, episode: int, step: Callable[[str], str], tally: Tally) -> None:
        """One episode's loop over a blocking `step`, for clients that use threads.

        The tally is kept up to date: it may be read while the last step is still waiting.
        """
        begin, end = self.window.begin, self.window.end
        clock = time.monotonic
        started = clock()
        try:
            for action in self.moves(episode):
                observation = step(action)
                finished = clock()
                self.check(action, observation)
                if begin <= finished < end:
                    tally.latencies.append(finished - started)
                    tally.answered = 1
                tally.observation_bytes = len(observation)
                if finished >= end:
                    break
                started = finished
        except Exception as error:  # noqa: BLE001 - boundary: a failure is a result
            if clock() < end:
                tally.errors[type(error).__name__] += 1


class _Opens(Protocol):
    async def open(self, episodes: int) -> None:
        """Connect and reset episodes 0 .. episodes - 1; not measured."""

    async def close(self) -> None:
        """Release connections."""


class LoadClient(_Opens, Protocol):
    """A client that the common loop drives, one coroutine per episode.

    Built as `Client(target, **options)` inside the running event loop's process.
    """

    async def step(self, episode: int, action: str) -> str:
        """The observation that answers the action. Must wait at least once for the event loop."""
        ...


@runtime_checkable
class SelfDrivingClient(_Opens, Protocol):
    """A client with a closed loop of its own: threads, vectors of actions, no server at all."""

    async def run_closed_loop(self, loop: ClosedLoop) -> Tally:
        """Play every episode until the window ends, each step after its answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything the client process has to know; travels as one JSON argument."""

    client: str
    """`module:Class`."""
    address: str
    environment: str
    loop: str
    """`asyncio` or `uvloop`."""
    options: Mapping[str, Any]
    episodes: int
    warmup_s: float
    seconds: float
    max_steps: int | None
    open_timeout_s: float
    request_timeout_s: float


def script_of(environment: str, episode: int) -> tuple[str, ...]:
    """The actions that an episode repeats: of ACTION_BYTES and unique, for the echo environment."""
    if environment == "textcraft":
        return TEXTCRAFT_MOVES
    texts = (f"move {move} of episode {episode} " for move in range(MOVES))
    return tuple(text.ljust(ACTION_BYTES, "-") for text in texts)


async def open_each(episodes: int, open_one: Callable[[int], Awaitable[None]]) -> None:
    """Open every episode, OPENING_AT_ONCE together; the first failure is raised."""
    waiting = iter(range(episodes))

    async def work() -> None:
        for episode in waiting:
            await open_one(episode)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(episodes, OPENING_AT_ONCE)):
            group.create_task(work())


async def _play(client: LoadClient, loop: ClosedLoop, episode: int, tally: Tally) -> None:
    """The common loop. Its own cost, about half a microsecond a step, is everybody's."""
    begin, end = loop.window.begin, loop.window.end
    step, clock, check, record = client.step, time.monotonic, loop.check, tally.latencies.append
    counted, observation = False, ""
    started = clock()
    try:
        for action in loop.moves(episode):
            observation = await step(episode, action)
            finished = clock()
            check(action, observation)
            if begin <= finished < end:
                record(finished - started)
                counted = True
            elif finished >= end:
                break
            started = finished
    except Exception as error:  # noqa: BLE001 - boundary: a contender's failure is a result
        if clock() < end:
            tally.errors[type(error).__name__] += 1
    finally:
        tally.answered += counted
        tally.observation_bytes = max(tally.observation_bytes, len(observation))


async def drive(client: LoadClient | SelfDrivingClient, loop: ClosedLoop) -> Tally:
    """Play all episodes until the window ends; the client is open, and stays so."""
    if isinstance(client, SelfDrivingClient):
        return await client.run_closed_loop(loop)
    client = cast("LoadClient", client)
    tally = Tally()
    tasks = [
        asyncio.create_task(_play(client, loop, episode, tally))
        for episode in range(len(loop.scripts))
    ]
    # Steps that are still unanswered when the window closes count for nothing: do not wait.
    await asyncio.wait(tasks, timeout=max(0.0, loop.window.end - time.monotonic()) + 0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tally


def _build(plan: Plan) -> LoadClient | SelfDrivingClient:
    module, _, name = plan.client.partition(":")
    make = getattr(importlib.import_module(module), name)
    return make(Target(plan.address, plan.environment, plan.request_timeout_s), **plan.options)


def _tell(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def _run(plan: Plan) -> None:
    client = _build(plan)
    started = time.monotonic()
    async with asyncio.timeout(plan.open_timeout_s):
        await client.open(plan.episodes)
    # What exists by now lives to the end: keep the collector from walking through it.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    opened = time.monotonic()
    window = Window(opened + plan.warmup_s, opened + plan.warmup_s + plan.seconds)
    _tell(open_s=opened - started, begin=window.begin, end=window.end)
    scripts = tuple(script_of(plan.environment, episode) for episode in range(plan.episodes))
    loop = ClosedLoop(scripts, window, plan.environment == "echo", plan.max_steps)
    tally = await drive(client, loop)
    # Stay as it is until the frame has read this process's CPU time and memory.
    sys.stdin.readline()
    _tell(tally=tally.as_json())
    async with asyncio.timeout(CLOSE_S):
        await client.close()


def main() -> None:
    """Run the plan given as the only argument."""
    plan = Plan(**json.loads(sys.argv[1]))
    raise_file_limit()
    factory = None
    if plan.loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_run(plan))


if __name__ == "__main__":
    main()
