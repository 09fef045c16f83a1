"""A real run, played by the gated policy in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from orchestrator.live_messages import SOCKET_FILE


class LiveRun:
    """A run that goes on as far as it may."""

    def __init__(self, folder: Path, gate: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self._gate = gate

    def allow_words(self, count: int) -> None:
        """Let the policy write some more words, whichever episode's they are."""
        with (self._gate / "words").open("ab") as words:
            words.write(b"." * count)

    def open_gate(self) -> None:
        """Let the run go on to its end."""
        (self._gate / "open").touch()

    def wait(self) -> int:
        """Return how the run's process ended."""
        self.open_gate()
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def play_live(folder: Path, *flags: str) -> Iterator[LiveRun]:
    """Begin a run; gives it when its episodes are live. It is killed at the end of the block."""
    gate = folder.parent.parent / f"{folder.name}.gate"
    gate.mkdir(parents=True)
    (gate / "words").touch()
    policy = f"tests.orchestrator.gated_policy:Gated:{gate}"
    command = [sys.executable, "-m", "orchestrator.sample", "--policy", policy]
    command += ["--spawn", "1", "--out", str(folder), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            while not (folder / SOCKET_FILE).exists():
                assert process.poll() is None, process.stdout.read().decode()
                time.sleep(0.05)
            yield LiveRun(folder, gate, process)
        finally:
            process.kill()
