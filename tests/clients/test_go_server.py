"""The server kit in Go, with the Go packages of a Debian system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.playing import build, go_workspace
from tests.clients.serving import conforms, plays_as_ours

# Compilers on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_server_in_go_conforms_and_plays_as_ours(tmp_path: Path, server_process) -> None:
    workspace = go_workspace()
    folder = build(
        "go",
        ["buf", "generate"],
        ["go", "test", "agentgym/server"],
        ["go", "build", "-o", "build/echo", "agentgym/examples/echo"],
        **workspace,
    )
    plays_as_ours([folder / "build/echo"], tmp_path, server_process)
    conforms([folder / "build/echo"], tmp_path)
