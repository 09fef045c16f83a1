"""A server of echo that lets in only who has a certificate and the token."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["TOKEN", "serve_secure_echo", "write_certificates"]

TOKEN = "sesame"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


def write_certificates(folder: Path, *clients: str) -> Path:
    """Write ca.pem, and key pairs of server, client and more clients that it signed.

    Returns the folder.
    """
    _certify(folder, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test ca")
    for name in ("server", "client", *clients):
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-subj", f"/CN={name}"]
        signed += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        signed += ["-addext", "basicConstraints=critical,CA:FALSE"]
        _certify(folder, "-keyout", f"{name}.key", "-out", f"{name}.pem", *signed)
    return folder


def _certify(folder: Path, *arguments: str) -> None:
    command = ["openssl", "req", "-x509", *_KEY, *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@contextmanager
def serve_secure_echo(certificates: Path, folder: Path) -> Iterator[str]:
    """Serve echo with TLS, client certificates and a token; yields its address."""
    ready = folder / "address"
    command = [sys.executable, "-m", "env_servers", "serve", "echo", "--bind", "127.0.0.1:0"]
    command += ["--address-file", str(ready), "--drain", "0"]
    command += ["--tls-cert", str(certificates / "server.pem")]
    command += ["--tls-key", str(certificates / "server.key")]
    command += ["--client-ca", str(certificates / "ca.pem")]
    server = subprocess.Popen(command, env={**os.environ, "AGENTGYM_TOKEN": TOKEN})
    try:
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline and server.poll() is None:
            time.sleep(0.02)
        yield f"localhost:{ready.read_text().split()[0].rpartition(':')[2]}"
    finally:
        server.kill()
        server.wait()
