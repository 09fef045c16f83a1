"""The client in TypeScript, from its lock file."""

from __future__ import annotations

import pytest

from tests.clients.playing import build, needs, plays_through_losses

# Compilers on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def test_the_typescript_client_wins_through_losses(server_process) -> None:
    needs("node", "npm")
    install = ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"]
    folder = build("typescript", install, ["npm", "run", "build"])
    await plays_through_losses(["node", folder / "dist/examples/play.js"], server_process)
