"""Playing on in the viewer: what its pages ask for, without a browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc
from orchestrator import compare, sample
from orchestrator.servers import FleetConfig
from orchestrator.store import RunReader
from orchestrator.viewer import branches as module
from orchestrator.viewer.live_servers import LiveServers
from tests.kit.server_process import ServerProcess
from tests.kit.viewer import RunningViewer, run_viewer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run of two mazes, and the server that it was played on."""
    folder = tmp_path_factory.mktemp("play")
    with ServerProcess(folder, environments=["maze"]) as server:
        flags = ["--env", "maze", "--policy", "expert", "--episodes", "2"]
        run = folder / "runs" / "first"
        assert sample.main([*flags, "--servers", server.address, "--out", str(run)]) == 0
        yield folder / "runs", server.address


@pytest.fixture(scope="module")
def viewer(runs: tuple[Path, str]) -> Iterator[RunningViewer]:
    with run_viewer(runs[0], servers=LiveServers(FleetConfig(servers=(runs[1],)))) as running:
        yield running


def test_the_images_of_a_branch_are_shown_and_forgotten_with_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("seeing")
    with ServerProcess(folder, environments=["echo"]) as server:
        flags = ["--env", "echo", "--policy", "expert", "--episodes", "1", "--max-rounds", "3"]
        flags += ["--options", '{"images": 1}', "--servers", server.address]
        assert sample.main([*flags, "--out", str(folder / "runs" / "first")]) == 0
        servers = LiveServers(FleetConfig(servers=(server.address,)))
        with run_viewer(folder / "runs", servers=servers) as viewer:
            opened = open_branch(viewer, turn=1)
            key = opened["branch"]
            played = viewer.post("branch", do="act", branch=key, reply="Action: other")
            assert [it["step"]["images"] for it in played["turns"]] == [[0], [1], [2]]
            image = viewer.request(f"/api/branch_image?branch={key}&place=2")
            assert (image[0], image[2][1:4]) == (200, b"PNG")
            viewer.post("branch", do="undo", branch=key)
            gone = viewer.ask("branch_image", branch=key, place=2)
            assert gone["error"] == "the episode has 2 images, none is 2"


def first_episode(viewer: RunningViewer) -> dict[str, Any]:
    return viewer.ask("episodes", run="runs/first")["rows"][0]


def open_branch(viewer: RunningViewer, turn: int = 2) -> dict[str, Any]:
    row = first_episode(viewer)
    return viewer.post("branch", do="open", run="runs/first", id=row["episode_id"], turn=turn)


def test_a_branch_is_played_kept_and_found_again(
    viewer: RunningViewer, runs: tuple[Path, str]
) -> None:
    row = first_episode(viewer)
    opened = open_branch(viewer)
    key = opened["branch"]
    assert (opened["turn"], opened["first_turn"], opened["ended"]) == (2, 2, False)
    assert [it["inherited"] for it in opened["turns"]] == [False, True, True]
    assert opened["written"] and "move up" in opened["actions"]
    assert opened["state"]["turn"] == 2 and opened["state"]["views"]
    picture = viewer.request(f"/api/branch_view?branch={key}&turn=2&name=map")
    assert picture[0] == 200 and b"<svg" in picture[2]
    advice = viewer.post("branch", do="advise", branch=key)
    played = viewer.post("branch", do="act", branch=key, action=advice["action"], thought="Mine.")
    assert played["turns"][3]["step"]["action"]["text"] == advice["action"]
    assert "Mine." in played["turns"][3]["reply"]["text"]
    assert viewer.post("branch", do="undo", branch=key)["turn"] == 2
    assert viewer.post("branch", do="undo", branch=key)["error"].startswith("there is no turn")
    assert viewer.post("branch", do="keep", branch=key)["error"].startswith("nothing was played")
    viewer.post("branch", do="act", branch=key, reply="Thought: so\n\nAction: move up")
    went = viewer.post("branch", do="go_on", branch=key, policy="expert", turns=99)
    assert went["ended"] and went["policy"] == "person+expert"
    kept = viewer.post("branch", do="keep", branch=key)
    assert kept["run"] == "runs/first-played"
    assert "no such branch" in viewer.post("branch", do="look", branch=key)["error"]
    branch = viewer.ask("episode", **kept)
    assert branch["parent"] == {
        "run": "runs/first",
        "run_id": json.loads((runs[0] / "first" / "manifest.json").read_text())["run_id"],
        "id": row["episode_id"],
        "turn": 2,
    }
    parent = viewer.ask("episode", run="runs/first", id=row["episode_id"])
    assert parent["parent"] is None
    assert [(it["run"], it["id"], it["turn"]) for it in parent["branches"]] == [
        (kept["run"], kept["id"], 2)
    ]
    assert branch["siblings"] == []
    again = open_branch(viewer, 1)["branch"]
    viewer.post("branch", do="go_on", branch=again, policy="random", turns=1)
    second = viewer.ask("episode", **viewer.post("branch", do="keep", branch=again))
    assert [it["id"] for it in second["siblings"]] == [kept["id"]]
    state = viewer.post("state", **kept, turn=3)
    assert state["state_hash"] == branch["turns"][3]["step"]["state_hash"]
    lines = {it["run"]: it for it in viewer.ask("runs")["runs"]}
    while lines[kept["run"]]["state"] == "waiting":
        lines = {it["run"]: it for it in viewer.ask("runs")["runs"]}
    assert lines[kept["run"]]["played_from"] == "first"


