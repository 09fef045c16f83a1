"""Wordle of LMRL-Gym: find a five-letter word in six guesses."""

from env_servers.environments.wordle.environment import WordleEnvironment

__all__ = ["WordleEnvironment", "environment"]

environment = WordleEnvironment
