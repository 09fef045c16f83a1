"""A tiny environment for benchmarks, conformance tests and faults on request."""

from env_servers.environments.echo.environment import EchoEnvironment

environment = EchoEnvironment

__all__ = ["EchoEnvironment", "environment"]
