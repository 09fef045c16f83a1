"""A stockroom as an MCP server over standard input and output: what is where, and moving it.

Every process begins with the same stock. It is written without the MCP SDK, because an episode
starts a process of its own: with it that takes half a second, and like this 20 ms. Messages are
JSON-RPC, one a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["TOOLS", "Stockroom", "serve"]

_KILOGRAMS = {
    "anchor": 12.5,
    "bell": 0.85,
    "candle": 0.12,
    "drum": 4.2,
    "easel": 3.75,
    "flute": 0.42,
    "globe": 2.6,
    "hammer": 1.1,
    "inkwell": 0.33,
    "kettle": 1.45,
    "lantern": 0.95,
    "mirror": 5.8,
}
_STOCK = {
    "A1": {"bell": 7, "candle": 40, "hammer": 3},
    "A2": {"flute": 5, "inkwell": 12},
    "B1": {"anchor": 1, "drum": 2, "lantern": 6},
    "B2": {"candle": 25, "globe": 4, "mirror": 2},
    "C1": {"easel": 3, "hammer": 8, "kettle": 9},
    "C2": {"bell": 2, "lantern": 4},
    "D1": {},
}
_SHELF = {"type": "string", "enum": list(_STOCK), "description": "A shelf."}
_ITEM = {"type": "string", "description": "A thing, such as bell."}


def _tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool("list_shelves", "List the shelves with the number of things on each."),
    _tool("look", "Tell what is on a shelf, and how many of each.", shelf=_SHELF),
    _tool("find", "Tell on which shelves a thing is, and how many of it.", item=_ITEM),
    _tool("weigh", "Tell what one piece of a thing weighs, in kilograms.", item=_ITEM),
    _tool(
        "move",
        "Carry things from one shelf to another.",
        item=_ITEM,
        quantity={"type": "integer", "minimum": 1, "description": "How many."},
        source=_SHELF,
        target=_SHELF,
    ),
)
"""As `tools/list` tells them."""


class _Refused(Exception):
    """When a tool cannot do what it is asked for; the text says why."""


class Stockroom:
    """The stock of one process."""

    def __init__(self) -> None:
        """Everything is in its place."""
        self._stock = {shelf: dict(things) for shelf, things in _STOCK.items()}

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what a tool says; raises _Refused."""
        known = next((it for it in TOOLS if it["name"] == tool), None)
        if known is None:
            raise _Refused(f"there is no tool {tool[:100]}")
        wanted = known["inputSchema"]["properties"]
        if set(arguments) != set(wanted):
            raise _Refused(f"{tool} takes: {', '.join(wanted) or 'nothing'}")
        for name, value in arguments.items():
            if wanted[name] is _SHELF and value not in self._stock:
                raise _Refused(f"there is no shelf {str(value)[:100]}: {', '.join(self._stock)}")
        return getattr(self, f"_{tool}")(**arguments)

    def _list_shelves(self) -> str:
        return json.dumps({shelf: sum(it.values()) for shelf, it in self._stock.items()})

    def _look(self, shelf: str) -> str:
        return json.dumps(self._stock[shelf])

    def _find(self, item: str) -> str:
        self._weight(item)
        return json.dumps({shelf: it[item] for shelf, it in self._stock.items() if item in it})

    def _weigh(self, item: str) -> str:
        return str(self._weight(item))

    def _move(self, item: str, quantity: int, source: str, target: str) -> str:
        self._weight(item)
        if isinstance(quantity, bool) or not isinstance(quantity, int) or quantity < 1:
            raise _Refused("quantity has to be a whole number of at least 1")
        there = self._stock[source].get(item, 0)
        if quantity > there:
            raise _Refused(f"there are {there} of {item} on {source}")
        self._stock[source][item] = there - quantity
        if there == quantity:
            del self._stock[source][item]
        self._stock[target][item] = self._stock[target].get(item, 0) + quantity
        return f"moved {quantity} of {item} from {source} to {target}"

    def _weight(self, item: str) -> float:
        if not isinstance(item, str) or item not in _KILOGRAMS:
            raise _Refused(f"there is no thing {str(item)[:100]}: {', '.join(_KILOGRAMS)}")
        return _KILOGRAMS[item]


def _result(stock: Stockroom, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None = there is no such method."""
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "stockroom", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        try:
            text, refused = stock.call(params["name"], params.get("arguments") or {}), False
        except _Refused as error:
            text, refused = str(error), True
        return {"content": [{"type": "text", "text": text}], "isError": refused}
    return {} if method == "ping" else None


def serve() -> None:
    """Answer requests until there are none."""
    stock = Stockroom()
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue  # a notification
        result = _result(stock, request["method"], request.get("params") or {})
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if result is None:
            answer["error"] = {"code": -32601, "message": f"no method {request['method']}"}
        else:
            answer["result"] = result
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
