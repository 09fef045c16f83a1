"""How a task is solved: moves that name what they act on as a person would.

A move is a pure description; the expert turns the next one into a native action for the page that
is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Answer", "ClickOn", "Keys", "Move", "Open", "TypeInto", "refill"]


@dataclass(frozen=True, slots=True)
class ClickOn:
    """Click on an element with this role and name; the n-th one, where there are several."""

    role: str
    name: str
    nth: int = 0


@dataclass(frozen=True, slots=True)
class TypeInto:
    """Type into an element, which is empty or gets what is typed at its end."""

    role: str
    name: str
    text: str
    enter: bool = False
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Keys:
    """Press keys together."""

    keys: str


@dataclass(frozen=True, slots=True)
class Open:
    """Open an address."""

    url: str


@dataclass(frozen=True, slots=True)
class Answer:
    """End the task with an answer; empty where a page or a change is the answer."""

    text: str = ""


Move = ClickOn | TypeInto | Keys | Open | Answer


def refill(role: str, name: str, text: str, nth: int = 0) -> tuple[Move, ...]:
    """Return the moves by which a field that has a text gets another one."""
    clear = ClickOn(role, name, nth), Keys("Control+a"), Keys("Backspace")
    return *clear, TypeInto(role, name, text, nth=nth)
