"""A run that is watched records what it would have: the embedded engine, token by token."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("tokenizers", reason="the extra `agent` is not installed")

from agentgym.episode.v1 import episode_pb2
from orchestrator import sample
from orchestrator.live_messages import SOCKET_FILE, Answer, Listing, Update
from orchestrator.store import RunReader

FLAGS = ["--env", "maze", "--policy", "agent", "--episodes", "3", "--spawn", "1"]
# One at a time: which contexts are computed together changes the last digits of a logprob.
FLAGS += ["--embedded.backend", "numpy", "--temperature", "1", "--concurrency", "1"]


def play(folder: Path) -> list[bytes]:
    """Play three mazes; returns their records without what no two runs have in common."""
    assert sample.main([*FLAGS, "--out", str(folder)]) == 0
    records: dict[str, bytes] = {}
    with RunReader.open(folder) as run:
        for record in run.episodes():
            for name in ("run_id", "episode_id", "started_unix_ms", "ended_unix_ms"):
                record.ClearField(name)
            record.ClearField("environment_seconds")
            record.ClearField("policy_seconds")
            for part in (*record.generations, *record.steps):
                part.ClearField("seconds")
            records[record.item_id] = record.SerializeToString(deterministic=True)
    return [records[item] for item in sorted(records)]


class Watcher(threading.Thread):
    """Watches one episode after the other until the run has ended."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.address = str(folder / SOCKET_FILE)
        self.over = threading.Event()
        self.drafts: list[str] = []
        self.replies: set[str] = set()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                (listing,) = self.ask({})
                assert isinstance(listing, Listing)
                for state in listing.episodes:
                    self.watch(self.ask({"episode_id": state.episode_id}))
            except (OSError, ValueError):  # not begun, or just ended
                time.sleep(0.005)

    def ask(self, question: object) -> list[Answer]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.address)
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile("rb") as lines:
                return [msgspec.json.decode(line, type=Answer) for line in lines]

    def watch(self, answers: list[Answer]) -> None:
        for update in answers:
            if isinstance(update, Update):
                self.drafts.append(update.draft)
                episode = episode_pb2.Episode.FromString(update.record)
                self.replies.update(it.text for it in episode.messages if it.sampled)


def test_records_are_equal_with_and_without_somebody_who_watches(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "watched")
    watcher.start()
    watched = play(tmp_path / "watched")
    watcher.over.set()
    watcher.join()
    assert watched == play(tmp_path / "unwatched")
    begun = {draft for draft in watcher.drafts if draft} - watcher.replies
    assert any(reply.startswith(draft) for draft in begun for reply in watcher.replies)
