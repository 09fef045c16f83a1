"""The client's side of the server tests."""

import contextlib

from env_servers.conformance import Target
from env_servers.conformance.harness import Harness


@contextlib.asynccontextmanager
async def harness_for(address, **options):
    """A client's workbench on a server; closes what it opened."""
    async with Harness(Target(address=address, **options)) as harness, harness.cleanup():
        yield harness
