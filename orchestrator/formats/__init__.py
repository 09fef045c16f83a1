"""Export formats, one module each: from records to the bytes of one file.

Every format is an `EpisodeWriter`; `WRITERS` is the only list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from orchestrator.formats.agenttraj import AgentTrajWriter
from orchestrator.formats.atif import AtifWriter
from orchestrator.formats.base import EpisodeWriter
from orchestrator.formats.messages import MessagesWriter
from orchestrator.formats.openai_chat import OpenAiChatWriter
from orchestrator.formats.parquet import ParquetWriter
from orchestrator.formats.sharegpt import ShareGptWriter

__all__ = ["WRITERS", "EpisodeWriter"]

WRITERS: Final[Mapping[str, Callable[[Path], EpisodeWriter]]] = MappingProxyType(
    {
        "agenttraj": AgentTrajWriter,
        "atif": AtifWriter,
        "messages": MessagesWriter,
        "openai": OpenAiChatWriter,
        "parquet": ParquetWriter,
        "sharegpt": ShareGptWriter,
    }
)
