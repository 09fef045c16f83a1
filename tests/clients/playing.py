"""A client in another language plays through losses: built from its sources, run as a program.

Its example gets HOST:PORT, a number of episodes and names of environments, plays those episodes of
each with the expert's actions, and prints a line for each and one at the end:

    wordle_2000000 score 1 steps 2
    reconnects 5 rebuilds 2
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import pytest

from agentgym.env.v1 import environment_pb2, environment_pb2_grpc
from tests.kit.data import REPOSITORY
from tests.kit.proxy import FaultyProxy
from tests.kit.server_process import ServerProcess

__all__ = ["build", "go_workspace", "needs", "needs_library", "plays_through_losses"]

ENVIRONMENTS = ("wordle", "textcraft")
EPISODES = 10
_TOKEN = "sesame"
_PATIENCE_SECONDS = 120.0
_EPISODE = re.compile(r"(?P<environment>[a-z]+)_\d+ score (?P<score>\S+) steps (?P<steps>\d+)")
_TOTALS = re.compile(r"reconnects (?P<reconnects>\d+) rebuilds (?P<rebuilds>\d+)")


def needs(*programs: str) -> None:
    """Skip the test where a program is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def needs_library(*names: str) -> None:
    """Skip the test where pkg-config does not know a library."""
    if subprocess.run(["pkg-config", "--exists", *names], check=False).returncode:
        pytest.skip(f"not installed: {', '.join(names)}")


def build(language: str, *commands: Sequence[str], **environment: str) -> Path:
    """Run commands in the client's folder, and return it."""
    folder = REPOSITORY / "clients" / language
    for command in commands:
        done = subprocess.run(
            ["nice", "env", *(f"{name}={value}" for name, value in environment.items()), *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}"
    return folder


def go_workspace() -> dict[str, str]:
    """Variables that let Go find the client and Debian's packages; skip the test without."""
    needs("buf", "go", "protoc-gen-go", "protoc-gen-go-grpc")
    packages = Path("/usr/share/gocode")
    if not (packages / "src/google.golang.org/protobuf").is_dir():
        pytest.skip("not installed: golang-google-grpc-dev, golang-github-golang-protobuf-1-5-dev")
    workspace = REPOSITORY / "clients/go/build/gopath"
    source = workspace / "src/agentgym"
    source.parent.mkdir(parents=True, exist_ok=True)
    if not source.is_symlink():
        source.symlink_to(REPOSITORY / "clients/go")
    return {"GO111MODULE": "off", "GOPATH": f"{workspace}:{packages}"}


async def plays_through_losses(
    program: Sequence[str | Path], server_process: Callable[..., ServerProcess]
) -> None:
    """Four streams are dropped, and a server is killed and replaced; every episode is won.

    The servers want a token. Afterwards the client is refused, and says why.
    """
    options = {
        "environments": list(ENVIRONMENTS),
        "bind": ["127.0.0.1:0"],
        "security": {"token": _TOKEN},
    }
    first, second = server_process(**options), server_process(**options)
    async with FaultyProxy(first.address) as proxy:

        def replace() -> None:
            # In the middle of an episode, which the client has then to rebuild; else one chunk on.
            if not any(it.seq > 0 and not it.ended for it in _live_episodes(first)):
                proxy.plan[proxy.counts["chunks"] + 1] = replace
                return
            proxy.retarget(second.address)
            proxy.cut()
            first.kill()

        proxy.plan = {20: proxy.cut, 35: proxy.cut, 47: replace, 65: proxy.cut, 80: proxy.cut}
        status, printed = await _run([*program, proxy.address, str(EPISODES), *ENVIRONMENTS])
        assert status == 0, printed
        assert (proxy.counts["cuts"], proxy.plan) == (5, {}), proxy.counts
    *episodes, totals = printed.splitlines()
    played = [_EPISODE.fullmatch(line) for line in episodes]
    assert all(played), printed
    names = [line["environment"] for line in played if line]
    assert {name: names.count(name) for name in names} == dict.fromkeys(ENVIRONMENTS, EPISODES)
    assert {float(line["score"]) for line in played if line} == {1.0}, printed
    told = _TOTALS.fullmatch(totals)
    assert told is not None, printed
    assert int(told["reconnects"]) >= 5
    assert int(told["rebuilds"]) >= 1
    for environment, token, reason in (
        ("nowhere", _TOKEN, "UNKNOWN_ENVIRONMENT"),
        (ENVIRONMENTS[0], "wrong", "UNAUTHENTICATED"),
    ):
        status, printed = await _run([*program, second.address, "1", environment], token)
        assert status == 1, printed
        (line,) = printed.splitlines()
        assert f"{reason}: " in line


def _live_episodes(server: ServerProcess) -> Sequence[environment_pb2.EpisodeSummary]:
    with grpc.insecure_channel(server.address) as channel:
        service = environment_pb2_grpc.EnvironmentServiceStub(channel)
        request = environment_pb2.ListEpisodesRequest()
        authorization = (("authorization", f"Bearer {_TOKEN}"),)
        return service.ListEpisodes(request, metadata=authorization).episodes


async def _run(command: Sequence[str | Path], token: str = _TOKEN) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "AGENTGYM_TOKEN": token},
    )
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, printed.decode()
