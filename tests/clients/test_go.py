"""The client in Go, with the Go packages of a Debian system."""

from __future__ import annotations

import pytest

from tests.clients.playing import build, go_workspace, plays_through_losses

# Compilers on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def test_the_go_client_wins_through_losses(server_process) -> None:
    workspace = go_workspace()
    folder = build(
        "go",
        ["buf", "generate"],
        ["go", "build", "-o", "build/play", "agentgym/examples/play"],
        **workspace,
    )
    await plays_through_losses([folder / "build/play"], server_process)
