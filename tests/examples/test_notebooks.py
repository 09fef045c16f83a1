"""The notebooks of examples/, run cell by cell in a kernel, without a Jupyter server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs the extra `test`")
nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "examples" / "notebooks"


def run(name: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what the code cells put out; an error in one of them is raised."""
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "gen")])
    monkeypatch.setenv("PYTHONPATH", path)
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def printed(outputs: list[dict[str, Any]]) -> str:
    return "".join(output.get("text", "") for output in outputs)


def test_all_notebooks_are_named_where_examples_are_listed_and_hold_no_outputs() -> None:
    listing = (REPOSITORY / "examples" / "README.md").read_text()
    for path in NOTEBOOKS.glob("*.ipynb"):
        assert f"[notebooks/{path.name}](notebooks/{path.name})" in listing
        assert not any(cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells)


@pytest.mark.slow
def test_the_quickstart_plays_forks_and_shows_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = run("quickstart.ipynb", monkeypatch)
    assert "score 1.0\nthe episode itself is at step 2\n" in printed(outputs)
    shown = [output.data.get("text/html", "") for output in outputs if "data" in output]
    assert any(html.startswith("<img ") for html in shown)


@pytest.mark.slow
def test_many_episodes_are_played_with_and_without_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = printed(run("many_episodes.ipynb", monkeypatch))
    assert "200 of 200 tasks solved in " in said
    assert "Inventory: You are not carrying anything" in said
