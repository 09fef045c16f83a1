"""Formats of others' episodes, one module each: from the entries of a file to records.

Every format is an `EntryReader`; `READERS` is the only list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from orchestrator.imports.agenttraj import AgentTrajReader
from orchestrator.imports.atif import AtifReader
from orchestrator.imports.base import EntryReader
from orchestrator.imports.inspect_logs import InspectReader

__all__ = ["READERS", "EntryReader"]

READERS: Final[Mapping[str, EntryReader]] = MappingProxyType(
    {"agenttraj": AgentTrajReader(), "atif": AtifReader(), "inspect": InspectReader()}
)
