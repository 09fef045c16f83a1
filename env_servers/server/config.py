"""Everything that can be chosen about a server, with its defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from env_servers.sdk import Execution
from env_servers.server.logs import LogConfig

__all__ = ["CONTRACT_REVISION", "Security", "ServerConfig", "ServerLimits"]

CONTRACT_REVISION = 1
"""Revision of protos/agentgym/env/v1 that this server speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS and tokens; all empty = plain text, for loopback and Unix sockets."""

    tls_cert: Path | None = None
    """PEM certificate chain of the server."""
    tls_key: Path | None = None
    """PEM private key of the server."""
    client_ca: Path | None = None
    """PEM roots that clients must be signed by (mTLS)."""
    token: str = field(default="", repr=False)
    """Bearer token that admits to everything; read from AGENTGYM_TOKEN by the CLI."""
    token_file: Path | None = None
    """TOML file of further tokens, each with a client's name and scopes; see `server.clients`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Bounds that protect a server; GetEnvironment lists them."""

    max_text_bytes: int = 4 * 1024 * 1024
    max_message_bytes: int = 64 * 1024 * 1024
    max_episodes: int = 0
    """0 = derived from CPU and memory."""
    max_episodes_per_client: int = 0
    """0 = no limit of its own beside the fair shares."""
    fair_shares: bool = True
    """Where several clients want room, none may hold another's equal part of it."""
    memory_budget: int = 0
    """Bytes that all journals, kept results and unsent answers may take; 0 = a quarter of the
    memory that is free at the start."""
    max_journal_bytes: int = 64 * 1024 * 1024
    """Inputs of one episode, as the server keeps them."""
    max_outbox_bytes: int = 4 * 1024 * 1024
    """Answers that wait on one stream for a client to read, before its commands wait, too."""
    max_in_flight: int = 16_384
    """Commands in flight per stream."""
    default_lease: float = 60.0
    """Seconds that an episode outlives its stream."""
    max_lease: float = 3600.0
    idle_limit: float = 600.0
    """Seconds after which an episode that no command names goes even while its stream lives."""
    pressure_idle: float = 60.0
    """Seconds after which it may go already where another client lacks its share of episodes."""
    step_limit: float = 60.0
    """Seconds after which a step's environment counts as hung."""
    inline_limit: float = 5.0
    """Seconds that a call of an inline environment may hold up all episodes of the server. Then it
    is interrupted, and the environment runs in worker processes, where `step_limit` holds."""
    cache_events: int = 4
    """Results kept per episode for repeated commands."""
    max_items: int = 128
    """Events per message; 64 to 128 measured best."""
    max_journal: int = 100_000
    """Actions in a rebuild."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server process."""

    environments: tuple[str, ...]
    skip_unavailable: bool = False
    """Serve the others where an environment's engine or data is not installed; GetEnvironment says
    why one is left out."""
    bind: tuple[str, ...] = ("127.0.0.1:50051",)
    """host:port or unix:PATH; port 0 = any free one."""
    workers: int = 0
    """Worker processes for environments that run in processes; 0 = one per core."""
    worker_memory: int = 0
    """Bytes that a worker process may hold; 0 = its part of the free memory, at least 1 GiB."""
    threads: int = 256
    """Threads for environments that run in threads."""
    execution: Mapping[str, Execution] = field(default_factory=dict[str, Execution])
    """Overrides where an environment runs."""
    data_dir: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    limits: ServerLimits = field(default_factory=ServerLimits)
    security: Security = field(default_factory=Security)
    insecure: bool = False
    """Allow plain text on an address that is not loopback."""
    metrics_port: int = 0
    """Prometheus metrics, /ready and /live on this port; 0 = off."""
    metrics_host: str = "127.0.0.1"
    """Address of that port."""
    log: LogConfig = field(default_factory=LogConfig)
    """For worker processes; the server's own logs are configured by whoever starts it."""
    trace: bool = False
    """Export OpenTelemetry spans; without it only where OTEL_* variables ask for it."""
    drain_seconds: float = 30.0
    """How long live episodes may go on after SIGTERM."""
    stuck_file: Path | None = None
    """Names of environments that no signal could interrupt, one a line: they run in worker
    processes. A server that has to end for another one adds it."""
    exit_with_parent: int = 0
    """Id of the parent process, to end when it is gone: a spawned server must not outlive a killed
    run, also one that was killed before the server was up. 0 = off."""

    def worker_count(self) -> int:
        """Return how many worker processes may be started."""
        return self.workers or os.cpu_count() or 1
