"""Servers for tests: in this process, or in one of their own.

A plugin of the whole suite: the fixture `server_process` is there in every test.
"""

import contextlib

import pytest

from env_servers.sdk import Execution
from env_servers.server import EnvironmentServer, ServerConfig, ServerLimits
from tests.kit.server_process import ServerProcess

__all__ = ["server_process", "serving"]


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
