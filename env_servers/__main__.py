"""`python -m env_servers`: serve, list, play, check and scaffold environments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from env_servers.cli.new import NewConfig, create
from env_servers.cli.play import PlayConfig, play
from env_servers.sdk import EnvironmentConfig, Execution, SdkError, environment_names
from env_servers.sdk.data import data_dir_of_machine
from env_servers.server import EnvironmentServer, Security, ServerConfig, ServerLimits, serve
from env_servers.server.app import run_loop
from env_servers.server.logs import configure_logs
from env_servers.server.security import InsecureAddress

__all__ = ["main"]


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Serve one or more environments over gRPC until SIGTERM."""

    environments: tyro.conf.Positional[tuple[str, ...]]
    """Names of environments, see `list`."""
    bind: tuple[str, ...] = ("127.0.0.1:50051",)
    """host:port or unix:PATH, several allowed; port 0 picks a free one."""
    workers: int = 0
    """Worker processes for environments that compute; 0 = one per core."""
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
    """Live episodes per connection; 0 = no limit of its own."""
    lease: float = 60.0
    """Seconds that an episode outlives its stream."""
    step_limit: float = 60.0
    """Seconds after which a step counts as hung and its environment is reclaimed."""
    max_text_bytes: int = 4 * 1024 * 1024
    """Longest action or reply."""
    tls_cert: Path | None = None
    """PEM certificate chain; turns TLS on."""
    tls_key: Path | None = None
    """PEM private key of the certificate."""
    client_ca: Path | None = None
    """PEM roots that clients must be signed by (mTLS)."""
    insecure: bool = False
    """Allow plain text on addresses that other machines reach."""
    metrics_port: int = 0
    """Serve Prometheus metrics on this port of 127.0.0.1."""
    drain: float = 30.0
    """Seconds that live episodes may go on after SIGTERM."""
    log_level: str = "info"
    """debug, info, warning or error."""
    exit_with_parent: int = 0
    """Id of the process that started this one: end when it is gone, however it went."""
    address_file: Path | None = None
    """Write the bound addresses here, one a line, once the server is ready."""

    def run(self) -> int:
        """Serve; returns the exit status."""
        configure_logs(self.log_level)
        try:
            run_loop(self._serve())
        except InsecureAddress as error:
            raise SdkError(str(error)) from error
        # A thread that hangs in an environment must not keep the process alive.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    async def _serve(self) -> None:
        async def ready(server: EnvironmentServer) -> None:
            if self.address_file is not None:
                partial = self.address_file.with_suffix(".partial")
                partial.write_text("".join(f"{address}\n" for address in server.addresses))
                partial.replace(self.address_file)

        await serve(self.config(), ready)

    def config(self) -> ServerConfig:
        """The server's configuration; raises SdkError for what cannot be read."""
        if not self.environments:
            raise SdkError("name at least one environment", valid=environment_names())
        return ServerConfig(
            environments=tuple(dict.fromkeys(self.environments)),
            bind=self.bind,
            workers=self.workers,
            threads=self.threads,
            execution=dict(_read_execution(text) for text in self.execution),
            data_dir=self.data or data_dir_of_machine(),
            settings=dict(_read_setting(text) for text in self.set),
            limits=ServerLimits(
                max_text_bytes=self.max_text_bytes,
                max_episodes=self.max_episodes,
                max_episodes_per_client=self.max_episodes_per_client,
                default_lease=self.lease,
                step_limit=self.step_limit,
            ),
            security=Security(
                tls_cert=self.tls_cert,
                tls_key=self.tls_key,
                client_ca=self.client_ca,
                token=os.environ.get("AGENTGYM_TOKEN", ""),
            ),
            insecure=self.insecure,
            metrics_port=self.metrics_port,
            drain_seconds=self.drain,
            exit_with_parent=self.exit_with_parent,
        )


@dataclass(frozen=True, kw_only=True)
class List:
    """List environments, their splits and how they are measured."""

    environments: tyro.conf.Positional[tuple[str, ...]] = ()
    """Only these; default: all that are installed."""
    data: Path | None = None
    """Folder of official data files; default: AGENTGYM_DATA."""

    def run(self) -> int:
        """Print the table; returns the exit status."""
        from env_servers.cli.list import print_catalogue

        names = self.environments or tuple(environment_names())
        return print_catalogue(names, self.data or data_dir_of_machine())


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
    data: Path | None = None
    """Folder of official data files; default: AGENTGYM_DATA."""

    def run(self) -> int:
        """Check; returns 0 when everything holds, 1 when not."""
        if self.target:
            from env_servers.conformance import check_server

            return check_server(
                self.target, self.name or "echo", ca=self.ca, cert=self.cert, key=self.key
            )
        if not self.name:
            raise SdkError(
                "name an environment, or a server with --target", valid=environment_names()
            )
        from env_servers.sdk.contract import run_contract

        config = EnvironmentConfig(self.data or data_dir_of_machine())
        report = run_contract(self.name, config=config)
        sys.stdout.write(report.text() + "\n")
        return 0 if report.passed else 1


@dataclass(frozen=True, kw_only=True)
class Play(PlayConfig):
    """Play an environment in the terminal."""

    def run(self) -> int:
        """Play; returns the exit status."""
        play(replace(self, data=self.data or data_dir_of_machine()))
        return 0


@dataclass(frozen=True, kw_only=True)
class New(NewConfig):
    """Write a new environment package that is ready to edit."""

    def run(self) -> int:
        """Write the files and say what to do next; returns the exit status."""
        scaffold = create(self.name, self.folder)
        listed = "\n".join(f"  {path}" for path in scaffold.files)
        sys.stdout.write(f"wrote\n{listed}\n{scaffold.next_steps}\n")
        return 0


def _read_execution(text: str) -> tuple[str, Execution]:
    name, equals, value = text.partition("=")
    if not equals or value not in list(Execution):
        raise SdkError(f"--execution {text!r} is not NAME=HOW", valid=list(Execution))
    return name, Execution(value)


def _read_setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or "." not in key:
        raise SdkError(f"--set {text!r} is not NAME.KEY=VALUE")
    return key, value


Command = Annotated[
    Annotated[Serve, tyro.conf.subcommand("serve")]
    | Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Play, tyro.conf.subcommand("play")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[New, tyro.conf.subcommand("new")],
    tyro.conf.OmitSubcommandPrefixes,
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status (2 for a usage error)."""
    if "" not in sys.path:
        # A package in the working folder is an environment, too, also for the console script.
        sys.path.insert(0, "")
    command = tyro.cli(Command, prog="python -m env_servers", args=argv)  # pyright: ignore
    try:
        return command.run()
    except SdkError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
