"""From a gateway's flags to a server that ends in order.

Started servers are watched and restarted by the fleet; an episode of a deterministic environment
goes on where it was. SIGTERM and Ctrl-C end the gateway: requests under way are answered, episodes
closed, servers that it started ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import socket
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from rich.text import Text

from agent_runtime.connection import Connection
from agent_runtime.logs import configure_logging
from agent_runtime.redaction import remember
from agent_runtime.supervision import cancel_tasks, supervise
from env_servers.gateways.backend import Backend
from env_servers.gateways.leases import Leases
from env_servers.gateways.options import TOKEN_VARIABLE, GatewayOptions
from orchestrator.client import ClientConfig, connection_options
from orchestrator.command_line import guarded, make_console, run_loop
from orchestrator.errors import ExtraMissing, UsageError
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.listening import check_token, listen, resolve, shown_host

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from env_servers.gateways.access import Refusal

__all__ = ["Gateway", "open_backend", "run_gateway", "serving"]

_LIBRARIES: Final = ("pydantic", "starlette", "uvicorn", "websockets")
_WAIT_SECONDS: Final = 60.0
"""For a server to come back. Below the 300 s after which AgentGym's clients give a request up."""
_END_SECONDS: Final = 5
"""For requests under way when the gateway is to end."""
_SILENT_SECONDS: Final = 600.0
"""For a WebSocket's client to answer a ping: a trainer that learns meanwhile answers none."""
_BACKLOG: Final = 4_096
"""Connections that may wait: AgentGym's clients open one for every request."""


class Gateway(Protocol):
    """One protocol in front of a backend."""

    @property
    def application(self) -> ASGIApp:
        """What answers; guarded by `Access` before it is served."""
        ...

    @property
    def refusal(self) -> Refusal:
        """How the protocol says no."""
        ...

    @property
    def leases(self) -> Collection[Leases[Any]]:
        """What lapses without use, and is closed at the end."""
        ...

    def describe(self, base: str) -> Sequence[str]:
        """Return lines for people: what is where below the address `base`."""
        ...


@runtime_checkable
class OverStdio(Protocol):
    """A gateway that can do without a port."""

    async def serve_stdio(self) -> None:
        """Answer on standard input and output until the client goes."""
        ...


def run_gateway(options: GatewayOptions, make: Callable[[Backend], Gateway]) -> int:
    """Serve until a signal; returns the exit status of the command.

    Args:
        options: The command's flags.
        make: Puts a protocol in front of a backend; raises UsageError.
    """
    return guarded(lambda: run_loop(_run(options, make)))


@contextlib.asynccontextmanager
async def open_backend(options: GatewayOptions) -> AsyncGenerator[Backend]:
    """Start or find the servers; raises UsageError, FleetError, AgentRuntimeError."""
    client = ClientConfig(
        ca=options.ca, cert=options.cert, key=options.key, insecure=options.insecure
    )
    connection = connection_options(client)
    names = dict.fromkeys(options.environments)
    if not names:
        if not options.target:
            raise UsageError("name at least one environment, or a server by --target")
        for address in options.target:
            async with Connection(address, connection) as looked_at:
                names.update(dict.fromkeys(looked_at.environments))
    config = FleetConfig(
        servers=options.target,
        spawn=options.servers,
        data=options.data,
        server_options=("--set", *options.set) if options.set else (),
        wait_for_servers=_WAIT_SECONDS,
    )
    async with Fleet(list(names), config, connection) as fleet:
        yield Backend(fleet)


@contextlib.asynccontextmanager
async def serving(
    gateway: Gateway,
    listening: socket.socket,
    *,
    token: str = "",
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> AsyncGenerator[asyncio.Task[None]]:
    """Answer on a socket while the context lasts; gives the task that does."""
    import uvicorn
    from starlette.applications import Starlette

    from env_servers.gateways.access import BODY_LIMIT, Access

    guarded_application = Access(
        gateway.application, token=token, hosts=hosts, origins=origins, refusal=gateway.refusal
    )
    server = _make_server(
        uvicorn.Config(
            guarded_application,
            # AgentGym's routes are a bare application, with nothing to begin or end.
            lifespan="on" if isinstance(gateway.application, Starlette) else "off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            ws_max_size=BODY_LIMIT,
            ws_ping_timeout=_SILENT_SECONDS,
            timeout_graceful_shutdown=_END_SECONDS,
        )
    )
    sweeps = [supervise(it.keep_sweeping(), "sweep leases") for it in gateway.leases]
    task = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        yield task
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        await cancel_tasks(*sweeps)
        for leases in gateway.leases:
            leases.close()


def _make_server(config: Any) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield  # they are the command's: it ends what it started, and this server with it

    return Server(config)


async def _run(options: GatewayOptions, make: Callable[[Backend], Gateway]) -> int:
    for library in _LIBRARIES:
        if importlib.util.find_spec(library) is None:
            raise ExtraMissing("gateways", extra="gateway")
    if options.kind == "mcp" and importlib.util.find_spec("mcp") is None:
        raise ExtraMissing("MCP servers", extra="mcp")
    if options.stdio:
        return await _run_stdio(options, make)
    configure_logging("warning")
    address = resolve(options.host)
    token = options.token or os.environ.get(TOKEN_VARIABLE, "")
    check_token(token, address, host=options.host, variable=TOKEN_VARIABLE)
    remember(token)
    if options.idle_minutes <= 0:
        raise UsageError(f"--idle-minutes {options.idle_minutes:g}: it must be more than 0")
    if options.answer_seconds <= 0:
        raise UsageError(f"--answer-seconds {options.answer_seconds:g}: it must be more than 0")
    with contextlib.closing(listen(address, options.port)) as listening:
        base = f"http://{shown_host(options.host)}:{listening.getsockname()[1]}"
        async with open_backend(options) as backend:
            gateway = make(backend)
            hosts = (options.host, socket.gethostname())
            async with serving(
                gateway, listening, token=token, hosts=hosts, origins=options.origin
            ) as answering:
                _announce(options, gateway.describe(base), base)
                await asyncio.shield(answering)
    return 0


async def _run_stdio(options: GatewayOptions, make: Callable[[Backend], Gateway]) -> int:
    configure_logging("warning")
    async with open_backend(options) as backend:
        gateway = make(backend)
        if not isinstance(gateway, OverStdio):
            raise UsageError(f"--stdio is for mcp: {options.kind} answers on a port")
        try:
            await gateway.serve_stdio()
        finally:
            for leases in gateway.leases:
                leases.close()
    return 0


def _announce(options: GatewayOptions, lines: Sequence[str], base: str) -> None:
    console = make_console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    if options.address_file is not None:
        # Renamed into place: whoever waits for the file must not read half of it.
        partial = options.address_file.with_suffix(".partial")
        partial.write_text(f"{base}\n")
        partial.replace(options.address_file)
