"""Academia: answer questions about papers and authors by walking two graphs."""

from env_servers.environments.academia.environment import Academia

__all__ = ["Academia", "environment"]

environment = Academia
