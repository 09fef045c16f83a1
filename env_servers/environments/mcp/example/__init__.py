"""A small MCP server, and tasks for it: what is played where no other server is set."""
