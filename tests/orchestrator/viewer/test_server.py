"""What the viewer answers, and to whom it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")
pytest.importorskip("uvicorn", reason="needs the extra viewer")

from agentgym.episode.v1 import episode_pb2
from orchestrator import view
from orchestrator.errors import UsageError
from orchestrator.manifest import MANIFEST_FILE
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunStore
from orchestrator.viewer.state_data import image_response
from tests.kit.viewer import TOKEN, RunningViewer, run_viewer
from tests.orchestrator.records import (
    RED_SQUARE,
    build_episode,
    build_failed,
    build_manifest,
    build_seeing,
    build_session,
)

ITEMS = tuple(f"maze_{number}" for number in range(12))


def record_run(folder: Path) -> Path:
    """Twelve episodes of maze: the first failed, a second attempt won, every third won."""
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.begin_playing(RunPlan(items={"maze": ITEMS}, samples=1, policies=("scripted",)))
        store.append_all([build_failed("maze_0"), build_episode("maze_0", attempt=2)])
        for number, item_id in enumerate(ITEMS[1:], 1):
            won = number % 3 == 0
            replies = ("Thought: the cellar.\nAction: move up",) * (1 + number % 4)
            store.append_all(
                [build_episode(item_id, reward=float(won), success=won, replies=replies)]
            )
        store.end_playing(SessionEnd(interrupted=False))
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("viewer") / "runs"
    record_run(runs / "first")
    record_run(runs / "deeper" / "second")
    return runs


@pytest.fixture(scope="module")
def viewer(runs: Path) -> Iterator[RunningViewer]:
    with run_viewer(runs) as running:
        yield running


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningViewer, str]]:
    """A viewer, and the id of an episode with images."""
    runs, episode = tmp_path_factory.mktemp("seeing") / "runs", build_seeing()
    with RunStore.create(runs / "first", build_manifest(), build_session()) as store:
        store.append_all([episode])
    with run_viewer(runs) as running:
        yield running, episode.episode_id


def test_images_are_bitmaps_in_a_sandbox(seeing: tuple[RunningViewer, str]) -> None:
    viewer, episode_id = seeing
    asked = {"run": "runs/first", "id": episode_id}
    turns = viewer.ask("episode", **asked)["turns"]
    assert [turn["step"]["images"] for turn in turns] == [[0], [1], [0]]
    address = urlencode({**asked, "place": 0})
    status, headers, content = viewer.request(f"/api/image?{address}")
    assert (status, headers["content-type"], content) == (200, "image/png", RED_SQUARE)
    assert headers["content-security-policy"].startswith("sandbox; default-src 'none';")
    assert headers["x-content-type-options"] == "nosniff"
    assert viewer.request(f"/api/image?{address}", token="")[0] == 403
    assert "2 images, none is 2" in viewer.ask("image", place=2, **asked)["error"]


def test_what_is_no_bitmap_is_never_sent() -> None:
    episode = episode_pb2.Episode()
    episode.images.add(media_type="image/svg+xml", content=b"<svg onload='alert(1)'/>")
    with pytest.raises(UsageError, match="valid: image/jpeg, image/png, image/webp"):
        image_response(episode, 0)


def files_of(folder: Path) -> dict[str, bytes]:
    """All but what SQLite itself puts beside a database that is read."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def lines_of(viewer: RunningViewer) -> dict[str, dict]:
    while True:
        lines = {line["run"]: line for line in viewer.ask("runs")["runs"]}
        if all(line["state"] != "waiting" for line in lines.values()):
            return lines


def test_runs_are_found_below_the_folder_and_summed_up(viewer: RunningViewer) -> None:
    lines = lines_of(viewer)
    assert list(lines) == ["runs/deeper/second", "runs/first"]
    first = lines["runs/first"]
    assert (first["state"], first["planned"], first["finished"]) == ("finished", 12, 12)
    (outcome,) = first["policies"]
    assert outcome["policy"] == "scripted"
    assert outcome["success"]["value"] == pytest.approx(4 / 12)
    low, high = outcome["success"]["interval"]
    assert low < 4 / 12 < high


