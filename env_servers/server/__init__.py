"""The gRPC runtime for environments: it knows no environment by name."""

from typing import TYPE_CHECKING, Any

from env_servers.server.config import CONTRACT_REVISION, Security, ServerConfig, ServerLimits

if TYPE_CHECKING:
    from env_servers.server.app import EnvironmentServer, serve

__all__ = [
    "CONTRACT_REVISION",
    "EnvironmentServer",
    "Security",
    "ServerConfig",
    "ServerLimits",
    "serve",
]


def __getattr__(name: str) -> Any:
    """Loads the server when it is asked for: worker processes start in half the time without."""
    if name in ("EnvironmentServer", "serve"):
        from env_servers.server import app

        return getattr(app, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
