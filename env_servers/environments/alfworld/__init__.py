"""ALFWorld: household tasks in text, by an interpreter of ALFWorld's own game files."""

from env_servers.environments.alfworld.environment import Alfworld

environment = Alfworld

__all__ = ["Alfworld", "environment"]
