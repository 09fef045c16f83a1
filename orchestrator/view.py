"""Command: runs, their episodes and tokens in a browser.

    python -m orchestrator.view                    the runs below `runs`
    python -m orchestrator.view runs/a other       a run, and all below a folder
    python -m orchestrator.view --port 0           any port that is free

Prints an address with a token that opens it. Works on live runs, too, and changes none: Ctrl-C ends
the viewer, and the environment servers that it started, alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlencode

import tyro
from rich.text import Text

from agent_runtime.policies import PolicyConfig, PolicySpec
from orchestrator.client import ClientConfig
from orchestrator.command_line import make_console, run_command
from orchestrator.config import PolicySpecs
from orchestrator.errors import ExtraMissing, UsageError
from orchestrator.listening import check_token, listen, resolve, shown_host
from orchestrator.object_storage import fetch_run
from orchestrator.run_folder import is_url
from orchestrator.servers import FleetConfig
from orchestrator.viewer.live_servers import VIEWED_FLEET, LiveServers

__all__ = ["ViewOptions", "main"]

_TOKEN_VARIABLE: Final = "AGENTGYM_VIEWER_TOKEN"


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Show runs in a browser."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")] = (
        "runs",
    )
    """Run folders, folders below which runs are looked for, and URLs such as s3://BUCKET/RUN, of
    which the runs of this moment are shown."""
    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback the viewer wants a token of your own, and what it shows
    travels unencrypted: put a proxy with TLS before it, or forward the port by ssh instead."""
    port: int = 8765
    """Port to listen on; 0 = any that is free."""
    token: str = ""
    """Opens the pages; default: another one at each start. Flags show in the list of processes: the
    environment variable AGENTGYM_VIEWER_TOKEN is read, too."""
    cache: Path | None = None
    """Where word indices are kept; default: `.viewer` in the folder that holds a run."""
    tokenizer: Path | None = None
    """Model folder whose tokenizer spells tokens; default: the one that each run names, where it is
    still there."""
    fleet: Annotated[FleetConfig, tyro.conf.arg(name="")] = VIEWED_FLEET
    """Where the environments of episodes are served that are looked at again. Servers are started
    when a page first asks for them; by default as a run of your own was played."""
    client: ClientConfig = field(default_factory=ClientConfig)
    policies: Annotated[PolicySpecs, tyro.conf.arg(name="policy")] = (
        PolicySpec("expert"),
        PolicySpec("random"),
    )
    """Policies that may go on where a person plays, separated by commas, as of `sample`; they are
    started when a page first asks for them."""
    player: PolicyConfig = field(default_factory=PolicyConfig)
    """How they are set up."""
    trust_run: bool = False
    """Also serve, for a stranger's run, an environment that is a package of this folder."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(ViewOptions, _view, argv, program="agentgym-view")


def _view(options: ViewOptions) -> int:
    for library in ("starlette", "uvicorn"):
        if importlib.util.find_spec(library) is None:
            raise ExtraMissing("the viewer", extra="viewer")
    import uvicorn

    from orchestrator.viewer.application import Viewer, create_application
    from orchestrator.viewer.branches import Branches
    from orchestrator.viewer.library import Library

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # It waits for answers that are under way: streams of live episodes would never end, and
            # environments may take minutes.
            viewer.watching.close()
            servers.interrupt()
            await super().shutdown(sockets)

    tokenizer = options.tokenizer
    if tokenizer is not None and not (tokenizer / "tokenizer.json").is_file():
        raise UsageError(f"--tokenizer {tokenizer} is a folder with a tokenizer.json")
    address = resolve(options.host)
    token = _token(options, address)
    servers = LiveServers(options.fleet, options.client, trust_run=options.trust_run)
    library = Library([fetch_run(it) if is_url(it) else Path(it) for it in options.runs])
    branches = Branches(library, servers, options.policies, options.player)
    viewer = Viewer(library, servers, branches, cache=options.cache, tokenizer=tokenizer)
    with (
        _ended_by_sigterm(),
        contextlib.closing(viewer),
        listen(address, options.port) as listening,
    ):
        _announce(options.host, listening.getsockname()[1], token)
        application = create_application(
            viewer, token=token, hosts=[options.host, socket.gethostname()]
        )
        config = uvicorn.Config(
            application,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        with contextlib.suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listening])
    return 0


@contextlib.contextmanager
def _ended_by_sigterm() -> Generator[None]:
    """End the block in order by SIGTERM: uvicorn does so, and then raises the signal again."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _token(options: ViewOptions, address: str) -> str:
    """Return the token; raises UsageError where the address asks for another one."""
    token = options.token or os.environ.get(_TOKEN_VARIABLE, "")
    check_token(token, address, host=options.host, variable=_TOKEN_VARIABLE)
    return token or secrets.token_urlsafe(24)


def _announce(host: str, port: int, token: str) -> None:
    console = make_console()
    console.print(
        Text(f"http://{shown_host(host)}:{port}/?{urlencode({'token': token})}", style="bold"),
        soft_wrap=True,
    )
    console.print(Text("Open this address in a browser; Ctrl-C ends the viewer, not the runs."))


if __name__ == "__main__":
    sys.exit(main())
