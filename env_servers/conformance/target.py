"""The server under test: where it is and how to be let in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

__all__ = ["MAX_MESSAGE_BYTES", "Target"]

MAX_MESSAGE_BYTES: Final = 128 * 1024 * 1024
"""Above any server's own limit, so that it is the server's that is met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server and one of its environments."""

    address: str
    """host:port or unix:PATH."""
    environment: str = "echo"
    """`echo` makes every check possible; the others skip what needs its options."""
    ca: Path | None = None
    """PEM roots to verify the server with; giving it turns TLS on."""
    cert: Path | None = None
    """PEM certificate of this client (mTLS)."""
    key: Path | None = None
    """PEM private key of this client (mTLS)."""
    token: str = ""
    """Bearer token."""
    other_token: str = ""
    """Bearer token of another client, with the scope play; empty = its rules are skipped."""
    operator_token: str = ""
    """Bearer token of a third one, with the scope operate alone; empty = its rules are skipped."""
    drain_command: str = ""
    """Shell command that makes the server drain, for the check that ends it; empty = skipped."""
    timeout: float = 10.0
    """Seconds that an answer may take before a check gives up."""

    def channel(self) -> grpc.aio.Channel:
        """A new channel with a connection of its own; the caller closes it."""
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if self.ca is None:
            return grpc.aio.insecure_channel(self.address, options=options)
        credentials = grpc.ssl_channel_credentials(
            self.ca.read_bytes(),
            self.key.read_bytes() if self.key else None,
            self.cert.read_bytes() if self.cert else None,
        )
        return grpc.aio.secure_channel(self.address, credentials, options=options)

    def metadata(self, token: str = "") -> tuple[tuple[str, str], ...]:
        """What every call carries; `token` is another client's."""
        shown = token or self.token
        return (("authorization", f"Bearer {shown}"),) if shown else ()
