"""What a run planned to play, and how its last session ended, as its store keeps both.

With the plan a reader knows what is missing; without a recorded end it knows that a session was
killed or is still going on. Both are None for runs that were written before they were recorded.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.records import EpisodeKey
from orchestrator.scheduler import EnvironmentPlan, work_items

__all__ = ["RunPlan", "SessionEnd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything that a run is to play."""

    items: Mapping[str, tuple[str, ...]]
    """Item ids by environment, in the order in which they are played."""
    samples: int
    policies: tuple[str, ...]
    environment_samples: Mapping[str, int] = field(default_factory=dict[str, int])
    """Where it is another number than `samples`."""
    perfect_scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Score of a perfect episode by environment; 1 where it is not recorded."""
    gaps: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the run's suite has and is not played, by environment: why, and what to do. One that
    has items is played in part."""

    def keys(self) -> list[EpisodeKey]:
        """Return every key of the run; raises UsageError where one would be played twice."""
        plans = [
            EnvironmentPlan(
                environment=name,
                item_ids=item_ids,
                samples=self.environment_samples.get(name, self.samples),
            )
            for name, item_ids in self.items.items()
        ]
        return work_items(plans, policies=self.policies)

    def to_json(self) -> str:
        """Return the plan as it is stored."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunPlan:
        """Return the plan of a stored text; raises ValueError, KeyError, TypeError."""
        values = json.loads(text)
        return cls(
            items={name: tuple(item_ids) for name, item_ids in values["items"].items()},
            samples=int(values["samples"]),
            policies=tuple(values["policies"]),
            environment_samples=dict(values.get("environment_samples", {})),
            perfect_scores=dict(values.get("perfect_scores", {})),
            gaps=dict(values.get("gaps", {})),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """How a session ended that was not killed."""

    interrupted: bool
    """Somebody stopped it."""
    given_up: Mapping[str, int] = field(default_factory=dict[str, int])
    """Episodes that were not played again, by why: names of `orchestrator.retry.GiveUp`."""
    limit: str = ""
    """The limit of the run that ended it, in words; empty = none did."""

    def to_json(self) -> str:
        """Return the end as it is stored."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SessionEnd:
        """Return the end of a stored text; raises ValueError, KeyError, TypeError."""
        values = json.loads(text)
        return cls(
            interrupted=bool(values["interrupted"]),
            given_up=dict(values["given_up"]),
            limit=str(values.get("limit", "")),
        )
