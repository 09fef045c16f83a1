"""A server made with the kit of another language: its echo conforms, and plays as ours does.

The program gets HOST:PORT and limits (`maxEpisodes=48`), takes its tokens from the environment,
prints the address that it was bound to, and drains on SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentgym.episode.v1 import episode_pb2
from orchestrator.store import RunReader
from tests.kit.data import REPOSITORY
from tests.kit.server_process import ServerProcess

__all__ = ["conforms", "plays_as_ours"]

_TOKENS = {
    "AGENTGYM_TOKEN": "sesame",
    "AGENTGYM_OTHER_TOKEN": "open",
    "AGENTGYM_OPERATOR_TOKEN": "watch",
}
_LIMITS = {
    "maxEpisodes": 48,
    "maxInFlight": 16,
    "maxTextBytes": 256 * 1024,
    "maxJournalBytes": 1024 * 1024,
    "idleLimitMs": 2500,
}
"""So low that every limit can be met by the suite."""
_NOT_MADE = {"R64.2"}
"""Of environments without pictures, and echo has some."""
_COMPARED = ("item_id", "category", "messages", "steps", "reward", "terminated", "stop_reason")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_END_SECONDS = 30.0


def conforms(program: Sequence[str | Path], folder: Path) -> None:
    """The whole suite in one run, the drain at its end: nothing failed, and nothing left out."""
    report = folder / "report.json"
    limits = [f"{name}={value}" for name, value in _LIMITS.items()]
    with _served([*program, "127.0.0.1:0", *limits], **_TOKENS) as (address, process):
        drain = ["--drain-command", f"kill -TERM {process.pid}"]
        printed = _run(
            "env_servers", "check", "--target", address, "--json", str(report), *drain, **_TOKENS
        )
        checks = json.loads(report.read_text())["checks"]
        skipped = {check["id"] for check in checks if check["verdict"] == "skipped"}
        assert skipped == _NOT_MADE, printed
        assert process.wait(_END_SECONDS) == 0


def plays_as_ours(
    program: Sequence[str | Path], folder: Path, server_process: Callable[..., ServerProcess]
) -> None:
    """Sampled, its records say what those of our own echo say: messages, steps, rewards."""
    ours = server_process(environments=["echo"], bind=["127.0.0.1:0"])
    with _served([*program, "127.0.0.1:0"]) as (address, _):
        theirs = _sampled(address, folder / "theirs")
    assert theirs == _sampled(ours.address, folder / "ours")
    assert len(theirs) == 3
    assert {episode.reward for episode in theirs.values()} == {1.0}


def _sampled(address: str, folder: Path) -> dict[str, episode_pb2.Episode]:
    """Three episodes by item, without what no two runs or servers have in common."""
    _run(
        "orchestrator.sample", "--env", "echo", "--servers", address, "--policy", "expert",
        "--episodes", "3", "--out", str(folder),
    )  # fmt: skip
    told: dict[str, episode_pb2.Episode] = {}
    with RunReader.open(folder) as reader:
        for episode in reader.episodes():
            kept = {name: getattr(episode, name) for name in _COMPARED}
            told[episode.item_id] = episode_pb2.Episode(**kept)
            for step in told[episode.item_id].steps:
                step.ClearField("state_hash")
                step.ClearField("seconds")
    return told


@contextlib.contextmanager
def _served(
    command: Sequence[str | Path], **environment: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running server's address and process."""
    process = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        address = _ADDRESS.search(process.stdout.readline())
        assert address is not None, "the server ended before it said where it listens"
        yield address[0], process
    finally:
        process.kill()
        process.wait()


def _run(module: str, *arguments: str, **environment: str) -> str:
    path = f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'gen'}"
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout
