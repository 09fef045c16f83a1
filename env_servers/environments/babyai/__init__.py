"""BabyAI: grid-world instructions, as text, on the `minigrid` package."""

from env_servers.environments.babyai.environment import BabyaiEnvironment

__all__ = ["environment"]

environment = BabyaiEnvironment
