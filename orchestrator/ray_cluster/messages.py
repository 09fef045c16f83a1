"""What the driver of a run on a Ray cluster and its workers say to each other.

Ray carries these by pickle within its cluster: whoever can speak there can run code there anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent_runtime.agent import EpisodePlan
from agent_runtime.policies import PolicySpec
from agent_runtime.request_retry import RequestCounts
from agent_runtime.spending import Spent
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.config import RunConfig
from orchestrator.discovery import Member
from orchestrator.manifest import Manifest, Session
from orchestrator.progress import EpisodeCounts
from orchestrator.records import EpisodeKey
from orchestrator.retry import Failure
from orchestrator.scheduler import Assignment

__all__ = [
    "Introduction",
    "Orders",
    "Outcome",
    "Planner",
    "Problem",
    "Report",
    "RunPart",
    "Spending",
    "Welcome",
]

Planner = Callable[[Assignment], EpisodePlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """One of the runs that are played together, as a worker needs to know it."""

    config: RunConfig
    folder: Path
    """Of the run; the worker's records are in a shard of its own there."""
    manifest: Manifest
    tasks: Mapping[str, list[pb.TaskSummary]]
    planner: Planner | None = None
    """Says what is played for an assignment; travels to the worker. None = as `config` says."""
    tells_records: bool = False
    """Whether reports bring records whole: their reader cannot wait until the shards, which grow on
    other machines, may be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What a worker is told when it starts."""

    name: str
    node: str
    """Where it is: servers there are preferred."""
    runs: tuple[RunPart, ...]
    policies: Mapping[str, PolicySpec]
    """What to play, by the names that records give."""
    workers: int
    """How many share what a run may send to model servers."""
    members: tuple[Member, ...] | None
    """The servers of now; None = the run itself names where they are."""
    token: str = field(repr=False)
    """Opens the servers; empty = they ask for none, or for that of the worker's own environment."""
    lease: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a worker says when it is ready."""

    pid: int
    session: Session
    """Its machine and its code."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is installed there (`installation.installed_versions`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a worker is told each time that it is asked; renews its lease."""

    grants: tuple[Assignment, ...] = ()
    slots: int = 1
    """Episodes that it may have live at once."""
    members: tuple[Member, ...] | None = None
    """The servers of now; None = as before."""
    rest: float = 0.05
    """Seconds before it answers at the earliest."""
    pause: float = 0.05
    """Seconds before it answers while it has something left to play: what ends in them is told in
    one message."""
    patience: float = 5.0
    """Seconds after which it answers at the latest."""
    weights: str = ""
    """Version of the weights that model servers were given, by others; empty = as before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An episode that was played and is on record."""

    assignment: Assignment
    counts: EpisodeCounts
    failure: Failure | None
    """None = it ended without one, whatever its reward."""
    record: bytes = field(default=b"", repr=False)
    """The whole, as stores keep it, where its run `tells_records`."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What replies of one key cost since the last report."""

    key: EpisodeKey
    spent: Spent
    priced: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a worker plays nothing more."""

    kind: Literal["usage", "policy", "fleet", "store", "defect"]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker answers."""

    outcomes: tuple[Outcome, ...] = ()
    spending: tuple[Spending, ...] = ()
    live: int = 0
    """Episodes that are being played now."""
    live_steps: int = 0
    outage: str = ""
    """What holds its policies up, in words; empty = nothing."""
    requests: Mapping[str, RequestCounts] = field(default_factory=dict[str, RequestCounts])
    """How its requests to model servers fared so far, by policy."""
    problem: Problem | None = None
