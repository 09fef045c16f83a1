"""Conversation openings from an AgentTraj-L file, for those who want the original wording.

The files carry the two opening messages in every conversation. Accepted are the official release's
JSON list and JSON lines, both also gzipped.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.errors import UsageError

__all__ = ["read_opening"]


def read_opening(path: Path) -> pb.ConversationStart:
    """The opening of a file's first conversation; raises UsageError."""
    try:
        first = _first_conversation(path)
        instruction, acknowledgement = (turn["value"] for turn in first["conversations"][:2])
    except OSError as error:
        raise UsageError(f"--prompts-from {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(
            f"--prompts-from {path} is no AgentTraj file: a conversation has "
            f'"conversations": [{{"from", "value"}}, ...] ({error!r})'
        ) from error
    return pb.ConversationStart(instruction=instruction, acknowledgement=acknowledgement)


def _first_conversation(path: Path) -> dict[str, Any]:
    text = (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8")
    with text as stream:
        if ".jsonl" in path.suffixes:
            return json.loads(stream.readline())
        return json.load(stream)[0]
