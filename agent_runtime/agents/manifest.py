"""An agent's manifest, `agent.json`: what it plays, under which settings, and what it scored there.

An agent that learned under certain options, conversation starts and lengths can do nothing under
others, so they belong to it as its weights do. The items of a manifest were held out: the agent was
evaluated on them and never learned from them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.sampling import Sampling

__all__ = [
    "AGENT_FILE",
    "BUNDLED_AGENT",
    "LEARNER_AGENT",
    "PACKAGED_AGENTS",
    "AgentManifest",
    "AgentMetric",
    "PlaySettings",
    "agent_folder",
    "parse_play_settings",
    "read_agent_manifest",
    "write_agent_manifest",
]

AGENT_FILE: Final = "agent.json"
BUNDLED_AGENT: Final = Path(__file__).parent / "cloned"
"""The folder of the agent that comes with the package and that `agent` plays."""
LEARNER_AGENT: Final = Path(__file__).parent / "laptop"
"""The folder of a smaller one that learned Wordle too, under shortened settings: for examples and
tests of training. `agent` played it in version 0.1.0."""
PACKAGED_AGENTS: Final = (BUNDLED_AGENT, LEARNER_AGENT)
"""What `agent` may have played in a run that an earlier version of the package recorded."""
_FORMAT: Final = "agentgym-agent"
_LAYOUT: Final = 1
_LONGEST: Final = 1 << 20
"""Bytes of a manifest."""
_RENAMED: Final = {"opening": "conversation_start", "figures": "metrics", "made": "provenance"}
"""Names of fields in agents that were exported before they were renamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    """How one environment is played; what is empty is the environment's own."""

    profile: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Reset options."""
    conversation_start: tuple[str, ...] = ()
    """Instruction and acknowledgement that open the conversation."""
    max_rounds: int = 0
    """Replies per episode."""
    items: tuple[str, ...] = ()
    """Ids of the tasks; for an agent, those that were held out to judge it."""

    def __post_init__(self) -> None:
        if len(self.conversation_start) not in (0, 2) or self.max_rounds < 0:
            raise ValueError(
                "conversation_start is instruction and acknowledgement, max_rounds at least 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetric:
    """What the agent scored on an environment's items."""

    metric: str
    """`success rate` or `mean score`."""
    value: float
    """From 0 to 1."""
    low: float
    high: float
    """The ends of the 95 % interval, clustered by item."""
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentManifest:
    """What there is to know of an agent before its model is loaded."""

    name: str
    temperature: float
    """0 = greedy."""
    max_new_tokens: int
    environments: Mapping[str, PlaySettings]
    metrics: Mapping[str, AgentMetric] = field(default_factory=dict[str, AgentMetric])
    """By environment, as sampled above."""
    random: Mapping[str, AgentMetric] = field(default_factory=dict[str, AgentMetric])
    """By environment, a random player's on the same tasks in the same settings."""
    provenance: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The run and the checkpoint that it comes from."""

    def __post_init__(self) -> None:
        if not self.name or not self.environments:
            raise ValueError("an agent has a name and an environment")
        self.sampling()

    @property
    def demonstrated(self) -> tuple[str, ...]:
        """The environments that are worth showing: where its interval lies above the random one's.

        Where a random player's metrics are not known, all are.
        """
        return tuple(
            name
            for name in self.environments
            if name not in self.random
            or (name in self.metrics and self.metrics[name].low > self.random[name].high)
        )

    def sampling(self) -> Sampling:
        """Return how it was evaluated; raises ValueError for what cannot be."""
        return Sampling(temperature=self.temperature, max_new_tokens=self.max_new_tokens)


def agent_folder(name: str) -> Path:
    """Find the folder of the agent that `agent:NAME` names; empty = the package's own.

    Raises:
        PolicyMisconfigured: There is no manifest in it.
    """
    folder = Path(name) if name else BUNDLED_AGENT
    if not (folder / AGENT_FILE).is_file():
        raise PolicyMisconfigured(
            f"{folder} has no {AGENT_FILE}; agent:FOLDER takes what `python -m training.ship` wrote"
        )
    return folder


def read_agent_manifest(folder: Path) -> AgentManifest:
    """Read the manifest in a folder; raises PolicyMisconfigured where it cannot be used."""
    path = folder / AGENT_FILE
    try:
        if path.stat().st_size > _LONGEST:
            raise ValueError(f"it is longer than {_LONGEST} bytes")
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("format", None) != _FORMAT or document.pop("layout", None) != _LAYOUT:
            raise ValueError(f"it is not of the format {_FORMAT}, layout {_LAYOUT}")
        return _parse_manifest(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PolicyMisconfigured(f"cannot read the agent's manifest {path}: {error}") from error


def write_agent_manifest(folder: Path, manifest: AgentManifest) -> None:
    """Write a manifest into an agent's folder."""
    document = {"format": _FORMAT, "layout": _LAYOUT} | dataclasses.asdict(manifest)
    (folder / AGENT_FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def parse_play_settings(entry: Mapping[str, Any]) -> PlaySettings:
    """Read settings from JSON values; raises TypeError, ValueError."""
    fields = _with_new_names(entry)
    for name in ("conversation_start", "items"):
        fields[name] = tuple(fields.get(name, ()))
    return PlaySettings(**fields)


def _parse_manifest(document: Mapping[str, Any]) -> AgentManifest:
    fields = _with_new_names(document)
    environments = cast("Mapping[str, Mapping[str, Any]]", fields["environments"])
    fields["environments"] = {
        name: parse_play_settings(entry) for name, entry in environments.items()
    }
    for players in ("metrics", "random"):
        metrics = cast("Mapping[str, Mapping[str, Any]]", fields.get(players, {}))
        fields[players] = {name: AgentMetric(**entry) for name, entry in metrics.items()}
    return AgentManifest(**fields)


def _with_new_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document under the names of today: older agents have others."""
    return {_RENAMED.get(name, name): value for name, value in document.items()}
