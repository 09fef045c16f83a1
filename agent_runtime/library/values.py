"""What the library gives and takes: tasks, advice, pictures, and names in place of enum numbers."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from agent_runtime.errors import UnknownName
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2

__all__ = [
    "Advice",
    "Task",
    "View",
    "action_format",
    "advisor",
    "capabilities",
    "format_name",
    "sendable",
]

_ADVISORS: Final = {
    "expert": pb.ADVISOR_EXPERT,
    "random": pb.ADVISOR_RANDOM,
    "noop": pb.ADVISOR_NOOP,
}
_FORMATS: Final = {
    "react": types_pb2.ACTION_FORMAT_REACT,
    "function_calling": types_pb2.ACTION_FORMAT_FUNCTION_CALLING,
    "code_as_action": types_pb2.ACTION_FORMAT_CODE_AS_ACTION,
}


@dataclass(frozen=True, slots=True)
class Task:
    """One instance to solve."""

    item_id: str
    """`<environment>_<number>`."""
    category: str = ""
    """Kind of task within the environment; empty where it has none."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What a scripted player of the environment would do next."""

    action: str
    """A native action, for `step`."""
    thought: str
    """A short reason for it; may be empty."""
    reply: str
    """Both, as a model would write them, for `reply`."""


@dataclass(frozen=True, slots=True)
class View:
    """A picture of an episode's state, or a text that describes it, made by its environment."""

    name: str
    """Stays the same from state to state."""
    title: str
    """For people, one line."""
    media_type: str
    """image/png, image/svg+xml, text/html, text/plain or application/json."""
    content: bytes = b""
    """At most 4 MiB; text is UTF-8. A stranger's: whoever shows HTML or SVG keeps it in a
    sandbox."""

    @property
    def text(self) -> str:
        """The content as text; raises UnicodeDecodeError for a bitmap."""
        return self.content.decode()

    def _repr_html_(self) -> str:
        """Show it in a notebook: an image without scripts, or what it says as plain text."""
        caption = html.escape(self.title, quote=True)
        if self.media_type.startswith("image/"):
            data = base64.b64encode(self.content).decode()
            return f'<img alt="{caption}" src="data:{html.escape(self.media_type)};base64,{data}">'
        return f"<pre>{html.escape(self.content.decode('utf-8', 'replace'))}</pre>"


def advisor(name: str) -> pb.Advisor:
    """Return the enum value of "expert", "random" or "noop"; raises UnknownName."""
    if name not in _ADVISORS:
        raise UnknownName("advisor", name, _ADVISORS)
    return _ADVISORS[name]


def action_format(name: str, valid: Iterable[str] = _FORMATS) -> types_pb2.ActionFormat:
    """Return the enum value of an action format, empty = unspecified; raises UnknownName."""
    if not name:
        return types_pb2.ACTION_FORMAT_UNSPECIFIED
    names = tuple(valid)
    if name not in names or name not in _FORMATS:
        raise UnknownName("action format", name, names)
    return _FORMATS[name]


def format_name(value: int) -> str:
    """Return the name of an action format, for example "react"."""
    return _name(types_pb2.ActionFormat, value, "ACTION_FORMAT_")


def capabilities(values: Iterable[int]) -> frozenset[str]:
    """Return the names of capabilities, for example "render"."""
    return frozenset(_name(pb.Capability, value, "CAPABILITY_") for value in values)


def sendable(text: str) -> str:
    """Return a text as a plain string that a message can carry.

    Raises:
        TypeError: It is no string.
        ValueError: It has half of a surrogate pair, which UTF-8 cannot say.
    """
    if text.__class__ is not str:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"an action is a string, not {type(text).__name__}")
        text = str(text)  # NumPy has strings of its own
    if not text.isascii():
        text.encode()
    return text


def _name(kind: object, value: int, prefix: str) -> str:
    """A value that this program does not know is its number: a newer server may have sent it."""
    try:
        return cast("EnumTypeWrapper", kind).Name(value).removeprefix(prefix).lower()
    except ValueError:
        return str(value)
