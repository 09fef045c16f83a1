"""Movie: answer questions about films with a film database's functions."""

from env_servers.environments.movie.environment import Movie

__all__ = ["Movie", "environment"]

environment = Movie
