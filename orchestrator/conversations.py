"""AgentTraj files: conversations as JSON lists, JSON lines or gzipped ones, one at a time.

`loss` means: null is what the policy was told, true what it is trained on, false what was put into
its mouth. A file of any size is read in pieces.
Source: https://huggingface.co/datasets/AgentGym/AgentTraj-L
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO, cast

from agent_runtime.conversation import Message, Role
from orchestrator.errors import EntryUnreadable

__all__ = [
    "Conversation",
    "environment_name",
    "is_conversation_file",
    "read_conversations",
    "read_entries",
    "to_conversation",
]

SUFFIXES: Final = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_CHUNK: Final = 1 << 20
_BETWEEN: Final = " \t\r\n,["


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One entry of a file."""

    item_id: str
    number: int
    """Its position in the file, from 0: ids may repeat."""
    messages: tuple[Message, ...]
    reward: float | None = None
    success: bool | None = None


def is_conversation_file(path: Path) -> bool:
    """Tell whether the name is that of an AgentTraj file."""
    return path.name.endswith(SUFFIXES)


def environment_name(item_id: str) -> str:
    """Return the environment of an AgentGym item id: `webshop_6` -> `webshop`."""
    return item_id.rpartition("_")[0] or item_id


def read_conversations(
    path: Path, *, train_acknowledgement: bool = False
) -> Iterator[Conversation]:
    """Yield the conversations of a file, in order.

    Args:
        path: The file.
        train_acknowledgement: Train on every reply whatever its flag says, as the original's
            trainer does, whose loss covers the acknowledgement.

    Raises:
        EntryUnreadable: Names the file and the entry that cannot be read.
    """
    for number, entry in enumerate(read_entries(path)):
        try:
            yield to_conversation(number, entry, train_acknowledgement=train_acknowledgement)
        except (ValueError, OverflowError) as error:
            raise EntryUnreadable(path, str(error), number) from error


def to_conversation(
    number: int, entry: Any, *, train_acknowledgement: bool = False
) -> Conversation:
    """Return the conversation of an entry's JSON value.

    Raises ValueError or OverflowError where it is none.
    """
    if not isinstance(entry, dict):
        raise ValueError("it is no object")
    fields = cast("dict[str, Any]", entry)
    turns = fields.get("conversations")
    if not isinstance(turns, list) or not turns:
        raise ValueError("it has no list `conversations`")
    messages = tuple(_message(turn, train_acknowledgement) for turn in cast("list[Any]", turns))
    reward, success = fields.get("reward"), fields.get("success")
    return Conversation(
        item_id=str(fields.get("item_id", "")),
        number=number,
        messages=messages,
        reward=float(reward) if isinstance(reward, int | float) else None,
        success=bool(success) if success is not None else None,
    )


_SPEAKERS: Final[Mapping[str, Role]] = {
    "human": Role.USER,
    "user": Role.USER,
    "gpt": Role.ASSISTANT,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
}


def _message(turn: Any, every_reply: bool) -> Message:
    fields = cast("dict[str, Any]", turn) if isinstance(turn, dict) else {}
    role, text = _SPEAKERS.get(str(fields.get("from"))), fields.get("value")
    if role is None or not isinstance(text, str):
        raise ValueError("a turn needs `from` (human or gpt) and `value` (a text)")
    trained = every_reply or fields.get("loss") is True
    return Message(role, text, sampled=role is Role.ASSISTANT and trained)


def read_entries(path: Path) -> Iterator[Any]:
    """Yield the JSON values of a file: of its list, of its lines, or its only one.

    Raises EntryUnreadable where it cannot be read or is damaged.
    """
    try:
        with _open(path) as stream:
            yield from _values(stream)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise EntryUnreadable(path, f"it cannot be read ({error})") from error
    except (ValueError, RecursionError) as error:  # ValueError: also numbers beyond Python's limit
        raise EntryUnreadable(path, f"it is damaged ({error})") from error


def _open(path: Path) -> TextIO:
    if path.name.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _values(stream: TextIO) -> Iterator[Any]:
    """Yield JSON values of a list, of lines, or one after the other; one at a time in memory.

    Raises JSONDecodeError where the text ends within a value.
    """
    decoder = json.JSONDecoder()
    text, size = "", _CHUNK
    while True:
        text = text.lstrip(_BETWEEN)
        if text and text[0] != "]":
            try:
                value, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                more = stream.read(size)
                if not more:
                    raise
                text, size = text + more, size * 2
                continue
            yield value
            text, size = text[end:], _CHUNK
            continue
        more = stream.read(_CHUNK)
        if not more:
            return
        text = text.lstrip("]") + more