def test_a_run_has_its_table_failures_curves_and_configuration(viewer: RunningViewer) -> None:
    data = viewer.ask("run", run="runs/first")
    assert data["report"]["recovered"] == 1
    assert [it["reason"] for it in data["report"]["failures"]] == ["POLICY_UNAVAILABLE"]
    assert data["over_time"]["success"][-1] == pytest.approx(4 / 12)
    assert sum(data["distributions"]["rounds"]["counts"]) == 12
    assert data["manifest"]["run_seed"] == 7
    again = viewer.ask("run", run="runs/first", revision=data["revision"])
    assert again == {"revision": data["revision"]}


def test_two_runs_are_told_apart_by_their_settings(tmp_path: Path) -> None:
    for name, changes in (("a", {}), ("b", {"sampling": {"temperature": 0.5, "stop": ["</s>"]}})):
        RunStore.create(
            tmp_path / "runs" / name, build_manifest(**changes), build_session()
        ).close()
    with run_viewer(tmp_path / "runs") as viewer:
        found = viewer.ask("differences", run="runs/a", other="runs/b")["differences"]
        assert found == [{"field": "sampling.temperature", "old": "0.5", "new": "1.0"}]
        assert viewer.ask("differences", run="runs/a", other="runs/a") == {"differences": []}


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"outcome": "success"}, 4),
        ({"outcome": "loss", "min_rounds": 2, "max_rounds": 2}, 2),
        ({"item": "_1"}, 3),
        ({"environment": "wordle"}, 0),
        ({"reason": "GOAL_REACHED", "sort": "-rounds"}, 12),
    ],
)
def test_episodes_are_filtered(viewer: RunningViewer, filters: dict, count: int) -> None:
    data = viewer.ask("episodes", run="runs/first", limit=5, **filters)
    assert (data["total"], data["all"]) == (count, 12)
    assert len(data["rows"]) == min(count, 5)


def test_episodes_are_sorted_and_read_page_by_page(viewer: RunningViewer) -> None:
    pages = [
        viewer.ask("episodes", run="runs/first", sort="-rounds", offset=offset, limit=6)["rows"]
        for offset in (0, 6)
    ]
    rounds = [row["rounds"] for page in pages for row in page]
    assert len(rounds) == 12
    assert rounds == sorted(rounds, reverse=True)


def test_an_episode_has_turns_tokens_attempts_and_neighbours(viewer: RunningViewer) -> None:
    asked = {"run": "runs/first", "sort": "item"}
    row = viewer.ask("episodes", **asked)["rows"][0]
    assert row["item_id"] == "maze_0"
    episode = viewer.ask("episode", id=row["episode_id"], **asked)
    assert [it["outcome"] for it in episode["attempts"]] == ["failed", "success"]
    assert (episode["place"], episode["previous"], episode["listed"]) == (0, None, 12)
    start, first = episode["turns"][:2]
    assert [it["text"] for it in start["told"]] == ["Find the goal.", "OK."]
    assert start["step"]["observation"]["text"] == "You see a wall."
    assert first["step"]["action"]["text"] == "move up"
    assert first["call"]["policy_version"] == "v1"
    earlier = viewer.ask("episode", run="runs/first", id=episode["attempts"][0]["episode_id"])
    assert earlier["error"]["blamed"] == "policy"
    tokens = viewer.ask("tokens", run="runs/first", id=row["episode_id"])
    assert tokens["origins"][:4] == ["context"] * 3 + ["sampled"]
    assert tokens["versions"][3] == 0
    _, headers, body = viewer.request(f"/api/record?run=runs/first&id={row['episode_id']}")
    assert headers["content-type"] == "application/json"
    assert b'"run_id": "run-1"' in body


