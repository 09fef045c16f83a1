"""The flags of gateways; those of one kind say so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import tyro

__all__ = ["TOKEN_VARIABLE", "GatewayOptions"]

TOKEN_VARIABLE: Final = "AGENTGYM_GATEWAY_TOKEN"


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """What a gateway is told."""

    kind: tyro.conf.Positional[Literal["agentgym", "mcp", "openenv", "rest"]]
    """Protocol: agentgym = AgentGym's HTTP routes, which its clients and trainers speak; mcp = MCP
    servers, one for each environment; openenv = OpenEnv's WebSocket and HTTP; rest = JSON for curl,
    browsers and Connect's clients."""
    environments: tyro.conf.Positional[tuple[str, ...]] = ()
    """Names of environments, see `list`; with --target: default all that the servers have."""
    target: tuple[str, ...] = ()
    """Addresses of running servers, host:port or unix:PATH; none = servers are started here."""
    servers: int = 1
    """Server processes to start where there is no --target."""
    data: Path | None = None
    """Folder of official data files for started servers; default: AGENTGYM_DATA."""
    set: tuple[str, ...] = ()
    """Settings of environments for started servers, as NAME.KEY=VALUE."""
    split: str = ""
    """agentgym: split whose tasks the clients' numbers count; default: the original's numbers where
    its tasks are there (--data), else the first split. openenv: split of resets that name none."""
    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback a gateway wants a token of your own, and what it says
    travels unencrypted: put a proxy with TLS before it."""
    port: int = 8080
    """Port to listen on; 0 = any that is free."""
    token: str = ""
    """What clients have to know, as bearer token or password; default: nothing on loopback. Flags
    show in the list of processes: the environment variable AGENTGYM_GATEWAY_TOKEN is read, too."""
    origin: tuple[str, ...] = ()
    """Origins whose web pages may ask, for example http://localhost:3000."""
    idle_minutes: float = 60.0
    """An episode that nobody asks for so long is closed."""
    stdio: bool = False
    """mcp: answer on standard input and output, for the one client that starts the command."""
    answer_seconds: float = 50.0
    """openenv: a WebSocket is ended whose request was not answered for so long. Keep it below the
    time after which clients give up, which is 60 s by default (message_timeout_s)."""
    address_file: Path | None = None
    """Write the gateway's address here once it answers."""
    ca: Path | None = None
    """With --target: PEM roots to verify servers with; turns TLS on."""
    cert: Path | None = None
    """With --target: PEM certificate of this client (mTLS)."""
    key: Path | None = None
    """With --target: PEM private key of this client (mTLS)."""
    insecure: bool = False
    """With --target: send the token of AGENTGYM_TOKEN to other machines in plain text, too."""
