"""The way to one server: addresses, TLS, token, and how long to wait for it.

A token travels only where nobody else can read it, unless its owner says otherwise.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import grpc
import grpc.aio

from agent_runtime.errors import ConnectionMisconfigured
from agent_runtime.redaction import remember

__all__ = [
    "TOKEN_VARIABLE",
    "ClientSecurity",
    "ConnectionOptions",
    "check_security",
    "open_channel",
]

TOKEN_VARIABLE: Final = "AGENTGYM_TOKEN"
"""Environment variable with the bearer token: a flag would show in the list of processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """TLS and token of a client; all empty = plain text."""

    ca: Path | None = None
    """PEM roots to verify the server with; giving it turns TLS on."""
    cert: Path | None = None
    """PEM certificate of this client (mTLS)."""
    key: Path | None = None
    """PEM private key of this client (mTLS)."""
    token: str = field(default="", repr=False)
    """Bearer token; it is sent over TLS, to loopback addresses and to Unix sockets only."""
    insecure: bool = False
    """Send the token in plain text to other machines, too."""
    server_name: str = ""
    """Name that the server's certificate has; empty = the address's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How to reach a server, and how long to wait for it."""

    connect_deadline: float = 20.0
    """Seconds to wait for a server to answer at all, at first and after a loss."""
    keepalive: float = 20.0
    """Seconds between pings that notice a dead machine or network."""
    answer_deadline: float = 600.0
    """Seconds to wait for the answer to a command of a server that is alive; more than the longest
    step."""
    silence: float = 120.0
    """Seconds after which a server counts as lost that says nothing while commands wait. It is
    asked for a sign of life before."""
    heartbeat: float = 180.0
    """Seconds between signs of life of episodes whose agent thinks for long: servers end those that
    nobody names, by default after 600 s."""
    max_message_bytes: int = 64 * 1024 * 1024
    security: ClientSecurity = ClientSecurity()

    @classmethod
    def secure(
        cls,
        *,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        token: str | None = None,
        insecure: bool = False,
        connect_deadline: float = 20.0,
        answer_deadline: float = 600.0,
    ) -> Self:
        """Build the options of a client that may speak TLS and carry a token.

        Args:
            ca: PEM roots to verify the server with; turns TLS on.
            cert: PEM certificate of this client (mTLS).
            key: PEM private key of this client (mTLS).
            token: Bearer token; default: the environment variable AGENTGYM_TOKEN.
            insecure: Send the token in plain text to other machines, too.
            connect_deadline: Seconds to wait for a server, at first and after a loss.
            answer_deadline: Seconds to wait for the answer to a command.
        """
        if token is None:
            token = os.environ.get(TOKEN_VARIABLE, "")
        remember(token)
        security = ClientSecurity(ca=ca, cert=cert, key=key, token=token, insecure=insecure)
        return cls(
            connect_deadline=connect_deadline,
            answer_deadline=answer_deadline,
            security=security,
        )


def open_channel(address: str, options: ConnectionOptions) -> grpc.aio.Channel:
    """Return a channel to a server; raises ConnectionMisconfigured. It connects when used."""
    keepalive_ms = int(options.keepalive * 1000)
    settings: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", options.max_message_bytes),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", keepalive_ms // 2),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
    ]
    security = options.security
    check_security(address, security)
    if security.ca is None:
        return grpc.aio.insecure_channel(address, options=settings)
    credentials = grpc.ssl_channel_credentials(
        security.ca.read_bytes(),
        security.key.read_bytes() if security.key else None,
        security.cert.read_bytes() if security.cert else None,
    )
    if security.server_name:
        settings.append(("grpc.ssl_target_name_override", security.server_name))
    return grpc.aio.secure_channel(address, credentials, options=settings)


def check_security(address: str, security: ClientSecurity) -> None:
    """Raise ConnectionMisconfigured for unfit TLS files, or a token that others could read."""
    if security.ca is None:
        if security.cert is not None or security.key is not None:
            raise ConnectionMisconfigured("a client certificate needs --client.ca: it is for TLS")
        if security.token and not security.insecure and not _stays_here(address):
            raise ConnectionMisconfigured(
                f"the token in {TOKEN_VARIABLE} would travel to {address} in plain text: give "
                "--client.ca to speak TLS, or --client.insecure if you mean it"
            )
        return
    if (security.cert is None) != (security.key is None):
        raise ConnectionMisconfigured("--client.cert and --client.key need each other")
    try:
        for path in (security.ca, security.cert, security.key):
            if path is not None:
                path.open("rb").close()  # names the file in its error, which OpenSSL does not
        context = ssl.create_default_context(cafile=security.ca)
        if security.cert is not None:
            context.load_cert_chain(security.cert, security.key)
    except ssl.SSLError as error:
        raise ConnectionMisconfigured(
            f"--client.ca, --client.cert and --client.key are no PEM files that fit: {error}"
        ) from error
    except OSError as error:
        raise ConnectionMisconfigured(f"cannot read the files of TLS: {error}") from error


def _stays_here(address: str) -> bool:
    """Tell whether what is sent to an address stays on this machine."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rpartition("/")[2].removeprefix("dns:")
    host = host.removeprefix("ipv4:").removeprefix("ipv6:").rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
