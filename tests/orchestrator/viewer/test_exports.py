"""What is saved from the viewer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.formats import WRITERS
from tests.kit.viewer import RunningViewer, run_viewer
from tests.orchestrator.viewer.test_server import files_of, record_run

NAME = 'a "run"\u00e9'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("exports") / NAME)


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[RunningViewer]:
    with run_viewer(folder) as running:
        yield running


def save(viewer: RunningViewer, **asked: object) -> tuple[int, dict[str, str], bytes]:
    return viewer.request(f"/api/export?{urlencode({'run': NAME, **asked})}")


def test_a_run_is_saved_as_the_command_exports_it(viewer: RunningViewer, folder: Path) -> None:
    before = files_of(folder)
    status, headers, body = save(viewer, format="messages")
    assert (status, len(body.splitlines())) == (200, 12)
    assert headers["content-disposition"] == 'attachment; filename="a-run-messages.jsonl"'
    # Whatever is in it, no browser shows it as a page of this server.
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
    assert int(headers["content-length"]) == len(body)
    _, _, body = save(viewer, format="agenttraj", only_success=1)
    assert len(json.loads(body)) == 4
    _, _, body = save(viewer, format="html")
    assert body.lstrip().lower().startswith(b"<!doctype html>")
    assert files_of(folder) == before
    assert set(viewer.ask("run", run=NAME)["formats"]) == {"html", *WRITERS} - {"huggingface"}


def test_an_episode_is_saved_alone(viewer: RunningViewer) -> None:
    row = viewer.ask("episodes", run=NAME)["rows"][4]
    _, headers, body = save(viewer, id=row["episode_id"], format="atif")
    assert f"{row['episode_id'][:12]}-atif.jsonl" in headers["content-disposition"]
    assert len(body.splitlines()) == 1
    assert row["episode_id"].encode() in body


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"format": "mp3"}, "unknown format 'mp3'"),
        ({"format": "huggingface"}, "unknown format 'huggingface'"),
        ({"format": "html", "id": "zzz"}, "no episode id begins with"),
        ({"format": "html", "id": "attempt"}, "replaced by a later one"),
        ({"format": "html", "run": "/etc"}, "no such run"),
    ],
)
def test_what_cannot_be_saved_is_said(viewer: RunningViewer, asked: dict, said: str) -> None:
    if asked.get("id") == "attempt":
        first = viewer.ask("episodes", run=NAME)["rows"][0]["episode_id"]
        attempts = viewer.ask("episode", run=NAME, id=first)["attempts"]
        asked = {**asked, "id": attempts[0]["episode_id"]}
    status, _, body = save(viewer, **asked)
    assert status in (400, 404)
    assert said in json.loads(body)["error"]
