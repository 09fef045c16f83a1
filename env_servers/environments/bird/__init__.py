"""BIRD: answer questions about databases with SQL."""

from env_servers.environments.bird.environment import Bird

environment = Bird

__all__ = ["Bird", "environment"]
