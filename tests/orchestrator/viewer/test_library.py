"""Which runs the viewer knows of."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.errors import RunNotFound
from orchestrator.store import RunStore
from orchestrator.viewer import library as module
from orchestrator.viewer.library import Library
from tests.orchestrator.records import build_manifest, build_session


def test_a_run_that_was_made_a_moment_ago_opens_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_FOR_ONE", 0.0)
    library = Library([tmp_path])
    name = f"{tmp_path.name}/new"
    with pytest.raises(RunNotFound):
        library.open(name)
    with RunStore.create(tmp_path / "new", build_manifest(), build_session()):
        assert library.open(name).folder == tmp_path / "new"
    library.close()
