"""Two runs compared, as the page shows it: what `orchestrator.compare` says, with links.

Intervals are bootstraps over thousands of episodes, so a comparison is computed beside the
requests, once for what both folders hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from orchestrator import comparison_tables
from orchestrator.comparison import RunComparison, compare_sides, pair_policies, read_side
from orchestrator.errors import RunNotFound, UsageError
from orchestrator.store import RunReader
from orchestrator.viewer.background import Background
from orchestrator.viewer.library import Library, state_of_files

__all__ = ["Comparisons"]

_KEPT: Final = 16
_SHOWN: Final = 500
"""Items that one side won, or lost."""
_PATIENCE: Final = 0.3
"""Seconds for which an answer waits; the page asks again for what takes longer."""


class Comparisons:
    """Comparisons of runs of a library. Any thread may ask."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._computed: Background[list[dict[str, Any]]] = Background("comparisons", kept=_KEPT)

    def close(self) -> None:
        """Wait for what is under way."""
        self._computed.close()

    def compare(self, parameters: Mapping[str, str]) -> Any:
        """Return the comparisons of `run` with `other`, each RUN or RUN@POLICY.

        Policies of the same name are compared, or the only ones. While they are computed there are
        none: ask again. Raises UsageError where nothing can be compared, RunFolderError.
        """
        sides = [self._side(parameters.get(name, "")) for name in ("run", "other")]
        if sides[0] == sides[1]:
            raise UsageError("a run is compared with itself: name another run, or RUN@POLICY")
        folders = [folder for _, folder, _ in sides]
        state = [state_of_files(folder) for folder in folders]
        policies = [policy for _, _, policy in sides]
        found = self._computed.newest(
            (*folders, *policies), state, partial(_compare, folders, policies), patience=_PATIENCE
        )
        names = {"run": sides[0][0], "other": sides[1][0]}
        return {**names, "computing": found is None, "comparisons": found or []}

    def _side(self, text: str) -> tuple[str, Path, str]:
        """Return name, folder and policy of RUN[@POLICY]; both may have an @ of their own."""
        folders = self._library.folders()
        name, policy = text, ""
        while name not in folders:
            name, at, _ = name.rpartition("@")
            if not at:
                raise RunNotFound(Path(text), valid=list(folders)[:5])
            policy = text[len(name) + 1 :]
        return name, folders[name], policy


def _compare(folders: list[Path], policies: list[str]) -> list[dict[str, Any]]:
    ours, theirs = policies
    with RunReader.open(folders[0]) as first, RunReader.open(folders[1]) as second:
        pairs = pair_policies(first, second, ours=ours, theirs=theirs)
        if folders[0] == folders[1] and any(our == their for our, their in pairs):
            raise UsageError("a policy is compared with itself: name two, as RUN@POLICY")
        return [
            _data(compare_sides(read_side(first, our), read_side(second, their)))
            for our, their in pairs
        ]


def _data(comparison: RunComparison) -> dict[str, Any]:
    """Return what the page shows: of items that turned, and that are absent, not all of many."""
    data = comparison_tables.comparison_data(comparison)
    turned = data["turned"]
    won = [it for it in turned if it["second_solved"] > it["first_solved"]]
    lost = [it for it in turned if it["second_solved"] < it["first_solved"]]
    return {
        **data,
        "absent": len(data["absent"]),
        "turned": {
            name: {"count": len(items), "items": items[:_SHOWN]}
            for name, items in (("won", won), ("lost", lost))
        },
        "warnings": list(comparison_tables.warnings(comparison)),
    }