def test_words_are_found_by_an_index_beside_the_run_that_leaves_it_as_it_was(
    runs: Path, viewer: RunningViewer
) -> None:
    folder = runs / "first"
    before = files_of(folder)
    asked = {"run": "runs/first", "words": 'cellar "move up"'}
    while (data := viewer.ask("episodes", **asked))["words"]["indexed"] < 12:
        time.sleep(0.02)
    assert data["total"] == 11
    assert viewer.ask("episodes", run="runs/first", words="attic")["total"] == 0
    assert "no words" in viewer.ask("episodes", run="runs/first", words="*")["error"]
    assert [it.name.partition("-")[0] for it in (runs / ".viewer").glob("*.sqlite")] == ["first"]
    assert files_of(folder) == before


def test_a_cache_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    record_run(tmp_path / "runs" / "first")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / ".viewer").symlink_to(tmp_path / "elsewhere")
    with run_viewer(tmp_path / "runs") as viewer:
        error = viewer.ask("episodes", run="runs/first", words="cellar")["error"]
    assert "is a link" in error
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_live_run_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "live"
    with (
        RunStore.create(folder, build_manifest(), build_session()) as store,
        run_viewer(folder) as viewer,
    ):
        store.begin_playing(RunPlan(items={"maze": ITEMS}, samples=1, policies=("scripted",)))
        store.append_all([build_episode("maze_1"), build_failed("maze_2")])
        first = viewer.ask("episodes", run="live")
        assert (first["total"], lines_of(viewer)["live"]["state"]) == (2, "live")
        # The failed row's number is taken again by the attempt that replaces it.
        store.append_all([build_episode("maze_2", attempt=2), build_episode("maze_3")])
        later = viewer.ask("episodes", run="live")
        assert later["revision"] != first["revision"]
        assert [row["outcome"] for row in later["rows"]] == ["success"] * 3
        row = later["rows"][1]
        assert len(viewer.ask("episode", run="live", id=row["episode_id"])["attempts"]) == 2


def test_what_a_killed_writer_left_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.orchestrator.writing_process", str(folder), "3000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        written = sum(1 for _, line in zip(range(20), writer.stdout, strict=False) if line)
        writer.kill()
    assert (folder / f"{DATABASE_FILE}-wal").stat().st_size > 0
    with run_viewer(folder) as viewer:
        assert lines_of(viewer)["killed"]["finished"] >= 20
        assert viewer.ask("episodes", run="killed")["total"] >= written == 20


def test_what_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("newer", "damaged", "others", "good"):
        record_run(runs / name)
    manifest = runs / "newer" / MANIFEST_FILE
    manifest.write_text(manifest.read_text().replace('"schema_version": ', '"schema_version": 9'))
    (runs / "damaged" / DATABASE_FILE).write_bytes(b"junk" * 100)
    (runs / "others" / MANIFEST_FILE).write_text('{"name": "a web page"}')
    (runs / "link").symlink_to(runs / "good")
    (runs / "no_run").mkdir()
    with run_viewer(runs) as viewer:
        lines = lines_of(viewer)
        assert list(lines) == [f"runs/{name}" for name in ("damaged", "good", "newer")]
        assert "no SQLite database" in lines["runs/damaged"]["problem"]
        assert "this program reads" in lines["runs/newer"]["problem"]
        assert lines["runs/good"]["state"] == "finished"
        assert "this program reads" in viewer.ask("episodes", run="runs/newer")["error"]


