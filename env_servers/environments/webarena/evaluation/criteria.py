"""The criteria of a task, as its file has them under `eval`, and their types.

Reading them finds every evaluator, rule, locator and function that does not exist, so that a task
file is refused before anything is played. What the original finds only when it scores (a reference
that is missing, a list that is a text) is left to the evaluators, which fail like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from env_servers.environments.webarena.evaluation.errors import UnusableCriteria

__all__ = ["URL_RULE", "Criteria", "Evaluator", "Target", "read_criteria"]

URL_RULE: Final = "GOLD in PRED"
"""The only rule for addresses."""


class Evaluator(StrEnum):
    """How a part of a score is found; the parts are multiplied."""

    STRING = "string_match"
    """The answer is compared with reference answers."""
    URL = "url_match"
    """The address of the page at the end."""
    PROGRAM = "program_html"
    """What pages say: the one at the end, or others that are opened."""


@dataclass(frozen=True, slots=True)
class Target:
    """A page, a place on it, and what must stand there."""

    url: str
    """`last`, an address, or `func:NAME(...)` that gives one."""
    locator: str
    """Empty for the whole page, a JavaScript expression, or `func:NAME(...)`."""
    required: Mapping[str, Any]
    """`exact_match` with a text, or `must_include` with a list."""
    preparations: tuple[str, ...] = ()
    """JavaScript that is run before the locator."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What an episode is scored by."""

    evaluators: tuple[Evaluator, ...]
    answers: Mapping[str, Any] | None
    """Reference answers by the way in which they are compared."""
    url: str | None
    """Reference address, or several with ` |OR| ` between them."""
    url_rule: str
    note: str | None
    """Why an unachievable task is unachievable."""
    targets: tuple[Target, ...]


def read_criteria(entry: Mapping[str, Any]) -> Criteria:
    """Return the typed criteria of an entry `eval`; raises UnusableCriteria."""
    return Criteria(
        evaluators=tuple(_evaluator(name) for name in _list(entry, "eval_types")),
        answers=cast("Mapping[str, Any] | None", entry.get("reference_answers")),
        url=entry.get("reference_url"),
        url_rule=entry.get("url_note", URL_RULE),
        note=entry.get("string_note"),
        targets=tuple(_target(target) for target in _list(entry, "program_html")),
    )


def _evaluator(name: Any) -> Evaluator:
    try:
        return Evaluator(name)
    except ValueError:
        raise UnusableCriteria(f"eval_type {name} is not supported") from None


def _list(entry: Mapping[str, Any], field: str) -> Sequence[Any]:
    value = entry.get(field)
    if not isinstance(value, list):
        raise UnusableCriteria(f"{field} is no list")
    return cast("list[Any]", value)


def _target(entry: Any) -> Target:
    try:
        return Target(
            str(entry["url"]),
            str(entry["locator"]),
            dict(entry["required_contents"]),
            tuple(entry.get("prep_actions") or ()),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnusableCriteria(f"a target of program_html lacks {error}") from error
