"""A run as its page shows it: at once what is known, figures with their intervals when they are.

Of a large run reading takes a second and intervals take some more. So an answer says in which
`stage` it is, and the page asks again: `reading` has the configuration, `counting` counts and means
without intervals, and only `whole` has everything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.distributions import list_distributions
from orchestrator.report import as_data, state_text, statistics_data
from orchestrator.run_folder import read_writer
from orchestrator.run_list import imported_from, played_from
from orchestrator.run_state import run_state
from orchestrator.viewer.background import Background
from orchestrator.viewer.curves import over_time
from orchestrator.viewer.exports import FORMATS
from orchestrator.viewer.library import Library
from orchestrator.viewer.opened_run import OpenedRun, RunSummary
from orchestrator.viewer.watching import live_since

__all__ = ["RunPages"]

_READING_PATIENCE: Final = 0.2
_SMALL_PATIENCE: Final = 10.0
"""Seconds; a page of a small run is whole at first, unless that of a large one is computed."""
_LARGE: Final = 5000
"""Records; a smaller run is summed up before it is shown."""
_KEPT: Final = 4


class RunPages:
    """The pages of runs of a library. Any thread may ask."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._whole: Background[dict[str, Any]] = Background("run-pages", kept=_KEPT)

    def close(self) -> None:
        """Wait for what is under way."""
        self._whole.close()

    def run(self, parameters: Mapping[str, str]) -> Any:
        """Return what a run came to so far; nothing but its revision where that is known."""
        run = self._library.open(parameters.get("run", ""), patience=_READING_PATIENCE)
        found = self._found(run)
        if parameters.get("revision") == found["revision"]:
            return {"revision": found["revision"]}
        return {
            **found,
            "folder": str(run.folder),
            "manifest": dataclasses.asdict(run.manifest),
            "played_from": played_from(run.manifest),
            "imported_from": imported_from(run.manifest),
            "runs": list(self._library.folders()),
            "training": self._library.training_of(parameters["run"]),
            "formats": FORMATS,
        }

    def _found(self, run: OpenedRun) -> dict[str, Any]:
        if not run.is_read:
            return {"revision": "reading", "stage": "reading"}
        name = run.folder
        large = len(run.records()) > _LARGE
        # Before the rest is begun, which would take the time of this.
        counts = run.counts() if large and not self._whole.knows(name) else ()
        whole = self._whole.newest(
            name, run.revision, lambda: _whole(run), patience=0 if large else _SMALL_PATIENCE
        )
        return whole or _counted(run, counts or run.counts())


def _counted(run: OpenedRun, counts: Sequence[Any]) -> dict[str, Any]:
    """Return what is there at once."""
    return {
        "revision": f"counting {run.revision}",
        "stage": "counting",
        "state_name": "live" if read_writer(run.folder) is not None else "",
        "results": [statistics_data(entry) for entry in counts],
    }


def _whole(run: OpenedRun) -> dict[str, Any]:
    revision = run.revision
    summary: RunSummary = run.sum_up()
    report = summary.report
    return {
        "revision": str(revision),
        "stage": "whole",
        "state": "" if report.complete else state_text(report),
        "state_name": run_state(
            writer=report.writer, planned=report.planned, complete=report.complete, end=report.end
        ),
        "report": as_data(report),
        "categories": [
            {"category": category, **statistics_data(entry)}
            for category, entry in summary.categories
        ],
        "distributions": list_distributions(summary.records),
        "over_time": over_time(summary.records, live_since(run.folder)),
    }
