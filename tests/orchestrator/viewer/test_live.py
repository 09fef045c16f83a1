"""Live episodes through the viewer: which there are, one as a stream, runs that do not answer."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")
pytest.importorskip("uvicorn", reason="needs the extra viewer")

from orchestrator.live_messages import SOCKET_FILE
from orchestrator.store import RunReader, RunStore
from orchestrator.viewer.curves import over_time
from tests.kit.viewer import TOKEN, RunningViewer, run_viewer
from tests.orchestrator.records import build_episode, build_manifest, build_session
from tests.orchestrator.viewer.live_run import play_live

ECHO = ("--env", "echo", "--episodes", "2", "--concurrency", "1")


@contextmanager
def stream(port: int, run: str, episode_id: str, token: str = TOKEN) -> Iterator[Any]:
    """Follow an episode; gives the lines of the answer, decoded."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with closing(connection):
        headers = {"Authorization": f"Bearer {token}"}
        connection.request("GET", f"/api/watch?run={run}&id={episode_id}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        yield (json.loads(line) for line in answer)


def start_viewer(runs: Path) -> tuple[subprocess.Popen[bytes], int, str]:
    command = [sys.executable, "-m", "orchestrator.view", str(runs), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    address = process.stdout.readline().decode().strip()
    port = int(address.split(":")[2].partition("/")[0])
    return process, port, address.partition("token=")[2]


def test_an_episode_is_followed_and_a_viewer_that_ends_leaves_the_run_unharmed(
    tmp_path: Path,
) -> None:
    with play_live(tmp_path / "runs" / "live", *ECHO) as run:
        process, port, token = start_viewer(tmp_path / "runs")
        with process:
            _, _, body = RunningViewer(port).request("/api/live?run=runs%2Flive", token=token)
            (playing,) = json.loads(body)["episodes"]
            assert (playing["environment"], playing["waits_for"]) == ("echo", "policy")
            with stream(port, "runs%2Flive", playing["episode_id"], token) as lines:
                first = next(lines)
                assert [turn["turn"] for turn in first["turns"]] == [0]
                run.allow_words(1)
                while not (piece := next(lines))["draft"]:
                    pass
                assert piece["state"]["streams"] and not piece["ended"]
                os.kill(process.pid, signal.SIGINT)
                assert not any(line.get("ended") for line in lines)
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors) == (0, b"")
        with run_viewer(tmp_path / "runs") as viewer:
            assert "not being" in viewer.ask("watch", run="runs/live", id="none")["error"]
            with stream(viewer.port, "runs%2Flive", playing["episode_id"]) as lines:
                turns: dict[int, Any] = {}
                run.open_gate()
                for line in lines:
                    turns |= {turn["turn"]: turn for turn in line["turns"]}
                assert line["ended"] == "recorded"
            row = viewer.ask("episode", run="runs/live", id=playing["episode_id"])
            assert list(turns.values()) == row["turns"]
            assert run.wait() == 0
            with stream(viewer.port, "runs%2Flive", playing["episode_id"]) as lines:
                assert list(lines) == [{"ended": "recorded"}]
            problem = viewer.ask("live", run="runs/live")["problem"]
            assert problem == "no process of this machine is playing this run"
    with RunReader.open(tmp_path / "runs" / "live") as reader:
        assert len(reader.verify()) == 0
        assert reader.count() == 2


def test_what_is_no_socket_of_a_run_is_not_spoken_to(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "live"
    with (
        RunStore.create(folder, build_manifest(), build_session()) as store,
        socket.socket(socket.AF_UNIX) as service,
        run_viewer(tmp_path / "runs") as viewer,
    ):
        store.append_all([build_episode("maze_1")])
        asked = {"run": "runs/live", "id": "e"}
        assert "begins or ends at this moment" in viewer.ask("live", **asked)["problem"]
        service.bind(str(tmp_path / "service"))
        service.listen()
        service.setblocking(False)
        (folder / SOCKET_FILE).symlink_to(tmp_path / "service")
        assert "is no socket" in viewer.ask("live", **asked)["problem"]
        assert "is no socket" in viewer.ask("watch", **asked)["error"]
        with pytest.raises(BlockingIOError):
            service.accept()
        (folder / SOCKET_FILE).unlink()
        # Bound and closed: what a killed process leaves.
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(folder / SOCKET_FILE))
        for problem in (
            viewer.ask("live", **asked)["problem"],
            viewer.ask("watch", **asked)["error"],
        ):
            assert "does not answer (Connection refused)" in problem
        store.close()
        assert "(what it left does not answer)" in viewer.ask("live", **asked)["problem"]
        assert viewer.ask("run", run="runs/live")["over_time"]["live"]


@pytest.mark.parametrize("said", [b"", b"junk\n", b'{"type":"Later"}\n', b'{"type":"Refusal"}\n'])
def test_what_a_strange_process_answers_is_told(tmp_path: Path, said: bytes) -> None:
    folder = tmp_path / "live"
    with (
        RunStore.create(folder, build_manifest(), build_session()),
        socket.create_server(str(folder / SOCKET_FILE), family=socket.AF_UNIX) as service,
        run_viewer(folder) as viewer,
    ):

        def answer() -> None:
            for _ in range(2):
                connection, _ = service.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        assert "answer" in viewer.ask("live", run="live")["problem"]
        assert "answer" in viewer.ask("watch", run="live", id="e")["error"]
        thread.join()


def test_episodes_that_are_being_played_are_live_to_the_end_of_the_curve(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", build_manifest(), build_session()) as store:
        records = [build_episode("a"), build_episode("b")]
        for record in records:
            record.started_unix_ms, record.ended_unix_ms = 10_000, 90_000
        store.append_all(records)
        summaries = list(store.summaries())
    assert over_time(summaries)["live"] == [2] * 80
    live = over_time(summaries, [0, 50_000])["live"]
    assert (live[0], live[-1]) == (1, 4)
    assert over_time([], [5])["live"] == []
