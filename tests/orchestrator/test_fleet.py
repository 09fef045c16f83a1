"""Servers that die, come back as something else, or cannot be closed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_runtime import spawned_server
from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.errors import ConnectionLost, ContractMismatch
from agent_runtime.logs import log_file
from agent_runtime.spawned_server import LogFolder, RestartBackoff
from orchestrator.errors import FleetError
from orchestrator.fleet import Fleet, Place
from orchestrator.servers import FleetConfig
from tests.kit.waiting import until

OPTIONS = ConnectionOptions(connect_deadline=0.3)


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_servers_end_although_a_connection_cannot_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(["echo"], FleetConfig(spawn=2), OPTIONS)
    await fleet.start()
    pids, close = fleet.pids, Connection.close

    async def failing(connection: Connection) -> None:
        await close(connection)
        raise RuntimeError("the stream's task died")

    monkeypatch.setattr(Connection, "close", failing)
    with log_file(tmp_path / "run.jsonl"):
        await fleet.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    problems = [it for it in events(tmp_path / "run.jsonl") if it["level"] == "error"]
    assert [it["event"] for it in problems] == ["connection did not close"] * 2
    assert "the stream's task died" in problems[0]["error"]


async def test_a_server_that_cannot_live_is_given_up_and_the_fleet_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestartBackoff, "MAX_RESTARTS", 2)
    monkeypatch.setattr(RestartBackoff, "FIRST_SECONDS", 0.01)
    failures: list[FleetError] = []
    said: list[str] = []
    with log_file(tmp_path / "run.jsonl"):
        logs = LogFolder(tmp_path)
        async with Fleet(["echo"], FleetConfig(spawn=1), OPTIONS, logs=logs) as fleet:
            fleet.on_event = said.append
            (server,) = fleet._spawned
            # From now on every start fails at once.
            server._environments = ["--no-such-flag"]
            with fleet.followed(lambda: None, failures.append):
                os.kill(server.pid, signal.SIGKILL)
                await until(lambda: bool(failures))
    assert fleet.failure is failures[0]
    assert "given up after 2 restarts" in str(failures[0])
    assert said[0] == "server 0 died (signal SIGKILL); it is started again"
    assert "is given up, 0 servers are left: " in said[-1]
    names = ("agent_runtime.spawned_server", "orchestrator.fleet", "agent_runtime.supervision")
    told = [it["event"] for it in events(tmp_path / "run.jsonl") if it["logger"] in names]
    # When the fleet itself misses it depends on how fast its restarts fail.
    told = [it for it in told if it != "reviving lost server"]
    assert told[2:] == [
        *("server died", "server restarting") * 2,
        "server died",
        "background task died",
        "server given up",
    ]
    assert (tmp_path / "server-0.log").exists()


async def test_a_server_that_does_not_start_leaves_its_log_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawned_server, "_READY_SECONDS", 0.01)
    fleet = Fleet(["echo"], FleetConfig(spawn=1), OPTIONS, logs=LogFolder(tmp_path))
    with pytest.raises(FleetError, match=r"did not start(.|\n)*server-0\.log"):
        await fleet.start()
    assert not psutil.pid_exists(fleet.pids[0])
    await fleet.close()
    assert (tmp_path / "server-0.log").exists()


async def revived(monkeypatch: pytest.MonkeyPatch, fleet: Fleet, *answers: str | Exception) -> None:
    """Lose one of the fleet's servers; each try to reach it again gets the next of the answers."""
    remaining = list(answers)
    handle, other = fleet._handles
    lost = handle.connection
    start, describe = Connection.start, Connection.get_environment

    async def start_with(connection: Connection) -> None:
        if isinstance(remaining[0], Exception):
            raise remaining.pop(0)
        await start(connection)

    async def describe_with(connection: Connection, *arguments: Any) -> Any:
        described = await describe(connection, *arguments)
        is_revival = connection is not lost and connection is not other.connection
        answer = remaining.pop(0) if is_revival and remaining else ""
        if answer:
            described.digest = answer
        return described

    monkeypatch.setattr(Connection, "start", start_with)
    monkeypatch.setattr(Connection, "get_environment", describe_with)
    place = Place(fleet, "echo", handle)
    lost._lost = ConnectionLost("gone")
    assert await place.reroute(lost) is other.connection
    assert (handle.episodes, other.episodes) == (0, 1)
    place.release()
    await until(lambda: handle.connection is not lost)
    assert handle.revival is None
    assert remaining == []


async def test_a_server_that_comes_back_as_another_is_refused_until_it_is_itself_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.fleet._REVIVE_SECONDS", 0.01)
    monkeypatch.setattr("orchestrator.fleet._REFUSED_SECONDS", 0.01)
    said: list[str] = []
    with log_file(tmp_path / "run.jsonl"):
        async with Fleet(["echo"], FleetConfig(spawn=2), OPTIONS) as fleet:
            fleet.on_event = said.append
            other_contract = ContractMismatch("it speaks contract revision 2")
            await revived(
                monkeypatch, fleet, ConnectionLost("away"), other_contract, "other", "other", ""
            )
            assert not any(handle.connection.lost for handle in fleet._handles)
    told = [
        (it["event"], it.get("problem", ""))
        for it in events(tmp_path / "run.jsonl")
        if it["event"] in ("reviving lost server", "server refused", "server is back")
    ]
    assert [event for event, _ in told] == [
        "reviving lost server",
        "server refused",
        "server refused",
        "server is back",
    ]
    assert [" is lost with 1 " in said[0], " is refused: " in said[1]] == [True, True]
    assert said[-1].endswith(" is back")
    assert "contract revision 2" in told[1][1]
    assert "it serves echo 1 other, and the run began with" in told[2][1]


async def test_a_revival_that_dies_is_reported_and_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.fleet._REVIVE_SECONDS", 0.01)
    with log_file(tmp_path / "run.jsonl"):
        async with Fleet(["echo"], FleetConfig(spawn=1), OPTIONS) as fleet:
            (handle,) = fleet._handles
            start = Connection.start
            broke = asyncio.Event()

            async def broken(_: Connection) -> None:
                broke.set()
                raise ZeroDivisionError

            monkeypatch.setattr(Connection, "start", broken)
            lost = handle.connection
            lost._lost = ConnectionLost("gone")
            rerouting = asyncio.create_task(Place(fleet, "echo", handle).reroute(lost))
            await broke.wait()
            monkeypatch.setattr(Connection, "start", start)
            assert await rerouting is handle.connection is not lost
    died = [it for it in events(tmp_path / "run.jsonl") if it["event"] == "background task died"]
    assert died and all("ZeroDivisionError" in it["exception"] for it in died)


def test_the_exit_of_a_process_is_named_by_its_signal() -> None:
    assert spawned_server._exit_fields(-9) == {"signal": "SIGKILL"}
    assert spawned_server._exit_fields(3) == {"exit_status": 3}