def test_a_task_is_played_from_its_start(viewer: RunningViewer, runs: tuple[Path, str]) -> None:
    offered = viewer.post("branch", do="items", run="runs/first")
    assert offered["environments"] == ["maze"] and len(offered["items"]) == 2
    item = {"environment": "maze", "item": offered["items"][1]}
    opened = viewer.post("branch", do="open", run="runs/first", **item)
    assert (opened["turn"], opened["parent"]) == (0, None)
    gone = viewer.post("branch", do="discard", branch=opened["branch"])
    assert gone == {"run": "runs/first"}
    for number in (0, 1):
        item["item"] = item["item"].removeprefix("maze_")  # the number alone is the same task
        key = viewer.post("branch", do="open", run="runs/first", **item)["branch"]
        viewer.post("branch", do="go_on", branch=key, policy="expert", turns=99)
        kept = viewer.post("branch", do="keep", branch=key)
        assert viewer.ask("episode", **kept)["summary"]["sample"] == number
    # What was played of a task is paired with the run's own episode of it.
    played = runs[0] / "first-played"
    assert compare.main([f"{runs[0] / 'first'}@expert", f"{played}@expert"]) == 0


def test_branches_are_bounded_and_end_when_nobody_plays(
    viewer: RunningViewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 1)
    opened = open_branch(viewer)
    assert "keep or discard" in open_branch(viewer)["error"]
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0)
    viewer.post("branch", do="look", branch=opened["branch"])
    while "error" not in viewer.post("branch", do="look", branch=opened["branch"]):
        pass
    assert "no such branch" in viewer.post("branch", do="look", branch=opened["branch"])["error"]


def test_what_was_not_kept_ends_with_the_viewer(runs: tuple[Path, str]) -> None:
    before = live_episodes(runs[1])
    with run_viewer(runs[0], servers=LiveServers(FleetConfig(servers=(runs[1],)))) as viewer:
        open_branch(viewer)
        assert live_episodes(runs[1]) == before + 1
    while live_episodes(runs[1]) > before:
        time.sleep(0.01)


def live_episodes(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        stub = environment_pb2_grpc.EnvironmentServiceStub(channel)
        return stub.ListEpisodes(pb.ListEpisodesRequest()).total_size


def test_a_damaged_run_of_branches_does_not_hide_the_parent(
    viewer: RunningViewer, runs: tuple[Path, str]
) -> None:
    damaged = runs[0] / "first-played"
    opened = open_branch(viewer)
    viewer.post("branch", do="go_on", branch=opened["branch"], policy="random", turns=1)
    viewer.post("branch", do="keep", branch=opened["branch"])
    database = damaged / "episodes.sqlite"
    sound = database.read_bytes()
    database.write_bytes(b"no database")
    row = first_episode(viewer)
    parent = viewer.ask("episode", run="runs/first", id=row["episode_id"])
    database.write_bytes(sound)
    assert "no SQLite database" in parent["branches"][0]["problem"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"do": "fly"}, "a branch cannot 'fly'"),
        ({"do": "look", "branch": "x"}, "no such branch"),
        ({"do": "open", "run": "runs/first", "id": "none", "turn": 1}, "no episode id"),
        ({"do": "open", "run": "runs/other", "id": "none", "turn": 1}, "no such run"),
        ({"do": "open", "run": "runs/first", "environment": "os", "item": "1"}, "no environment"),
        ({"do": "open", "run": "runs/first", "environment": "maze", "item": "x"}, "x"),
        ({"do": "go_on", "branch": "x", "policy": "os:system", "turns": 1}, "no policy"),
        ({"do": "go_on", "branch": "x", "policy": "expert", "turns": -1}, "turns is a number"),
    ],
)
def test_what_cannot_be_done_says_why(
    viewer: RunningViewer, given: dict[str, Any], problem: str
) -> None:
    assert problem in viewer.post("branch", **given)["error"]


def test_the_parents_store_is_never_written_to(
    viewer: RunningViewer, runs: tuple[Path, str]
) -> None:
    with RunReader.open(runs[0] / "first") as reader:
        assert reader.verify() == []
        assert reader.count() == 2
        assert len(reader.manifest.sessions) == 1
