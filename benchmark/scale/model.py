"""What is simulated: sizes, costs, what breaks; and what comes out. Seconds unless it says so."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.leases import LeasePolicy
from orchestrator.retry import RetryPolicy

__all__ = ["Cluster", "Costs", "Death", "Deaths", "Recovery", "Result", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What the parts take of a CPU, and how long what is waited for takes."""

    driver_message: float
    """For a message, there and back."""
    driver_episode: float
    """For an episode that it hands out and takes back."""
    worker_episode: float
    """For an episode: planning, opening, closing, its durable record."""
    worker_turn: float
    """For a reply and its step."""
    server_reset: float
    server_step: float
    network: float = 0.0
    """There and back, between two processes; nobody's CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is played."""

    episodes: int
    """All in all; the simulation may be ended before."""
    turns: int
    """Of an episode, mean."""
    reply: float
    """An engine's (or a player's) seconds for a reply, mean, once it has a place."""
    spread: float = 0.0
    """Turns and replies are drawn evenly from (1 - spread) to (1 + spread) times their mean."""
    failures: float = 0.0
    """Share of the episodes that fail by no fault of their agent."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Who plays it: on each node one worker and one server."""

    nodes: int
    concurrency: int
    """Episodes that are live at once, on all workers together."""
    places: int | None = None
    """Replies that all engines together write at once; None = any number."""
    cores: int | None = None
    """Of one machine on which everything runs; None = every process has a core of its own."""
    elsewhere: float = 0.0
    """Cores of that machine that others use, on average; less than there are."""
    cohort: int = 1
    """Episodes of a worker that go through their turns together, as one."""
    near: bool = True
    """Workers prefer the server of their node; otherwise, the one on which they have the fewest."""
    joining: float = 0.0
    """Between two workers that join at the start."""
    lease: LeasePolicy = field(default_factory=LeasePolicy)


@dataclass(frozen=True, slots=True)
class Death:
    """A node's."""

    at: float
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deaths:
    """Which nodes die, and how long what follows takes."""

    of: tuple[Death, ...] = ()
    noticed: float | None = None
    """After which the driver is told of it; None = nobody tells, the lease runs out."""
    lock_freed: bool = True
    """Whether the lock of the dead worker's shard says that it writes no more; otherwise its
    episodes wait for the whole fence."""
    server_lost: float = 10.0
    """After which a worker gives a server up that does not answer, and opens its episodes
    elsewhere."""
    replaced: float = 60.0
    """After which a new node is there in place of the dead one, its worker and server ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a node's death cost."""

    held: int
    """Episodes that its worker held, and that were not on record."""
    handed_on: float
    """Until the last of them was granted to another worker; nan = not within the simulation."""
    played: float
    """Until the last of them had ended; nan = not within the simulation."""
    turns_lost: int
    """That had been played of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came out, of the time after warming up."""

    seconds: float
    ended: int
    """Episodes that came to an end."""
    given_up: int
    per_second: float
    live: float
    """Episodes that were being played, mean."""
    sojourn: float
    """Seconds for which one was played, mean of those that ended."""
    used: dict[str, float]
    """Share of their time in which they were busy: driver, workers and servers (mean and busiest
    one), engines."""
    waits: dict[str, float]
    """Seconds that a job waited for each of them, mean."""
    messages_per_second: float
    rebuilt: int
    """Episodes that went to another server in the middle."""
    recoveries: tuple[Recovery, ...] = ()
