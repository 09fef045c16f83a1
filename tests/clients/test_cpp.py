"""The client in C++, with the libraries of a Debian system."""

from __future__ import annotations

import pytest

from tests.clients.playing import build, needs, needs_library, plays_through_losses

# Compilers on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def test_the_cpp_client_wins_through_losses(server_process) -> None:
    needs("buf", "protoc", "grpc_cpp_plugin", "cmake", "c++", "pkg-config")
    needs_library("grpc++", "protobuf")
    folder = build(
        "cpp",
        ["buf", "generate"],
        ["cmake", "-S", ".", "-B", "build"],
        ["cmake", "--build", "build"],
    )
    await plays_through_losses([folder / "build/play"], server_process)
