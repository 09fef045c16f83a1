"""Large runs: what there is at once, and what follows when it was read and computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.viewer import run_data
from orchestrator.viewer.opened_run import OpenedRun
from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer
from tests.orchestrator.viewer.test_server import record_run


class Gate:
    """Holds a method of runs up until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self._open = threading.Event()
        original: Callable[[OpenedRun], Any] = getattr(OpenedRun, name)

        def held_up(run: OpenedRun) -> Any:
            assert self._open.wait(60)
            return original(run)

        patch.setattr(OpenedRun, name, held_up)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> tuple[Gate, Gate]:
    """Of reading and of summing up a run that counts as large."""
    monkeypatch.setattr(run_data, "_LARGE", 5)
    return Gate(monkeypatch, "refresh"), Gate(monkeypatch, "sum_up")


def until(viewer: RunningViewer, what: str, reached: Callable[[dict], bool]) -> dict:
    while not reached(data := viewer.ask(what, run="first")):
        time.sleep(0.01)
    return data


def test_a_large_run_has_rows_then_counts_then_intervals(
    gates: tuple[Gate, Gate], tmp_path: Path
) -> None:
    reading, summing = gates
    with run_viewer(record_run(tmp_path / "first")) as viewer:
        rows = viewer.ask("episodes", run="first", limit=5)
        assert (rows["reading"], rows["total"], len(rows["rows"])) == (True, 12, 5)
        assert rows["rows"][0]["item_id"] == "maze_0"
        data = viewer.ask("run", run="first")
        assert (data["stage"], data["manifest"]["run_seed"]) == ("reading", 7)
        reading.open()
        rows = until(viewer, "episodes", lambda it: not it["reading"])
        assert rows["choices"]["outcome"] == {"loss": 8, "success": 4}
        data = until(viewer, "run", lambda it: it["stage"] != "reading")
        (counted,) = data["results"]
        assert data["stage"] == "counting"
        assert counted["success_rate"] == pytest.approx(4 / 12)
        assert counted["success_interval"] is None
        again = viewer.ask("run", run="first", revision=data["revision"])
        assert again == {"revision": data["revision"]}
        summing.open()
        (result,) = until(viewer, "run", lambda it: it["stage"] == "whole")["report"]["results"]
        assert result["success_interval"] is not None
        absent = {"success_interval": None, "score_interval": None}
        assert counted == result | absent


def test_the_pages_of_a_large_run_fill_by_themselves(
    gates: tuple[Gate, Gate], tmp_path: Path
) -> None:
    reading, summing = gates
    with run_viewer(record_run(tmp_path / "first")) as viewer, open_browser() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.goto(viewer.page("/assets/icon.svg", token=TOKEN))
        page.goto(viewer.page("/episodes", run="first"))
        page.get_by_text("12 of 12 episodes").wait_for()
        page.get_by_role("link", name="maze_3").wait_for()
        assert page.get_by_label("Outcome").count() == 0
        other = context.new_page()
        other.goto(viewer.page("/run", run="first"))
        other.get_by_text("reading the run").wait_for()
        reading.open()
        page.get_by_label("Outcome").select_option("success")
        page.get_by_text("4 of 12 episodes").wait_for()
        other.get_by_text("intervals are being computed").wait_for()
        assert other.get_by_role("row", name="maze scripted").get_by_text("33.3").is_visible()
        summing.open()
        other.get_by_role("heading", name="Distributions of finished episodes").wait_for()
