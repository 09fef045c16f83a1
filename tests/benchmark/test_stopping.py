"""A benchmark that is stopped by SIGTERM takes its servers along."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.kit.data import data_dir, require_data

HANG = 60.0
"""Seconds after which a test gives up."""


@pytest.mark.parametrize(
    "command",
    [
        ["benchmark.fidelity", "--env", "maze,wordle", "--data", str(data_dir()), "--no-save"],
        ["benchmark.blocking", "--no-save"],
    ],
    ids=lambda command: command[0],
)
def test_sigterm_ends_a_benchmark_its_servers_and_its_folders(
    command: list[str], tmp_path: Path
) -> None:
    if "--data" in command:
        require_data("agenttraj_l/lmrlgym_maze.jsonl.gz", "agenttraj_l/lmrlgym_wordle.jsonl.gz")
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    servers: list[psutil.Process] = []
    try:
        servers = wait_for_servers(process.pid)
        process.terminate()
        _, errors = process.communicate(timeout=HANG)
        _, alive = psutil.wait_procs(servers, timeout=0)
        assert (process.returncode, alive, list(tmp_path.iterdir())) == (143, [], [])
        assert "Traceback" not in errors
    finally:
        for left in (process, *servers):
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        process.wait(HANG)


def wait_for_servers(pid: int) -> list[psutil.Process]:
    """The servers of a command, as soon as one of them listens."""
    until = time.monotonic() + HANG
    while time.monotonic() < until:
        found = psutil.Process(pid).children(recursive=True)
        if any(listens(server) for server in found):
            return found
        time.sleep(0.05)
    raise TimeoutError("no server was started")


def listens(server: psutil.Process) -> bool:
    try:
        return any(
            socket.status in (psutil.CONN_LISTEN, psutil.CONN_NONE) and socket.laddr
            for socket in server.net_connections("all")
        )
    except psutil.Error:
        return False
