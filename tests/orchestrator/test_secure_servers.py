"""Servers with TLS, client certificates and a token can be sampled from and replayed on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import replay, sample
from tests.kit.secure_server import TOKEN, serve_secure_echo, write_certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def address(certificates: Path, tmp_path: Path) -> Iterator[str]:
    with serve_secure_echo(certificates, tmp_path) as address:
        yield address


def test_what_was_sampled_over_tls_is_replayed_over_tls(
    certificates: Path,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    reach = ["--servers", address, "--client.connect-deadline", "5"]
    secure = [*reach, "--client.ca", str(certificates / "ca.pem")]
    secure += ["--client.cert", str(certificates / "client.pem")]
    secure += ["--client.key", str(certificates / "client.key")]
    run = str(tmp_path / "run")
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "2", "--out", run]
    assert sample.main([*flags, *secure]) == 0
    assert replay.main([run, *secure]) == 0
    assert sample.main(["--resume", run]) == 0, "a resume needs no other flag"
    monkeypatch.setenv("AGENTGYM_TOKEN", "wrong")
    capsys.readouterr()
    assert replay.main([run, *secure]) == 1
    assert "token" in capsys.readouterr().err.lower()
