"""MAZE of LMRL-Gym: walk through a maze of which only the walls beside you are told."""

from env_servers.environments.maze.environment import MazeEnvironment

__all__ = ["MazeEnvironment", "environment"]

environment = MazeEnvironment