@pytest.mark.parametrize(
    ("what", "parameters", "said"),
    [
        ("run", {"run": "../../etc"}, "no such run"),
        ("run", {"run": "/etc"}, "no such run"),
        ("episodes", {"run": "runs/first", "colour": "red"}, "no filter 'colour' (valid: "),
        ("episodes", {"run": "runs/first", "sort": "luck"}, "no order 'luck'"),
        ("episodes", {"run": "runs/first", "min_rounds": "-1"}, "min_rounds is a number"),
        ("episodes", {"run": "runs/first", "offset": "x"}, "offset is a number from 0"),
        ("episode", {"run": "runs/first", "id": "zzz"}, "no episode id begins with 'zzz'"),
        ("episode", {"run": "runs/first"}, "no episode id"),
        ("tokens", {"run": "runs/first", "id": "?", "segment": "7"}, "1 token segments"),
        ("text", {"run": "runs/first", "id": "?", "part": "soul"}, "no 'soul'"),
        ("text", {"run": "runs/first", "id": "?", "part": "message", "index": "99"}, "none is 99"),
    ],
)
def test_a_wrong_question_is_told_what_would_be_right(
    viewer: RunningViewer, what: str, parameters: dict, said: str
) -> None:
    if parameters.get("id") == "?":
        rows = viewer.ask("episodes", run="runs/first")["rows"]
        parameters = {**parameters, "id": rows[0]["episode_id"]}
    assert said in viewer.ask(what, **parameters)["error"]


@pytest.mark.parametrize(
    "path", ["/assets/../application.py", "/assets/%2e%2e/view.py", "/x", "//"]
)
def test_only_what_belongs_to_the_pages_is_served(viewer: RunningViewer, path: str) -> None:
    assert viewer.request(path)[0] == 404


def test_without_the_token_nothing_is_shown(viewer: RunningViewer) -> None:
    for path in ("/", "/api/runs", "/assets/main.js", "/?token=wrong"):
        status, headers, body = viewer.request(path, token="")
        assert status == 403
        assert b"address that the command printed" in body
        assert "set-cookie" not in headers


def test_the_token_becomes_a_cookie_and_leaves_the_address(viewer: RunningViewer) -> None:
    status, headers, _ = viewer.request(f"/run?run=runs%2Ffirst&token={TOKEN}", token="")
    assert (status, headers["location"]) == (303, "/run?run=runs%2Ffirst")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and TOKEN not in cookie
    assert viewer.request("/api/runs", token="", Cookie=cookie.partition(";")[0])[0] == 200
    # An address that is somebody else's must not be where the browser is sent.
    assert viewer.request(f"//evil.example/?token={TOKEN}", token="")[1]["location"][:2] != "//"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
    ],
)
def test_another_origin_gets_nothing_though_it_has_the_token(
    viewer: RunningViewer, headers: dict[str, str]
) -> None:
    status, _, body = viewer.request("/api/runs", **headers)
    assert status == 403
    assert b"runs/first" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_there_is_nothing_to_change(viewer: RunningViewer, method: str) -> None:
    assert viewer.request("/api/runs", method=method)[0] == 405


def test_a_page_may_load_from_this_server_alone(viewer: RunningViewer) -> None:
    for path in ("/", "/api/runs", "/assets/main.js"):
        headers = viewer.request(path)[1]
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--host", "0.0.0.0"], "choose a token"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 16 characters"),
        (["--host", "no.such.host.invalid"], "no address of this machine"),
        (["--port", "70000"], "0 to 65535"),
        (["nowhere"], "there is no such run"),
    ],
)
def test_flags_that_cannot_be_followed_are_refused(
    runs: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = flags if flags[0] == "nowhere" else [str(runs), *flags]
    assert view.main(given) == 2
    assert said in capsys.readouterr().err


def test_ctrl_c_ends_the_command_and_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    folder = record_run(tmp_path / "runs" / "first")
    before = files_of(folder)
    command = [sys.executable, "-m", "orchestrator.view", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        address = process.stdout.readline().decode()
        assert address.startswith("http://127.0.0.1:")
        port = int(address.split(":")[2].partition("/")[0])
        token = address.strip().partition("token=")[2]
        assert RunningViewer(port).request("/api/runs", token=token)[0] == 200
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert files_of(folder) == before
