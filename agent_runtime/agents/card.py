"""An agent's card: what it plays, under which settings, and what it scored there.

Owns `agent.json` and where the package's own agent lies. An agent that learned under certain
options, openings and lengths can do nothing under others, so they belong to it as its weights do.
Invariant: the items of a card judged the agent and were never learned from. Knows no model and no
environment.
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
    "CARD_FILE",
    "SHIPPED",
    "AgentCard",
    "AgentFigure",
    "PlaySettings",
    "agent_folder",
    "read_card",
    "settings_of",
    "write_card",
]

CARD_FILE: Final = "agent.json"
SHIPPED: Final = Path(__file__).parent / "laptop"
"""The folder of the agent that comes with the package."""
_FORMAT: Final = "agentgym-agent"
_LAYOUT: Final = 1
_LONGEST: Final = 1 << 20
"""Bytes of a card."""


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
class AgentFigure:
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
class AgentCard:
    """What there is to know of an agent before its model is loaded."""

    name: str
    temperature: float
    """0 = greedy."""
    max_new_tokens: int
    environments: Mapping[str, PlaySettings]
    figures: Mapping[str, AgentFigure] = field(default_factory=dict[str, AgentFigure])
    """By environment, as sampled above."""
    made: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """From which run and checkpoint it was made."""

    def __post_init__(self) -> None:
        if not self.name or not self.environments:
            raise ValueError("an agent has a name and an environment")
        self.sampling()

    def sampling(self) -> Sampling:
        """How it was judged; raises ValueError for what cannot be."""
        return Sampling(temperature=self.temperature, max_new_tokens=self.max_new_tokens)


def agent_folder(name: str) -> Path:
    """The folder of the agent that `agent:NAME` names; empty = the package's own.

    Raises PolicyMisconfigured where there is no card.
    """
    folder = Path(name) if name else SHIPPED
    if not (folder / CARD_FILE).is_file():
        raise PolicyMisconfigured(
            f"{folder} has no {CARD_FILE}; agent:FOLDER takes what `python -m training.ship` wrote"
        )
    return folder


def read_card(folder: Path) -> AgentCard:
    """The card of an agent's folder; raises PolicyMisconfigured where it cannot be used."""
    path = folder / CARD_FILE
    try:
        if path.stat().st_size > _LONGEST:
            raise ValueError(f"it is longer than {_LONGEST} bytes")
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("format", None) != _FORMAT or document.pop("layout", None) != _LAYOUT:
            raise ValueError(f"it is not of the format {_FORMAT}, layout {_LAYOUT}")
        return _card(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PolicyMisconfigured(f"cannot read the agent's card {path}: {error}") from error


def write_card(folder: Path, card: AgentCard) -> None:
    """Write a card into an agent's folder."""
    document = {"format": _FORMAT, "layout": _LAYOUT} | dataclasses.asdict(card)
    (folder / CARD_FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _card(document: Mapping[str, Any]) -> AgentCard:
    environments = cast("Mapping[str, Mapping[str, Any]]", document["environments"])
    figures = cast("Mapping[str, Mapping[str, Any]]", document.get("figures", {}))
    fields: dict[str, Any] = {
        **document,
        "environments": {name: settings_of(entry) for name, entry in environments.items()},
        "figures": {name: AgentFigure(**entry) for name, entry in figures.items()},
    }
    return AgentCard(**fields)


def settings_of(entry: Mapping[str, Any]) -> PlaySettings:
    """Settings from JSON values; raises TypeError, ValueError."""
    fields: dict[str, Any] = dict(entry)
    if "opening" in fields:  # as cards called it that were written before it was renamed
        fields["conversation_start"] = fields.pop("opening")
    for name in ("conversation_start", "items"):
        fields[name] = tuple(fields.get(name, ()))
    return PlaySettings(**fields)
