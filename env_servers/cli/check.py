"""`python -m env_servers check`: an environment's contract, or a server's protocol."""

from __future__ import annotations

import os
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from env_servers.sdk import EnvironmentConfig, SdkError, environment_names
from env_servers.sdk.data import official_data_dir
from env_servers.server.security import SecurityMisconfigured, load_tls_files, stays_here

__all__ = ["Check"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """Check an environment against the author's contract, or a server against the protocol."""

    name: tyro.conf.Positional[str] = ""
    """The environment; with --target: the one that the server is checked with (default: echo)."""
    target: str = ""
    """Address of a running server, in any language, to check for protocol conformance."""
    ca: Path | None = None
    """With --target: PEM roots to verify the server with; turns TLS on."""
    cert: Path | None = None
    """With --target: PEM certificate of this client (mTLS)."""
    key: Path | None = None
    """With --target: PEM private key of this client (mTLS)."""
    insecure: bool = False
    """With --target: send the token to other machines in plain text, too."""
    checks: tuple[str, ...] = ()
    """With --target: only these checks (`R16.2`) and rules (`R16`)."""
    drain_command: str = ""
    """With --target: a shell command that makes the server drain ('kill -TERM PID'), for the check
    that ends it."""
    json: Path | None = None
    """With --target: write the report to this file as JSON."""
    junit: Path | None = None
    """With --target: write the report to this file as JUnit XML."""
    expert_success: float = 1.0
    """Least share of tasks that the expert has to win, for games that cannot always be won."""
    data: Path | None = None
    """Folder of official data files; default: AGENTGYM_DATA."""

    def run(self) -> int:
        """Check; returns 0 when everything holds, 1 when not."""
        if self.target:
            from env_servers.conformance import check_server

            token = "AGENTGYM_TOKEN" in os.environ
            if token and not (self.ca or self.insecure) and not stays_here(self.target):
                raise SdkError(
                    f"the token in AGENTGYM_TOKEN would travel to {self.target} in plain text: "
                    "give --ca to speak TLS, or --insecure if you mean it"
                )
            self._check_tls_files()
            return check_server(
                self.target,
                self.name or "echo",
                ca=self.ca,
                cert=self.cert,
                key=self.key,
                checks=self.checks,
                drain_command=self.drain_command,
                json=self.json,
                junit=self.junit,
            )
        if self.checks or self.drain_command or self.json or self.junit:
            raise SdkError("--checks, --drain-command, --json and --junit need --target")
        if not self.name:
            raise SdkError(
                "name an environment, or a server with --target", valid=environment_names()
            )
        from env_servers.sdk.contract import Terms, run_contract

        if not 0 <= self.expert_success <= 1:
            raise SdkError(f"--expert-success {self.expert_success} is no share: 0 to 1")
        config = EnvironmentConfig(self.data or official_data_dir())
        terms = Terms(expert_success=self.expert_success)
        report = run_contract(self.name, config=config, terms=terms)
        sys.stdout.write(report.text() + "\n")
        return 0 if report.passed else 1

    def _check_tls_files(self) -> None:
        """Raise SdkError for files that gRPC would only answer with silence to."""
        if (self.cert is None) != (self.key is None) or (self.cert and not self.ca):
            raise SdkError("--cert and --key need each other, and --ca")
        try:
            load_tls_files(
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                ca=self.ca,
                cert=self.cert,
                key=self.key,
                flags="--ca, --cert and --key",
            )
        except SecurityMisconfigured as error:
            raise SdkError(str(error)) from error
