"""Conversation starts: the two messages that open an episode, in other words than the server's.

An AgentTraj-L file carries them in every conversation. Accepted are the official release's JSON
list and JSON lines, both also gzipped.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.errors import UsageError

__all__ = ["load_conversation_start", "to_conversation_start"]


def load_conversation_start(path: Path) -> tuple[str, str]:
    """Return instruction and acknowledgement of a file's first conversation; raises UsageError."""
    try:
        first = _first_conversation(path)
        instruction, acknowledgement = (str(turn["value"]) for turn in first["conversations"][:2])
    except OSError as error:
        raise UsageError(f"--prompts-from {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(
            f"--prompts-from {path} is no AgentTraj file: a conversation has "
            f'"conversations": [{{"from", "value"}}, ...] ({error!r})'
        ) from error
    return instruction, acknowledgement


def to_conversation_start(messages: Sequence[str]) -> pb.ConversationStart | None:
    """Return instruction and acknowledgement as the wire has them; None = the server's own."""
    if not messages:
        return None
    instruction, acknowledgement = messages
    return pb.ConversationStart(instruction=instruction, acknowledgement=acknowledgement)


def _first_conversation(path: Path) -> dict[str, Any]:
    text = (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8")
    with text as stream:
        if ".jsonl" in path.suffixes:
            return json.loads(stream.readline())
        return json.load(stream)[0]
