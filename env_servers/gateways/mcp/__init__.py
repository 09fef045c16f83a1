"""Environments as MCP servers, by the official SDK (extra `mcp`): stdio and streamable HTTP.

environment_server.py   an environment's tools and tasks as an MCP server
application.py          those servers over HTTP, or one of them over stdio
"""
