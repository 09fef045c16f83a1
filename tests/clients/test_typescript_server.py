"""The server kit in TypeScript, from its lock file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.playing import build, needs
from tests.clients.serving import conforms, plays_as_ours

# Compilers on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_server_in_typescript_conforms_and_plays_as_ours(tmp_path: Path, server_process) -> None:
    needs("node", "npm")
    install = ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"]
    folder = build("typescript/server", install, ["npm", "run", "build"], ["npm", "test"])
    echo = ["node", folder / "dist/examples/echo.js"]
    plays_as_ours(echo, tmp_path, server_process)
    conforms(echo, tmp_path)
