"""Servers for tests: in this process, or in one of their own."""

import contextlib

import pytest

from env_servers.conformance import Target
from env_servers.conformance.harness import Harness
from env_servers.sdk import Execution
from env_servers.server import EnvironmentServer, ServerConfig, ServerLimits
from tests.env_servers.server.server_process import ServerProcess


@contextlib.asynccontextmanager
async def serving(how="inline", *, limits=None, tracing=None, **options):
    """A running EnvironmentServer of echo in this process."""
    options.setdefault("environments", ("echo",))
    options.setdefault("bind", ("127.0.0.1:0",))
    options.setdefault("execution", {"echo": Execution(how)})
    config = ServerConfig(limits=ServerLimits(**(limits or {})), **options)
    server = EnvironmentServer(config, tracing=tracing)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def harness_for(address, **options):
    """A client's workbench on a server; closes what it opened."""
    async with Harness(Target(address=address, **options)) as harness, harness.cleanup():
        yield harness


@pytest.fixture
def server_process(tmp_path):
    """A factory of ServerProcess objects that are killed after the test."""
    started = []

    def start(**options):
        folder = tmp_path / f"server-{len(started)}"
        folder.mkdir()
        started.append(ServerProcess(folder, **options))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.kill()
