"""Weather: answer questions about weather and places by calling tools."""

from env_servers.environments.weather.environment import Weather

environment = Weather

__all__ = ["Weather", "environment"]
