"""The frame around a tree: tabs, address, objective, previous action. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["NO_ACTION_BEFORE", "frame_observation", "list_tabs"]

NO_ACTION_BEFORE: Final = "None"
"""The previous action of a first observation."""


def list_tabs(titles: Sequence[str], current: int) -> str:
    """Return the line of tabs."""
    return " | ".join(
        f"Tab {number} (current): {title}" if number == current else f"Tab {number}: {title}"
        for number, title in enumerate(titles)
    )


def frame_observation(content: str, *, url: str, objective: str, previous_action: str) -> str:
    """Return what the agent reads; the content is the line of tabs, a blank line, the tree."""
    return (
        f"OBSERVATION:\n{content}\nURL: {url}\nOBJECTIVE: {objective}\n"
        f"PREVIOUS ACTION: {previous_action}"
    )
