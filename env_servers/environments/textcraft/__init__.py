"""TextCraft: craft Minecraft items by listed crafting commands."""

from env_servers.environments.textcraft.environment import TextCraft

environment = TextCraft

__all__ = ["TextCraft", "environment"]
