"""`python -m env_servers serve`: a server of one or more environments."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from env_servers.cli.setting import read_setting
from env_servers.sdk import Execution, SdkError, environment_names
from env_servers.sdk.data import official_data_dir
from env_servers.server import EnvironmentServer, Security, ServerConfig, ServerLimits, serve
from env_servers.server.app import run_loop
from env_servers.server.clients import TokenFileError
from env_servers.server.logs import LogConfig, configure_logs
from env_servers.server.security import AddressUnavailable, SecurityMisconfigured
from env_servers.server.temporary_folders import own_temporary_files
from env_servers.server.upkeep import UpkeepFailed

__all__ = ["Serve"]


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Serve one or more environments over gRPC until SIGTERM."""

    environments: tyro.conf.Positional[tuple[str, ...]]
    """Names of environments, see `list`."""
    config_file: Annotated[Path | None, tyro.conf.arg(name="config")] = None
    """TOML file with the same keys as these flags, which go before it, and `environments`."""
    skip_unavailable: bool = False
    """Serve the others where an environment's engine or data is not installed."""
    bind: tuple[str, ...] = ("127.0.0.1:50051",)
    """host:port or unix:PATH, several allowed; port 0 picks a free one."""
    workers: int = 0
    """Worker processes for environments that compute; 0 = one per core."""
    worker_memory: int = 0
    """Bytes that a worker process may hold; 0 = its part of the free memory, at least 1 GiB."""
    threads: int = 256
    """Threads for environments that wait."""
    execution: tuple[str, ...] = ()
    """Where environments run, as NAME=inline|thread|process."""
    data: Path | None = None
    """Folder of official data files; default: AGENTGYM_DATA."""
    set: tuple[str, ...] = ()
    """Settings of environments, as NAME.KEY=VALUE."""
    max_episodes: int = 0
    """Live episodes per environment; 0 = derived from CPU and memory."""
    max_episodes_per_client: int = 0
    """Live episodes per client; 0 = no limit of its own beside the fair shares."""
    fair_shares: bool = True
    """Where several clients want room, none may hold another's equal part of it."""
    memory_budget: int = 0
    """Bytes for journals, kept results and unsent answers; 0 = a quarter of the free memory."""
    max_journal_bytes: int = 64 * 1024 * 1024
    """Most bytes of the inputs of one episode."""
    max_outbox_bytes: int = 4 * 1024 * 1024
    """Unsent answers on one stream before its commands wait."""
    lease: float = 60.0
    """Seconds that an episode outlives its stream."""
    idle_limit: float = 600.0
    """Seconds after which an episode ends that no command names, although its stream lives."""
    step_limit: float = 60.0
    """Seconds after which a step counts as hung and its environment is reclaimed."""
    inline_limit: float = 5.0
    """Seconds that a step may hold up all others; then its environment runs in worker processes."""
    max_text_bytes: int = 4 * 1024 * 1024
    """Longest action or reply."""
    tls_cert: Path | None = None
    """PEM certificate chain; turns TLS on."""
    tls_key: Path | None = None
    """PEM private key of the certificate."""
    client_ca: Path | None = None
    """PEM roots that clients must be signed by (mTLS)."""
    token_file: Path | None = None
    """TOML file of tokens: [NAME] with token and scopes (play, operate); AGENTGYM_TOKEN holds one
    that admits to everything."""
    insecure: bool = False
    """Allow plain text on addresses that other machines reach."""
    metrics_port: int = 0
    """Serve Prometheus metrics on this port, and /ready and /live for probes."""
    metrics_host: str = "127.0.0.1"
    """Address of that port. Whoever reaches it may ask: no token, no TLS."""
    drain: float = 30.0
    """Seconds that live episodes may go on after SIGTERM."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is logged."""
    log_json: bool = False
    """Log JSON lines, also on a terminal."""
    trace: bool = False
    """Export OpenTelemetry traces to where the OTEL_* variables point; they turn it on, too."""
    stuck_file: Path | None = None
    """Environments for which a server had to be ended, one a line; they run in worker processes."""
    exit_with_parent: int = 0
    """Id of the process that started this one: end when it is gone, however it went."""
    address_file: Path | None = None
    """Write the bound addresses here, one a line, once the server is ready."""

    def run(self) -> int:
        """Serve until a signal.

        Ends the process itself, with status 1 where one of the server's background tasks died.
        """
        configure_logs(self._log_config())
        temporary = own_temporary_files()
        status = 0
        try:
            run_loop(self._serve())
        except (SecurityMisconfigured, AddressUnavailable, TokenFileError) as error:
            raise SdkError(str(error)) from error
        except UpkeepFailed:
            status = 1
        finally:
            if temporary is not None:
                temporary.remove()
        # A thread that hangs in an environment must not keep the process alive.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def _log_config(self) -> LogConfig:
        return LogConfig(self.log_level, json=True if self.log_json else None)

    async def _serve(self) -> None:
        async def ready(server: EnvironmentServer) -> None:
            if self.address_file is not None:
                # Renamed into place: whoever waits for the file must not read half of it.
                partial = self.address_file.with_suffix(".partial")
                partial.write_text("".join(f"{address}\n" for address in server.addresses))
                partial.replace(self.address_file)

        await serve(self.config(), ready)

    def config(self) -> ServerConfig:
        """Return the server's configuration; raises SdkError for what cannot be read."""
        if self.data is not None and not self.data.is_dir():
            raise SdkError(f"--data: there is no folder {self.data}")
        if self.address_file is not None and not self.address_file.parent.is_dir():
            raise SdkError(f"--address-file: there is no folder {self.address_file.parent}")
        for address in self.bind:
            if not (address.startswith("unix:") or address.rpartition(":")[2].isdecimal()):
                raise SdkError(f"--bind {address!r} is neither host:port nor unix:PATH")
        if not self.environments:
            raise SdkError("name at least one environment", valid=environment_names())
        return ServerConfig(
            environments=tuple(dict.fromkeys(self.environments)),
            skip_unavailable=self.skip_unavailable,
            bind=self.bind,
            workers=self.workers,
            worker_memory=self.worker_memory,
            threads=self.threads,
            execution=dict(_read_execution(text) for text in self.execution),
            data_dir=self.data or official_data_dir(),
            settings=dict(read_setting(text) for text in self.set),
            limits=ServerLimits(
                max_text_bytes=self.max_text_bytes,
                max_episodes=self.max_episodes,
                max_episodes_per_client=self.max_episodes_per_client,
                fair_shares=self.fair_shares,
                memory_budget=self.memory_budget,
                max_journal_bytes=self.max_journal_bytes,
                max_outbox_bytes=self.max_outbox_bytes,
                default_lease=self.lease,
                idle_limit=self.idle_limit,
                step_limit=self.step_limit,
                inline_limit=self.inline_limit,
            ),
            security=Security(
                tls_cert=self.tls_cert,
                tls_key=self.tls_key,
                client_ca=self.client_ca,
                token=os.environ.get("AGENTGYM_TOKEN", ""),
                token_file=self.token_file,
            ),
            insecure=self.insecure,
            metrics_port=self.metrics_port,
            metrics_host=self.metrics_host,
            log=self._log_config(),
            trace=self.trace,
            drain_seconds=self.drain,
            stuck_file=self.stuck_file,
            exit_with_parent=self.exit_with_parent,
        )


def _read_execution(text: str) -> tuple[str, Execution]:
    name, equals, value = text.partition("=")
    if not equals or value not in list(Execution):
        raise SdkError(f"--execution {text!r} is not NAME=HOW", valid=list(Execution))
    return name, Execution(value)
