"""Whether a task is done: its answer, what was called, and what a tool says now."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from env_servers.environments.mcp.task_file import (
    AnswerCheck,
    CalledCheck,
    Check,
    ResultCheck,
)
from env_servers.toolkit.tool_calls import ToolError, equal_in_value

__all__ = ["Called", "judge"]

_MATCHED_CHARS: Final = 10_000
"""Longer texts match no expression, which could need ages for them."""
_NUMBER: Final = re.compile(
    r"[-+]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][-+]?[0-9]{1,3})?"
)


class Called(NamedTuple):
    """A call that did not fail, in the server's names."""

    tool: str
    arguments: Mapping[str, Any]


Look = Callable[[str, Mapping[str, Any]], str]
"""Calls a tool for a check and returns its text; raises ToolError, ServiceUnavailable."""


def judge(
    checks: Sequence[Check], answer: object, calls: Sequence[Called], look: Look
) -> tuple[bool, ...]:
    """Return which checks hold; raises ServiceUnavailable where a tool cannot be asked."""
    return tuple(_holds(check, answer, calls, look) for check in checks)


def _holds(check: Check, answer: object, calls: Sequence[Called], look: Look) -> bool:
    if isinstance(check, CalledCheck):
        return any(
            call.tool == check.tool and _includes(call.arguments, check.arguments) for call in calls
        )
    if isinstance(check, AnswerCheck):
        return _is(check, _text_of(answer))
    try:
        return _is(check, look(check.tool, check.arguments))
    except ToolError:  # the tool refuses, so it does not say what it should
        return False


def _includes(arguments: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(
        name in arguments and equal_in_value(value, arguments[name])
        for name, value in wanted.items()
    )


def _is(check: AnswerCheck | ResultCheck, text: str) -> bool:
    if check.equals is not None:
        return text.strip().casefold() == check.equals.strip().casefold()
    if check.contains is not None:
        return check.contains.casefold() in text.casefold()
    if check.matches is not None:
        short = text.strip()
        return len(short) <= _MATCHED_CHARS and re.fullmatch(check.matches, short) is not None
    assert check.number is not None, "a task file gives one of them"
    number = _NUMBER.fullmatch(text.strip())
    return number is not None and math.isclose(
        float(number[0]), check.number, rel_tol=0.0, abs_tol=check.tolerance
    )


def _text_of(answer: object) -> str:
    """Return an answer as text: a list of one is that one, as models write it."""
    if isinstance(answer, list) and len(answer) == 1:
        return str(answer[0])
    return str(answer)
