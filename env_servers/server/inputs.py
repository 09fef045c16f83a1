"""A step's input in the three forms of the protocol, and how a journal keeps it.

Journals hold one of these per step of every live episode, and the hot path makes one per step, so
they are msgspec structs that the garbage collector does not track. Measured on CPython 3.11: an
`Action` takes 24 bytes beside its text, a `Reply` or `ToolCall` 32 (a tuple of two: 56); making one
takes 0.04 us (a slotted dataclass: 0.16 us, and 40 or 48 bytes).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from env_servers.sdk import ActionFormat, Grammar, Rejected

__all__ = ["Action", "Reply", "StepInput", "ToolCall", "decode_input", "encode_input"]


class Action(msgspec.Struct, frozen=True, gc=False):
    """A native action, passed to the environment as it is."""

    text: str


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A model's whole reply, from which the environment's grammar reads one action."""

    action_format: int
    text: str

    def read(self, grammar: Grammar) -> str | Rejected:
        """Return the native action, or why there is none."""
        return grammar.read(self.text, ActionFormat(self.action_format))


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A structured function call."""

    name: str
    arguments_json: str

    @property
    def text(self) -> str:
        """All that it says; for counting its bytes."""
        return self.name + self.arguments_json

    def read(self, grammar: Grammar) -> str | Rejected:
        """Return the native action, or why there is none."""
        return grammar.read_call_json(self.name, self.arguments_json)


StepInput = Action | Reply | ToolCall

_ACTION: Final = 0
_REPLY: Final = 1
_TOOL_CALL: Final = 2


def encode_input(step_input: StepInput) -> list[Any]:
    """Return an input as msgpack values, for worker processes."""
    match step_input:
        case Action(text):
            return [_ACTION, text]
        case Reply(action_format, text):
            return [_REPLY, int(action_format), text]
        case ToolCall(name, arguments_json):
            return [_TOOL_CALL, name, arguments_json]


def decode_input(values: list[Any]) -> StepInput:
    """Return the input that `encode_input` was given."""
    kind, *fields = values
    if kind == _ACTION:
        return Action(*fields)
    return Reply(*fields) if kind == _REPLY else ToolCall(*fields)
