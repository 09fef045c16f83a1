"""What `orchestrator.export` makes of a run or of an episode, as a file that a browser saves."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from starlette.responses import Response, StreamingResponse

from orchestrator.errors import UsageError
from orchestrator.export import HTML, HTML_CONVERSATIONS, ExportFilter, export_run
from orchestrator.formats import WRITERS
from orchestrator.store import RunReader
from orchestrator.viewer.library import Library

__all__ = ["FORMATS", "Exports"]

FORMATS: Final = (HTML, *sorted(it for it, writer in WRITERS.items() if not writer.is_folder))
"""What a run can be saved as: a browser saves one file."""
_ENDINGS: Final[Mapping[str, str]] = {HTML: "html", "agenttraj": "json", "parquet": "parquet"}
"""Of file names; of other formats it is that of JSON lines."""
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_PIECE: Final = 1 << 18
_SHOWN_ID: Final = 12


class Exports:
    """Files of the runs of a library."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def export(self, parameters: Mapping[str, str]) -> Response:
        """Return the records of `run` in a `format`; with `id` one of them, also a failed one.

        `only_success=1` leaves out what did not succeed. A file is written to its end before the
        answer begins, so that what cannot be written is said; it is gone when it was sent.
        """
        name, episode_id = parameters.get("run", ""), parameters.get("id", "")
        format_name = parameters.get("format", "")
        if format_name not in FORMATS:
            raise UsageError(f"unknown format {format_name!r}", valid=FORMATS)
        run = self._library.open(name)
        accept = ExportFilter(only_success=parameters.get("only_success") == "1")
        if episode_id:
            full = run.episode(episode_id).episode_id
            accept = ExportFilter(episode_ids=(full,), include_failed=True)
        with tempfile.TemporaryDirectory(prefix="agentgym-export-") as folder:
            path = Path(folder) / "export"
            with RunReader.open(run.folder) as reader:
                limit = HTML_CONVERSATIONS if format_name == HTML else 0
                result = export_run(
                    reader, path, format_name=format_name, accept=accept, limit=limit
                )
            if episode_id and not result.written:
                raise UsageError("this attempt was replaced by a later one: save its raw record")
            file, size = path.open("rb"), path.stat().st_size
        saved_as = _file_name(name, episode_id, format_name)
        return StreamingResponse(
            _pieces(file),
            media_type="application/octet-stream",
            headers={
                "Content-Length": str(size),
                "Content-Disposition": f'attachment; filename="{saved_as}"',
            },
        )


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece


def _file_name(run: str, episode_id: str, format_name: str) -> str:
    """Return a name that is one everywhere, whatever the run is called."""
    parts = (run, episode_id[:_SHOWN_ID], format_name)
    names = (_NOT_OF_NAMES.sub("-", part).strip("-.") for part in parts)
    return f"{'-'.join(filter(None, names))}.{_ENDINGS.get(format_name, 'jsonl')}"
