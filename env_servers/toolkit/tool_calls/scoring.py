"""When a tool's output satisfies a subgoal, and what share of them an episode has satisfied.

The original's reward lets each output satisfy one subgoal that equals it, in value *and* type;
profile `fixed` compares with tolerance. A share never falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

__all__ = ["Equality", "Subgoals", "equal_exactly", "equal_in_value"]

Equality = Callable[[Any, Any], bool]
"""(subgoal, output) -> whether the output satisfies it."""

_RELATIVE: Final = 1e-6
_ABSOLUTE: Final = 1e-6


def equal_exactly(subgoal: Any, output: Any) -> bool:
    """Python's `==`, under which "18.5" is not 18.5 and True is 1."""
    try:
        return bool(subgoal == output)
    except RecursionError:
        return False


def equal_in_value(expected: Any, value: Any) -> bool:
    """Equality that looks through types: "18.50" is 18.5, case and order of lists do not count."""
    try:
        return _equal(expected, value)
    except RecursionError:
        return False


def _equal(expected: Any, value: Any) -> bool:
    one, other = _number(expected), _number(value)
    if one is not None and other is not None:
        return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    if isinstance(expected, list | tuple | set) and isinstance(value, list | tuple | set):
        return _same_items(
            list(cast("Sequence[Any]", expected)), list(cast("Sequence[Any]", value))
        )
    if isinstance(expected, list | tuple) and len(cast("Sequence[Any]", expected)) == 1:
        return _equal(cast("Sequence[Any]", expected)[0], value)
    if isinstance(expected, dict) and isinstance(value, dict):
        left, right = cast("dict[Any, Any]", expected), cast("dict[Any, Any]", value)
        return left.keys() == right.keys() and all(_equal(left[k], right[k]) for k in left)
    if isinstance(expected, str) and isinstance(value, str):
        return _plain(expected) == _plain(value)
    return type(expected) is type(value) and expected == value


def _same_items(expected: list[Any], items: list[Any]) -> bool:
    if len(expected) != len(items):
        return False
    for item in expected:
        match = next((n for n, other in enumerate(items) if _equal(item, other)), None)
        if match is None:
            return False
        del items[match]
    return True


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > 40:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("'\" .")


@dataclass(slots=True)
class Subgoals:
    """Which subgoals an episode has satisfied so far."""

    total: int
    unmet: list[Any]
    waiting: list[Any] = field(default_factory=list[Any])
    """Outputs that are compared at the next update."""

    @classmethod
    def of(cls, subgoals: Sequence[Any]) -> Subgoals:
        """Nothing is satisfied yet."""
        return cls(len(subgoals), list(subgoals))

    def note(self, output: Any) -> None:
        """Keep an output for the next update."""
        self.waiting.append(output)

    def update(self, equal: Equality) -> None:
        """Compare the outputs since the last update; each satisfies at most one subgoal."""
        for output in self.waiting:
            for number, subgoal in enumerate(self.unmet):
                if equal(subgoal, output):
                    del self.unmet[number]
                    break
        self.waiting.clear()

    @property
    def share(self) -> float:
        """Share of subgoals that are satisfied, 0 to 1."""
        return (self.total - len(self.unmet)) / self.total if self.total else 0.0

    def copy(self) -> Subgoals:
        """Return an independent copy."""
        return Subgoals(self.total, list(self.unmet), list(self.waiting))
