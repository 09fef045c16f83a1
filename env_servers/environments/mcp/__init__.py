"""MCP: tasks that are solved by the tools of any MCP server, and checked at the end."""

from env_servers.environments.mcp.environment import Mcp

environment = Mcp

__all__ = ["Mcp", "environment"]
