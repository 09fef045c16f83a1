"""`Action: f with Action Input: {...}`: the line in which an agent calls a tool.

The original's reading of it, with its error strings, but in time linear in the text where the
original's expressions are quadratic; and the lenient reading of profile `fixed`. A text is only
ever read, never evaluated.

The original's reading, exactly: the name stands before the first ` with Action Input:` whose input
is on the last line of the text; the name's line has to say `Action:`; the input is a Python literal
(so JSON's `true` is none).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from env_servers.sdk import Advice
from env_servers.toolkit.tool_calls.literals import read_json, read_python

__all__ = [
    "FORMAT_ERROR",
    "Call",
    "Unreadable",
    "call_key",
    "express",
    "read_call",
    "read_call_leniently",
    "read_reply",
    "write_call",
    "write_reply",
]

FORMAT_ERROR: Final = (
    'Format error, please response in the format of  "Action: [your action] '
    "with Action Input: [your action input]"
)
"""Said of a text without ` with Action Input:` on its last line; sic."""
NO_ACTION: Final = "ERROR | TypeError(cannot unpack non-iterable NoneType object)"
"""Said where `Action:` is missing before the name."""
BAD_INPUT: Final = (
    "ERROR | Exception(Parameters in action input are not valid, please change your action input.)"
)
"""Said where the input is no literal."""

_MARK: Final = "Action:"
_WITH: Final = re.compile(r"with\s*Action Input:")
_KEYS: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False)
_KEY_CHARS: Final = 4096
"""Calls with longer arguments are not kept for the expert, which never makes any."""


class Call(NamedTuple):
    """A tool call as it was read; `arguments` is any literal, as the original has it."""

    tool: str
    arguments: Any
    line: str = ""
    """The text that was read, on one line; empty where the agent's text was longer."""


class Unreadable(NamedTuple):
    """Why a text is no call."""

    text: str
    is_format_error: bool = False
    """The text is shown bare, without `Observation:` around it."""


def read_reply(reply: str) -> str:
    """Return a model's reply as a native action: the one line that counts, or all of it."""
    parts = _last_line_call(reply)
    return reply if parts is None else f"{parts[0]} with Action Input: {parts[1]}"


def read_call(action: str) -> Call | Unreadable:
    """Return the call of a native action or reply, read as the original reads it."""
    parts = _last_line_call(action)
    if parts is None:
        return Unreadable(FORMAT_ERROR, is_format_error=True)
    line = f"{parts[0]} with Action Input: {parts[1]}"
    start = line.find(_MARK)
    mark = _WITH.search(line, start + len(_MARK)) if start >= 0 else None
    if mark is None:
        return Unreadable(NO_ACTION)
    try:
        arguments = read_python(line[mark.end() :].lstrip())
    except ValueError:
        return Unreadable(BAD_INPUT)
    return Call(line[start + len(_MARK) : mark.start()].strip(), arguments, line)


def read_call_leniently(action: str) -> Call | Unreadable:
    """Return the last call of a text, whose input may be JSON or Python and span several lines."""
    marks = list(_WITH.finditer(action))
    if not marks:
        return Unreadable(FORMAT_ERROR, is_format_error=True)
    _, marked, name = action[: marks[-1].start()].rpartition(_MARK)
    if not marked:
        return Unreadable(FORMAT_ERROR, is_format_error=True)
    text = action[marks[-1].end() :].strip()
    try:
        arguments = read_json(text)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        try:
            arguments = read_python(text)
        except ValueError:
            return Unreadable(BAD_INPUT)
    return Call(name.strip(), arguments)


def _last_line_call(text: str) -> tuple[str, str] | None:
    """(what stands before ` with Action Input:`, what stands after it to the end)."""
    end = len(text) - text.endswith("\n")
    last_break = text.rfind("\n", 0, end)
    for mark in _WITH.finditer(text):
        start = _after_space(text, mark.end())
        if start <= last_break:
            continue
        before = text[: mark.start()].rstrip()
        line = before[before.rfind("\n") + 1 :].strip()
        return line, text[start : max(start, end)]
    return None


_SPACE: Final = re.compile(r"\s*")


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def write_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the native action of a call; read back by every reader of this module."""
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(dict(arguments))
    # What JSON spells differently than Python, the original cannot read.
    if re.search(r"true|false|null|NaN|Infinity", text) or not text.isprintable():
        text = repr(dict(arguments))
    return f"Action: {tool} with Action Input: {text}"


def write_reply(advice: Advice) -> str:
    """Return a scripted player's advice as the original's agents were told to answer."""
    return f"Thought: {advice.thought}\n\n{advice.action}"


def express(action: str) -> tuple[str, Mapping[str, Any]]:
    """Return a scripted player's action as (tool, arguments); raises ValueError for other texts."""
    call = read_call(action)
    if isinstance(call, Unreadable) or not isinstance(call.arguments, dict):
        raise ValueError(f"no tool call: {action[:100]!r}")
    return call.tool, call.arguments


def call_key(tool: str, arguments: object) -> str | None:
    """Identifies a call by its tool and values, whatever the order of its arguments."""
    try:
        text = _KEYS.encode(arguments)
    except (TypeError, ValueError, RecursionError):
        return None
    return f"{tool} {text}" if len(text) <= _KEY_CHARS else None
