"""The private wire between a server and its worker processes: length-prefixed msgpack.

One frame holds a list of messages, so that both sides coalesce. Only a server's own children speak
it: it is no part of the contract and may change with any version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from env_servers.sdk import ActionFormat, Image, ImageType, Observation, StopReason
from env_servers.server.instance import ResetSpec, Result

__all__ = [
    "HEADER",
    "MARKER",
    "Op",
    "decode_reset",
    "decode_result",
    "encode_reset",
    "encode_result",
    "frame",
    "pack",
    "pack_message",
    "unpack",
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
    RENDER = 7


def pack(messages: Sequence[Sequence[Any]]) -> bytes:
    """Return a frame of messages, with its header."""
    return frame([pack_message(message) for message in messages])


def pack_message(message: Sequence[Any]) -> bytes:
    """Return one message of a frame.

    Raises:
        TypeError: A value is of a type that msgpack does not know.
        ValueError: A value is out of its range.
    """
    packed: bytes = msgpack.packb(message)
    return packed


def frame(messages: Sequence[bytes]) -> bytes:
    """Return a frame of messages that are packed already, with its header."""
    body = b"".join((_PACKER.pack_array_header(len(messages)), *messages))
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> list[list[Any]]:
    """Return the messages of a frame's body."""
    return msgpack.unpackb(body, strict_map_key=False)


def encode_result(result: Result) -> list[Any]:
    """Return a result as msgpack values."""
    info: Mapping[str, Any] | None = result.observation.info
    images = [tuple(image) for image in result.observation.images]
    values = [*result.observation[:6], dict(info) if info is not None else None, images]
    return [values, result.state_hash, result.parsed_action]


def decode_result(values: Sequence[Any]) -> Result:
    """Return the result that `encode_result` was given."""
    told, state_hash, parsed = values
    text, reward, score, terminated, truncated, stop, info, images = told
    shown = tuple(Image(ImageType(media_type), content) for media_type, content in images)
    observation = Observation(
        text, reward, score, terminated, truncated, StopReason(stop), info, shown
    )
    return Result(observation, state_hash, parsed)


def encode_reset(name: str, reset: ResetSpec) -> list[Any]:
    """Return how an episode begins as msgpack values.

    `name` is what the worker's registry resolves: the server's own, which need not be the spec's.
    """
    return [name, *reset[1:4], int(reset.action_format), reset.options, reset.images]


def decode_reset(values: Sequence[Any]) -> ResetSpec:
    """Return how an episode begins from its msgpack values."""
    name, item_id, seed, profile, action_format, options, images = values
    action_format = ActionFormat(action_format)
    return ResetSpec(name, item_id, seed, profile, action_format, options, images)
