"""Export formats, one module each: from records to the bytes of one file, or of one folder.

Every format is an `EpisodeWriter`; `WRITERS` is the only list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from orchestrator.formats.agenttraj import AgentTrajWriter
from orchestrator.formats.atif import AtifWriter
from orchestrator.formats.base import EpisodeWriter
from orchestrator.formats.huggingface import HuggingFaceWriter
from orchestrator.formats.messages import MessagesWriter
from orchestrator.formats.openai_chat import OpenAiChatWriter
from orchestrator.formats.parquet import ParquetWriter
from orchestrator.formats.sharegpt import ShareGptWriter
from orchestrator.formats.verifiers import VerifiersWriter

__all__ = ["WRITERS", "EpisodeWriter"]

WRITERS: Final[Mapping[str, type[EpisodeWriter]]] = MappingProxyType(
    {
        "agenttraj": AgentTrajWriter,
        "atif": AtifWriter,
        "huggingface": HuggingFaceWriter,
        "messages": MessagesWriter,
        "openai": OpenAiChatWriter,
        "parquet": ParquetWriter,
        "sharegpt": ShareGptWriter,
        "verifiers": VerifiersWriter,
    }
)
