"""What is under deploy/, read for tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.data import REPOSITORY

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (the extra `deploy`)")

DEPLOY = REPOSITORY / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
FLEETS = ("environments", "sciworld", "webarena")

Object = dict[str, Any]


def read(path: Path) -> list[Object]:
    """The objects of a file."""
    return [it for it in yaml.safe_load_all(path.read_text()) if it is not None]


def files() -> Iterator[Path]:
    """Files of objects that are meant for a cluster, as they were written."""
    for folder in (KUBERNETES, DEPLOY / "monitoring"):
        for kustomization in sorted(folder.rglob("kustomization.yaml")):
            for name in read(kustomization)[0]["resources"]:
                path = kustomization.parent / name
                if path.is_file():
                    yield path


def rendered(folder: Path) -> list[Object]:
    """The objects of a kustomization; skips the test where nobody can make them."""
    if shutil.which("kustomize"):
        command = ["kustomize", "build"]
    elif shutil.which("kubectl"):
        command = ["kubectl", "kustomize"]
    else:
        pytest.skip("neither kustomize nor kubectl is installed")
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [it for it in yaml.safe_load_all(done.stdout) if it is not None]


def only(objects: list[Object], kind: str) -> Object:
    """The one object of a kind."""
    (found,) = (it for it in objects if it["kind"] == kind)
    return found
