"""An MCP server that is written with the official SDK; as a program it speaks over stdio."""

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel


class Product(BaseModel):
    value: float


def make_server():
    server = MCPServer("calculator")
    last = {"value": 0.0}

    @server.tool()
    def multiply(a: float, b: float) -> Product:
        """Multiply two numbers."""
        last["value"] = a * b
        return Product(value=a * b)

    @server.tool()
    def last_() -> str:
        raise ValueError("nobody asks")

    @server.tool(name="last")
    def tell() -> str:
        """Tell the last product."""
        return str(last["value"])

    @server.tool()
    def flood() -> str:
        return "x" * (1 << 21)

    return server


if __name__ == "__main__":
    make_server().run()
