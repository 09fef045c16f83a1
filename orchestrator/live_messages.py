"""What a run says of the episodes that it is playing: messages on the socket in its folder.

    connect to RUN/live.sock, send one line, read lines:

    {}                          ->  a `Listing`, and the end
    {"episode_id": "..."}       ->  an `Update` now and whenever something changed, until the
                                    episode has ended; a `Refusal` where it is not played

Lines are JSON. Only what changed since the last update of this connection is in an update; what
changed while a reader was slow is in the next one together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

__all__ = [
    "SOCKET_FILE",
    "Answer",
    "EpisodeState",
    "Listing",
    "Question",
    "Refusal",
    "Update",
    "socket_address",
]

SOCKET_FILE: Final = "live.sock"
_LONGEST_ADDRESS: Final = 107 if sys.platform == "linux" else 103
"""Bytes that `sockaddr_un` has room for."""


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """What a reader wants to see."""

    episode_id: str = ""
    """Empty = which episodes there are."""


class EpisodeState(msgspec.Struct, kw_only=True):
    """Which episode it is, and how far it has come."""

    episode_id: str
    environment: str
    item_id: str
    category: str
    sample: int
    attempt: int
    policy: str
    started_unix_ms: int
    turn: int
    """Replies so far."""
    waits_for: Literal["policy", "environment"]
    since_unix_ms: int
    """Since when it waits."""
    streams: bool
    """Whether its policy tells replies while they are written."""


class Listing(msgspec.Struct, kw_only=True, tag=True):
    """The episodes that are being played."""

    live: int
    episodes: list[EpisodeState]
    """The first of them, by their start."""
    started_unix_ms: list[int]
    """Of all."""


class Update(msgspec.Struct, kw_only=True, tag=True):
    """What is new of an episode."""

    state: EpisodeState
    record: bytes
    """An `agentgym.episode.v1.Episode` with the messages, steps and generations that are new."""
    draft: str
    """The reply that is being written, whole as far as it goes."""
    changes: int
    """How many changes are in this update: above 1 where a reader was slower than the episode."""
    ended: Literal["", "recorded", "unrecorded"] = ""
    """Whether it is over, and whether the run has its record."""


class Refusal(msgspec.Struct, tag=True):
    """Why there is no answer."""

    reason: Literal["not_played", "too_many", "not_understood"]


Answer: TypeAlias = Listing | Update | Refusal


@contextmanager
def socket_address(folder: Path) -> Generator[str]:
    """Give the address of a run's socket, for as long as the block lasts.

    An address has room for about a hundred bytes, paths of runs may be longer: then the folder is
    named by its descriptor. Raises OSError.
    """
    path = folder / SOCKET_FILE
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_FILE}"
    finally:
        os.close(descriptor)
