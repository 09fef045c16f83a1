"""What AgentGym's servers have in common: ids, tasks by number, one request of an id at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import orjson

from agent_runtime.episode import Transition
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.gateways.agentgym.requests import RawHeaders
from env_servers.gateways.backend import Backend, HeldEpisode
from env_servers.gateways.errors import GatewayError
from env_servers.gateways.leases import Lease, Leases

__all__ = [
    "JSON",
    "Answer",
    "HttpEnvironment",
    "NotScored",
    "Numbering",
    "Route",
    "Slot",
    "SlotLease",
    "Unknown",
    "earned",
    "json_answer",
    "plain_number",
]

JSON: Final = b"application/json"
_TEXT: Final = b"text/plain; charset=utf-8"
_SAFE: Final = 2**53


class Unknown(GatewayError):
    """When a number names no task, or nothing."""

    status = 404
    reason = "UNKNOWN_ITEM"


class NotScored(GatewayError):
    """When an environment tells no reward for a step."""

    status = 502
    reason = "NOT_SCORED"


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: bytes = JSON


def json_answer(value: Any, status: int = 200) -> Answer:
    """Return a value as JSON."""
    return Answer(status, orjson.dumps(value))


Read = Callable[[RawHeaders, bytes, bytes], Any]
"""Reads headers, query and body; raises `Unreadable`."""


class Route(NamedTuple):
    """What answers a method of a path."""

    method: str
    path: str
    answer: Callable[[Any], Awaitable[Answer]]
    read: Read | None = None
    """What the answer is made from; None = nothing that was sent."""


@dataclass(slots=True)
class Slot:
    """One environment of a client: created once, reset as often as it likes."""

    episode: HeldEpisode | None = None
    """None = not reset yet, or lapsed."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the environment's replies need beside the episode, since the last reset."""
    reward: float = 0
    """All rewards since the last reset."""

    def close(self) -> None:
        """End the episode."""
        episode, self.episode = self.episode, None
        if episode is not None:
            episode.close()


SlotLease = Lease[Slot]


@dataclass(frozen=True, slots=True)
class Numbering:
    """Which tasks the numbers mean that clients send."""

    split: str = ""
    """Numbers count its tasks, modulo their number; empty = they are the original's."""
    size: int = 0
    """Tasks of the split."""

    @classmethod
    def choose(cls, described: pb.GetEnvironmentResponse, split: str) -> Numbering:
        """Return the numbering that is asked for, or the one for which there are tasks.

        Args:
            described: What the servers say of the environment.
            split: The split to count; empty = the original's tasks where they are there, else the
                first split that has any.

        Raises:
            Unknown: There is no such split, or no task at all.
        """
        sizes = {it.name: it.size for it in described.splits if it.size}
        if split and split not in sizes:
            raise Unknown(
                f"{described.name} has no tasks in a split {split!r}; it has {', '.join(sizes)}"
            )
        if not split and any(name.startswith("official") for name in sizes):
            return cls()
        if not sizes:
            raise Unknown(f"{described.name} has no tasks; give --data")
        name = split or next(iter(sizes))
        return cls(name, sizes[name])


class HttpEnvironment(ABC):
    """One environment as its original serves it."""

    kind: ClassVar[str]
    """Name of the environment here."""
    greeting: ClassVar[str]
    """What `GET /` says."""
    official_prefix: ClassVar[str] = ""
    """Of the original's item ids; empty = the environment's name."""
    official_count: ClassVar[int] = 0
    """Tasks of the original; 0 = numbers are taken as they are."""
    reset_options: ClassVar[Mapping[str, Any]] = {}
    """What every reset asks for, so that observations are those of the original's server."""

    def __init__(self, backend: Backend, *, split: str, idle_limit: float) -> None:
        """Answer from a backend.

        Args:
            backend: Has the environment.
            split: See `Numbering.choose`.
            idle_limit: Seconds without a request after which an episode is closed.

        Raises:
            Unknown: As `Numbering.choose`.
        """
        self.backend = backend
        self.numbering = Numbering.choose(backend.environments[self.kind], split)
        self.slots: Leases[Slot] = Leases(idle_limit)

    @abstractmethod
    def routes(self) -> Sequence[Route]:
        """Return what is answered, below the environment's prefix."""

    def numbers(self) -> str:
        """Return in words which tasks the numbers are that clients send."""
        numbering = self.numbering
        if numbering.split:
            return f"numbers count the {numbering.size:,} tasks of the split {numbering.split}"
        return f"numbers are the original's ({self.official_prefix or self.kind}_N)"

    async def greet(self, _: object) -> Answer:
        """Answer `GET /`."""
        return json_answer(self.greeting)

    async def item(self, number: int) -> str:
        """Return the item id that a number means; raises Unknown, AgentRuntimeError."""
        numbering = self.numbering
        if numbering.split:
            place = number % numbering.size
            return await self.backend.item_at(self.kind, numbering.split, place)
        number = self.official_number(number)
        if number < 0:
            raise Unknown(f"{self.kind} has no task {number}")
        return f"{self.official_prefix or self.kind}_{number}"

    def official_number(self, number: int) -> int:
        """Return the original's task of a number, which counts from the end where it is negative.

        Raises Unknown beyond either end: `list index out of range`, as the original says.
        """
        if not self.official_count:
            return number
        if not -self.official_count <= number < self.official_count:
            raise Unknown("list index out of range")
        return number % self.official_count

    def options(self, number: int) -> Mapping[str, Any]:
        """Return the options of a reset."""
        return self.reset_options

    async def open(self, slot: Slot, number: int) -> Transition:
        """Reset a slot to a task: another episode in place of the one that it had.

        The old one is closed first, so that a full server has room. Raises Unknown, GatewayError,
        AgentRuntimeError; the slot is without an episode then.
        """
        item = await self.item(number)
        slot.close()
        slot.facts.clear()
        slot.reward = 0
        slot.episode = await self.backend.open(self.kind, item, options=self.options(number))
        slot.facts["number"] = number
        slot.facts["item"] = item
        return slot.episode.last


def earned(last: Transition) -> float:
    """Return the reward of a step; raises NotScored where the server tells none.

    The originals' replies have no word for that, and 0 would be a lie.
    """
    if last.reward is None:
        raise NotScored(f"step {last.seq} was played, and its environment tells no reward for it")
    return last.reward


def plain_number(value: float | None) -> float:
    """Return a reward or score as the originals write it: whole numbers without a fraction.

    None is one that a reset does not tell, for which the originals say 0.
    """
    if value is None:
        return 0
    whole = int(value) if abs(value) < _SAFE else value
    return whole if whole == value else value
