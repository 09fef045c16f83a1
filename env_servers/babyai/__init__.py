"""BabyAI: grid-world instructions, as text, on the `minigrid` package."""

from env_servers.babyai.environment import BabyaiEnvironment as environment

__all__ = ["environment"]
