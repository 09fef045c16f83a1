"""A real server started with the manifests' own arguments lives and ends as they rely on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from env_servers.conformance.verdicts import expect_error
from tests.deploy.manifests import KUBERNETES, read
from tests.env_servers.server.conftest import harness_for
from tests.kit.secure_server import write_certificates

PORTS = ("50051", "9090")


def free_ports() -> list[str]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in PORTS]
    ports = [str(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def pod_arguments(certificates: Path, ports: list[str]) -> list[str]:
    """The base Deployment's arguments on ports and certificates of this test."""
    deployment = read(KUBERNETES / "base" / "deployment.yaml")[0]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    places = {
        "/tls/tls.crt": str(certificates / "server.pem"),
        "/tls/tls.key": str(certificates / "server.key"),
        "/tls/ca.crt": str(certificates / "ca.pem"),
        "0.0.0.0": "127.0.0.1",
        **dict(zip(PORTS, ports, strict=True)),
    }
    arguments = list(container["args"])
    for written, here in places.items():
        arguments = [it.replace(written, here) for it in arguments]
    return [*arguments, "echo"]


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path, list[str]]]:
    certificates, ports = write_certificates(tmp_path), free_ports()
    command = [sys.executable, "-m", "env_servers", "serve", *pod_arguments(certificates, ports)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ})
        try:
            yield server, certificates, ports
        finally:
            server.kill()
            server.wait()


def status(port: str, name: str) -> int:
    """What a probe gets; 0 = nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=10) as page:
            return page.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


async def until(port: str, name: str, wanted: int) -> None:
    async with asyncio.timeout(60):
        while await asyncio.to_thread(status, port, name) != wanted:
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_sigterm_makes_a_pod_unready_lets_its_episodes_end_and_it_exits_with_0(
    pod: tuple[subprocess.Popen[bytes], Path, list[str]],
) -> None:
    server, certificates, (port, metrics) = pod
    await until(metrics, "ready", 200)
    security = {
        "ca": certificates / "ca.pem",
        "cert": certificates / "client.pem",
        "key": certificates / "client.key",
    }
    async with harness_for(f"localhost:{port}", **security) as harness:
        play = await harness.play(length=3)
        server.send_signal(signal.SIGTERM)
        await until(metrics, "ready", 503)
        assert await asyncio.to_thread(status, metrics, "live") == 200
        expect_error(await play.stream.ask(harness.reset()), "DRAINING")
        await play.steps(3)
        assert play.ended
        await play.stream.wait_end()
    assert await asyncio.to_thread(server.wait, 60) == 0
