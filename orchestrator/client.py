"""How environment servers are reached: one builder of connection options for everything that plays.

`sample`, `evaluate`, `replay` and training take the same `ClientConfig`, so that a server that can
be sampled from over TLS can be replayed and trained on over TLS, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_runtime.channel import ConnectionOptions

__all__ = ["ClientConfig", "connection_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How to reach environment servers."""

    connect_deadline: float = 20.0
    """Seconds to wait for a server, at first and after a loss."""
    answer_deadline: float = 600.0
    """Seconds to wait for a server's answer to a command; more than the longest step."""
    ca: Path | None = None
    """PEM roots to verify servers with; turns TLS on."""
    cert: Path | None = None
    """PEM certificate of this client (mTLS)."""
    key: Path | None = None
    """PEM private key of this client (mTLS)."""
    insecure: bool = False
    """Send the token of AGENTGYM_TOKEN to other machines in plain text, too."""


def connection_options(client: ClientConfig) -> ConnectionOptions:
    """Return how to reach the servers; the bearer token comes from AGENTGYM_TOKEN."""
    return ConnectionOptions.secure(
        ca=client.ca,
        cert=client.cert,
        key=client.key,
        insecure=client.insecure,
        connect_deadline=client.connect_deadline,
        answer_deadline=client.answer_deadline,
    )
