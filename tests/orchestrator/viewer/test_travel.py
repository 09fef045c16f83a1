"""Time travel: the states of recorded episodes from live servers, which nothing leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")
pytest.importorskip("uvicorn", reason="needs the extra viewer")

from agentgym.episode.v1 import episode_pb2
from orchestrator import sample
from orchestrator.client import ClientConfig
from orchestrator.errors import FleetError, UsageError
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.servers import FleetConfig
from orchestrator.store import RunReader, RunStore
from orchestrator.viewer import travel
from orchestrator.viewer.live_servers import LiveServers
from tests.kit.server_process import ServerProcess
from tests.kit.viewer import RunningViewer, run_viewer
from tests.orchestrator.records import build_episode, build_manifest, build_session
from tests.orchestrator.test_revisit import live_episodes


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run of one maze, played on a server of its own, and the server's address."""
    folder = tmp_path_factory.mktemp("travel")
    with ServerProcess(folder, environments=["maze"]) as server:
        flags = ["--env", "maze", "--policy", "expert", "--episodes", "2"]
        run = folder / "runs" / "played"
        assert sample.main([*flags, "--servers", server.address, "--out", str(run)]) == 0
        yield folder / "runs", server.address


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Another one, on which nothing else plays."""
    with ServerProcess(tmp_path_factory.mktemp("server"), environments=["maze"]) as running:
        yield running


@pytest.fixture(scope="module")
def viewer(runs: tuple[Path, str]) -> Iterator[RunningViewer]:
    with run_viewer(runs[0]) as running:
        yield running


def record_of(run: Path) -> episode_pb2.Episode:
    with RunReader.open(run) as reader:
        return next(reader.episodes())


def record_run(folder: Path, episode: episode_pb2.Episode) -> None:
    manifest = build_manifest(run_id=episode.run_id, policy=episode.policy)
    with RunStore.create(folder, manifest, build_session()) as store:
        items = {episode.environment: (episode.item_id,)}
        store.begin_playing(RunPlan(items=items, samples=1, policies=(episode.policy,)))
        store.append_all([episode])
        store.end_playing(SessionEnd(interrupted=False))


def test_every_state_comes_from_the_server_that_the_run_was_played_on(
    runs: tuple[Path, str], viewer: RunningViewer
) -> None:
    record = record_of(runs[0] / "played")
    asked: dict[str, Any] = {"run": "runs/played", "id": record.episode_id}
    for turn in (0, 1, len(record.steps) - 1, 1, 0):
        state = viewer.post("state", turn=turn, **asked)
        assert state["state_hash"] == record.steps[turn].state_hash.hex()
        assert state["same_environment"]
        views = {view["name"]: view for view in state["views"]}
        assert views["map"]["kind"] == "image"
        assert "#####" in views["text"]["text"]
    _, headers, drawn = viewer.request(
        f"/api/view?run=runs/played&id={record.episode_id}&turn=1&name=map"
    )
    assert headers["content-type"] == "image/svg+xml; charset=utf-8"
    assert headers["content-security-policy"].startswith("sandbox; default-src 'none';")
    assert drawn.startswith(b"<svg")
    said = viewer.ask("view", turn=2, name="map", **asked)["error"]
    assert "ask for its state again" in said
    said = viewer.ask("view", turn=1, name="text", **asked)["error"]
    assert said == "the state has no picture 'text' (valid: map)"
    assert "has no turn 999" in viewer.post("state", turn=999, **asked)["error"]
    assert "turn is a number" in viewer.post("state", turn=True, **asked)["error"]


def test_a_replay_that_comes_out_otherwise_is_said_with_its_turn(
    runs: tuple[Path, str], tmp_path: Path
) -> None:
    record = record_of(runs[0] / "played")
    record.steps[2].state_hash = b"otherwise"
    record_run(tmp_path / "changed", record)
    servers = LiveServers(FleetConfig(servers=(runs[1],)))
    with run_viewer(tmp_path / "changed", servers=servers) as viewer:
        asked: dict[str, Any] = {"run": "changed", "id": record.episode_id}
        assert "error" not in viewer.post("state", turn=1, **asked)
        for turn in (2, 3):
            said = viewer.post("state", turn=turn, **asked)["error"]
            assert said.startswith(f"turn 2 of {record.item_id} does not come out as it was")


def test_a_server_that_is_gone_is_said_and_asked_again_when_it_is_back(
    runs: tuple[Path, str], server: ServerProcess
) -> None:
    record = record_of(runs[0] / "played")
    config = FleetConfig(servers=(server.address,), wait_for_servers=0.2)
    servers = LiveServers(config, ClientConfig(connect_deadline=2.0))
    with run_viewer(runs[0], servers=servers) as viewer:
        asked: dict[str, Any] = {"run": "runs/played", "id": record.episode_id}
        assert viewer.post("state", turn=1, **asked)["turn"] == 1
        server.kill()
        said = viewer.post("state", turn=2, **asked)["error"]
        assert "no server of maze answers any more" in said
        assert viewer.post("state", turn=1, **asked)["turn"] == 1, "it is still kept"
        server.start()
        assert viewer.post("state", turn=2, **asked)["turn"] == 2
    assert live_episodes(server.address) == 0


def test_scratch_episodes_are_few_and_end_when_nobody_looks(
    runs: tuple[Path, str], server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = LiveServers(FleetConfig(servers=(server.address,)))
    with run_viewer(runs[0], servers=servers) as viewer:
        ids = [it["episode_id"] for it in viewer.ask("episodes", run="runs/played")["rows"]]
        for most in (2, 1):
            monkeypatch.setattr(travel, "_MOST_SCRATCH", most)
            for turn, episode_id in enumerate(ids, most):
                viewer.post("state", run="runs/played", id=episode_id, turn=turn)
            assert live_episodes(server.address) == most
        monkeypatch.setattr(travel, "_IDLE_SECONDS", 0.1)
        viewer.post("state", run="runs/played", id=ids[1], turn=4)
        deadline = time.monotonic() + 30
        while live_episodes(server.address):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_what_a_run_needs_and_is_not_here_is_said(runs: tuple[Path, str], tmp_path: Path) -> None:
    record_run(tmp_path / "own" / "foreign", build_episode("gone_1", environment="no_such"))
    with run_viewer(tmp_path / "own") as viewer:
        row = viewer.ask("episodes", run="own/foreign")["rows"][0]
        asked: dict[str, Any] = {"run": "own/foreign", "id": row["episode_id"], "turn": 0}
        assert "unknown environment 'no_such'" in viewer.post("state", **asked)["error"]
        assert viewer.ask("episode", run="own/foreign", id=row["episode_id"])["turns"]
    config = FleetConfig(servers=("127.0.0.1:1",))
    nowhere = LiveServers(config, ClientConfig(connect_deadline=0.2))
    with contextlib.closing(nowhere), pytest.raises(FleetError, match="--spawn 1 to start one"):
        nowhere.run(nowhere.fleet(tmp_path, "maze"), timeout=60)


def test_a_strangers_run_starts_nothing_of_its_own(
    runs: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    (tmp_path / "trap").mkdir()
    monkeypatch.chdir(tmp_path)
    servers = LiveServers()
    with contextlib.closing(servers):
        for name, said in (("trap", "add --trust-run"), ("--bind=0.0.0.0:1", "no environment's")):
            with pytest.raises(UsageError, match=said):
                servers.run(servers.fleet(runs[0] / "played", name), timeout=60)


def test_whoever_waits_is_told_when_the_viewer_ends_or_it_takes_too_long() -> None:
    servers = LiveServers()
    begun = threading.Event()
    told: list[BaseException] = []

    async def wait_for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def ask() -> None:
        try:
            servers.run(wait_for_ever(), timeout=600)
        except FleetError as error:
            told.append(error)

    with pytest.raises(FleetError, match="no answer within"):
        servers.run(wait_for_ever(), timeout=0.01)
    begun.clear()
    asking = threading.Thread(target=ask)
    asking.start()
    begun.wait()
    servers.close()
    asking.join()
    assert "the viewer ended" in str(told[0])
    with pytest.raises(FleetError, match="the viewer ends"):
        servers.run(wait_for_ever(), timeout=1)


def test_ctrl_c_waits_for_no_environment(runs: tuple[Path, str]) -> None:
    run = runs[0] / "played"
    asked = {"run": "played", "id": record_of(run).episode_id, "turn": 1}
    command = [sys.executable, "-m", "orchestrator.view", str(run), "--port", "0"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        command += ["--servers", f"127.0.0.1:{silent.getsockname()[1]}"]
        with subprocess.Popen([*command, "--client.connect-deadline", "600"], **pipes) as process:
            viewer, token = viewer_of(process)
            told: list[dict[str, Any]] = []
            asking = threading.Thread(
                target=lambda: told.append(viewer.post("state", token=token, **asked))
            )
            asking.start()
            silent.accept()[0].close()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            asking.join()
    assert (process.returncode, errors) == (0, b"")
    assert "the viewer ended" in told[0]["error"]


def viewer_of(process: subprocess.Popen[bytes]) -> tuple[RunningViewer, str]:
    """The viewer that a process announces, and its token."""
    address = process.stdout.readline().decode().strip()
    port = int(address.split(":")[2].partition("/")[0])
    return RunningViewer(port), address.partition("token=")[2]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_the_end_of_the_viewer_leaves_no_process_and_no_file(
    runs: tuple[Path, str], number: signal.Signals
) -> None:
    run = runs[0] / "played"
    command = [sys.executable, "-m", "orchestrator.view", str(run), "--port", "0", "--spawn", "1"]
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, "TMPDIR": temporary}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            viewer, token = viewer_of(process)
            episode_id = record_of(run).episode_id
            asked = {"run": "played", "id": episode_id, "turn": 1}
            assert viewer.post("state", token=token, **asked)["turn"] == 1
            family = psutil.Process(process.pid).children(recursive=True)
            assert family, "the server was started here"
            process.send_signal(number)
            process.communicate(timeout=60)
        assert process.returncode == (0 if number == signal.SIGINT else 143)
        assert psutil.wait_procs(family, timeout=60)[1] == []
        assert list(Path(temporary).iterdir()) == []
