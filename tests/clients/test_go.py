"""The client in Go, with the Go packages of a Debian system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.playing import build, needs, plays_through_losses
from tests.kit.data import REPOSITORY

# Compilers on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PACKAGES = Path("/usr/share/gocode")


async def test_the_go_client_wins_through_losses(server_process) -> None:
    needs("buf", "go", "protoc-gen-go", "protoc-gen-go-grpc")
    if not (PACKAGES / "src/google.golang.org/protobuf").is_dir():
        pytest.skip("not installed: golang-google-grpc-dev, golang-github-golang-protobuf-1-5-dev")
    workspace = REPOSITORY / "clients/go/build/gopath"
    source = workspace / "src/agentgym"
    source.parent.mkdir(parents=True, exist_ok=True)
    if not source.is_symlink():
        source.symlink_to(REPOSITORY / "clients/go")
    folder = build(
        "go",
        ["buf", "generate"],
        ["go", "build", "-o", "build/play", "agentgym/examples/play"],
        GO111MODULE="off",
        GOPATH=f"{workspace}:{PACKAGES}",
    )
    await plays_through_losses([folder / "build/play"], server_process)
