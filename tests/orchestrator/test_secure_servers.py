"""Servers with TLS, client certificates and a token can be sampled from and replayed on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import replay, sample

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


def certify(folder: Path, *arguments: str) -> None:
    command = ["openssl", "req", "-x509", *KEY, *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, and key pairs of server and client that it signed."""
    folder = tmp_path_factory.mktemp("certificates")
    certify(folder, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test ca")
    for name in ("server", "client"):
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-subj", f"/CN={name}"]
        signed += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        signed += ["-addext", "basicConstraints=critical,CA:FALSE"]
        certify(folder, "-keyout", f"{name}.key", "-out", f"{name}.pem", *signed)
    return folder


@pytest.fixture
def address(certificates: Path, tmp_path: Path) -> Iterator[str]:
    """A server of echo that lets in only who has a certificate and the token."""
    ready = tmp_path / "address"
    command = [sys.executable, "-m", "env_servers", "serve", "echo", "--bind", "127.0.0.1:0"]
    command += ["--address-file", str(ready), "--drain", "0"]
    command += ["--tls-cert", str(certificates / "server.pem")]
    command += ["--tls-key", str(certificates / "server.key")]
    command += ["--client-ca", str(certificates / "ca.pem")]
    server = subprocess.Popen(command, env={**os.environ, "AGENTGYM_TOKEN": "sesame"})
    try:
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline and server.poll() is None:
            time.sleep(0.02)
        yield f"localhost:{ready.read_text().split()[0].rpartition(':')[2]}"
    finally:
        server.kill()
        server.wait()


def test_what_was_sampled_over_tls_is_replayed_over_tls(
    certificates: Path,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", "sesame")
    reach = ["--servers", address, "--client.connect-deadline", "5"]
    secure = [*reach, "--client.ca", str(certificates / "ca.pem")]
    secure += ["--client.cert", str(certificates / "client.pem")]
    secure += ["--client.key", str(certificates / "client.key")]
    run = str(tmp_path / "run")
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "2", "--out", run]
    assert sample.main([*flags, *secure]) == 0
    assert replay.main([run, *secure]) == 0
    monkeypatch.setenv("AGENTGYM_TOKEN", "wrong")
    capsys.readouterr()
    assert replay.main([run, *secure]) == 1
    assert "token" in capsys.readouterr().err.lower()
