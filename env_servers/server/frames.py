"""The private wire between a server and its worker processes: length-prefixed msgpack.

One frame holds one list of messages, so that both sides coalesce. Only this server's own children
speak it; nothing of it is part of the contract.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from env_servers.sdk import ActionFormat, Observation, StopReason
from env_servers.server.live import Input, Opening, Result

__all__ = [
    "HEADER",
    "MARKER",
    "Op",
    "frame",
    "pack",
    "pack_message",
    "read_input",
    "read_opening",
    "read_result",
    "unpack",
    "write_result",
]

HEADER: Final = struct.Struct("!I")
"""Length of the frame's body in bytes."""
MARKER: Final = struct.Struct("=Q")
"""What a worker shares with its server besides the socket: the call that it executes, 0 = none."""

_PACKER = msgpack.Packer()


class Op:
    """Operations of a worker; each message is [op, call, handle, *arguments]."""

    OPEN = 1
    STEP = 2
    CONSULT = 3
    FORK = 4
    CLOSE = 5
    CANCEL = 6


def pack(messages: Sequence[Sequence[Any]]) -> bytes:
    """A frame with its header."""
    return frame([pack_message(message) for message in messages])


def pack_message(message: Sequence[Any]) -> bytes:
    """One message of a frame; raises TypeError and ValueError for what msgpack cannot say."""
    packed: bytes = msgpack.packb(message)
    return packed


def frame(messages: Sequence[bytes]) -> bytes:
    """A frame of packed messages."""
    body = b"".join((_PACKER.pack_array_header(len(messages)), *messages))
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> list[list[Any]]:
    """The messages of a frame's body."""
    return msgpack.unpackb(body, strict_map_key=False)


def write_result(result: Result) -> list[Any]:
    """A result as msgpack values."""
    info: Mapping[str, Any] | None = result.observation.info
    values = [*result.observation[:6], dict(info) if info is not None else None]
    return [values, result.state_hash, result.parsed_action]


def read_result(values: Sequence[Any]) -> Result:
    """The inverse of `write_result`."""
    (text, reward, score, terminated, truncated, stop, info), state_hash, parsed = values
    observation = Observation(text, reward, score, terminated, truncated, StopReason(stop), info)
    return Result(observation, state_hash, parsed)


def read_opening(values: Sequence[Any]) -> Opening:
    """An opening from its msgpack values."""
    environment, item_id, seed, profile, action_format, options = values
    return Opening(environment, item_id, seed, profile, ActionFormat(action_format), options)


def read_input(value: Any) -> Input:
    """A step's input from its msgpack value."""
    return value if isinstance(value, str) else tuple(value)
