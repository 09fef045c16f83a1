"""What `env_servers play` and `serve` do with WebArena, on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from tests.env_servers.environments.webarena.chromium import needs_chromium

pytestmark = pytest.mark.slow


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "env_servers", *command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **variables},
    )


def test_a_server_without_a_browser_says_how_one_is_installed(tmp_path: Path) -> None:
    nowhere = {"PATH": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    served = run("serve", "webarena", **nowhere)
    assert served.returncode != 0
    assert "no Chromium is installed: run `playwright install chromium`" in served.stderr
    assert "apt-get install chromium-headless-shell" in served.stderr
    assert "Traceback" not in served.stderr


def test_a_server_with_an_old_browser_says_how_a_newer_one_is_installed(tmp_path: Path) -> None:
    old = tmp_path / "chromium"
    old.write_text("#!/bin/sh\necho Chromium 112.0.5614.0\n", encoding="utf-8")
    old.chmod(0o755)
    served = run("serve", "webarena", "--set", f"webarena.browser={old}")
    assert served.returncode != 0
    assert "is Chromium 112.0.5614.0, at least 150 is needed" in served.stderr
    assert "playwright install chromium" in served.stderr
    assert "Traceback" not in served.stderr


@needs_chromium
def test_it_is_played_in_the_terminal() -> None:
    options = ("--options", "tree=full", "--options", "dialect=chromium_112")
    played = run("play", "webarena", "--split", "eval", "--expert", *options)
    assert played.returncode == 0, played.stderr
    assert "RootWebArea" in played.stdout
    assert " url: " not in played.stdout
    assert "score 1, over: goal reached" in played.stdout
