"""The payload of a task: what is asked, what is expected, in which world it plays.

A module of its own because backends and task sets both need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from env_servers.toolkit.tool_calls.planning import Plan

__all__ = ["ToolTask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTask:
    """The payload of a task."""

    goal: str
    """What the user asks for, with the form of the answer."""
    subgoals: tuple[Any, ...]
    """Values that outputs are compared with; nearly always one, the answer."""
    official: bool = False
    index: int = 0
    """The integer of the item id."""
    init: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """`init_config` of the official files, for example current_date and current_location."""
    end_state: Any = None
    """State that the world has to be in at the end, where that counts."""
    plan: Plan | None = None
    """The expert's way; None = it hands in the first subgoal."""
    steps: int = 0
    """Calls of the plan, with `finish`; 0 = unknown."""
