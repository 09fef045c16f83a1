"""A package that the scaffold wrote, installed beside the wheel: every command knows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from env_servers.cli.new import create

REPOSITORY = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


def clean_environment() -> dict[str, str]:
    """Nothing of this checkout is importable."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class Installation:
    """A virtual environment, and a folder in which its commands run."""

    def __init__(self, root: Path) -> None:
        self.python = str(root / "venv" / "bin" / "python")
        self.folder = root / "work"
        self.folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)

    def install(self, *requirements: str) -> None:
        pins = ["-c", str(REPOSITORY / "constraints.txt")]
        done = self.run("pip", "install", "-q", *pins, *requirements)
        if "No matching distribution" in done.stderr or "Connection" in done.stderr:
            pytest.skip("packages cannot be had here")
        assert done.returncode == 0, done.stderr[-2000:]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-m", *command],
            cwd=self.folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def output(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    builders = pytest.importorskip("hatchling.builders.wheel", reason="needs the extra `dev`")
    root = tmp_path_factory.mktemp("installed")
    (wheel,) = builders.WheelBuilder(str(REPOSITORY)).build(directory=str(root))
    project = create("dice", root / "projects", project=True).root
    made = Installation(root)
    made.install(f"{wheel}[viewer]", str(project))
    return made


def test_it_is_listed_and_keeps_the_contract(installation: Installation) -> None:
    assert "dice" in installation.output("env_servers", "list")
    assert "0 failed" in installation.output("env_servers", "check", "dice")


def test_it_is_sampled_and_viewed(installation: Installation) -> None:
    installation.output(
        "orchestrator.sample", "--env", "dice", "--policy", "expert", "--episodes", "3",
        "--out", "runs/dice",
    )  # fmt: skip
    assert "dice_" in installation.output("orchestrator.show", "runs/dice", "--list")
    viewer = subprocess.Popen(
        [installation.python, "-m", "orchestrator.view", "runs", "--port", "0"],
        cwd=installation.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert viewer.stdout is not None
        address = re.fullmatch(r"(http://[^/]+)/\?token=(\S+)\s*", viewer.stdout.readline())
        assert address is not None
        request = urllib.request.Request(
            f"{address[1]}/api/runs", headers={"Authorization": f"Bearer {address[2]}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            (run,) = json.load(answer)["runs"]
    finally:
        viewer.terminate()
        viewer.wait()
    assert run["run"] == "runs/dice"
