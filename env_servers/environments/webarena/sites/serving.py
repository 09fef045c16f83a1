"""The embedded sites on a port, for a person with a browser: one world for the whole process.

Browsers resolve every name below `localhost` to this machine, so that each site keeps a host of its
own: `http://shop.localhost:8123/`.
"""

from __future__ import annotations

import uvicorn
from starlette.datastructures import URL

from env_servers.environments.webarena.sites.network import Network
from env_servers.environments.webarena.sites.world import World

__all__ = ["addresses", "serve"]


def addresses(network: Network, port: int) -> dict[str, str]:
    """Return each site's front page by its name."""
    seen = URL(f"http://home.localhost:{port}/")
    return {name: site.address_of(name, seen) for name, site in network.sites.items()}


def serve(network: Network, world: World, host: str, port: int) -> None:
    """Serve a world until the process is told to stop."""
    uvicorn.run(network.within(world), host=host, port=port, log_level="warning", lifespan="off")
