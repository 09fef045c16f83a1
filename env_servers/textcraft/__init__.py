"""TextCraft: craft Minecraft items by listed crafting commands."""

from env_servers.textcraft.environment import TextCraft

environment = TextCraft

__all__ = ["TextCraft", "environment"]
