"""The gRPC runtime for environments: it knows no environment by name."""

from env_servers.server.app import EnvironmentServer, serve
from env_servers.server.config import CONTRACT_REVISION, Security, ServerConfig, ServerLimits

__all__ = [
    "CONTRACT_REVISION",
    "EnvironmentServer",
    "Security",
    "ServerConfig",
    "ServerLimits",
    "serve",
]
