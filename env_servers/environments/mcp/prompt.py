"""An MCP server's tools as the functions of an environment.

Names that no Python call could have (`read-file`, `from`) get one that it can; the server is asked
by its own. Functions are told with the server's whole JSON schemas; what is checked before a call
are the types at the top, and the server checks the rest.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast

from mcp_types import Tool as ServerTool

from env_servers.sdk import Parameter, Verb
from env_servers.toolkit.tool_calls import CHECK_VALID_ACTIONS, FINISH, Tool, ToolSet, write_call

__all__ = ["McpTool", "read_tools"]

_SIMPLE: Final = ("string", "integer", "number", "boolean", "array", "object")
_NO_WORD: Final = re.compile(r"[^0-9A-Za-z_]")
_EXAMPLE: Final = ("I look at what I can do.", CHECK_VALID_ACTIONS.name, {})


@dataclass(frozen=True, slots=True)
class _McpVerb(Verb):
    """A function that tells the server's own schema."""

    parameters_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def schema(self) -> dict[str, Any]:
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters_schema),
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class McpTool(Tool):
    """A tool of an MCP server."""

    asked_as: str = ""
    """The server's name for it."""
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The server's names of parameters, by ours."""
    schema: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Of the arguments, with our names."""

    def verb(self) -> Verb:
        return _McpVerb(
            self.name,
            self.description,
            partial(write_call, self.name),
            self.parameters,
            self.schema,
        )

    def arguments(self, ours: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments under the server's names."""
        return {self.names.get(name, name): value for name, value in ours.items()}

    def own_arguments(self, servers: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments under our names."""
        ours = {theirs: own for own, theirs in self.names.items()}
        return {ours.get(name, name): value for name, value in servers.items()}


def read_tools(tools: Sequence[ServerTool]) -> ToolSet:
    """Return a server's tools, and the two that every tool environment has."""
    own = (CHECK_VALID_ACTIONS, FINISH)
    taken = {tool.name for tool in own}
    read: list[Tool] = []
    for tool in tools:
        name = _identifier(tool.name, taken)
        taken.add(name)
        read.append(_read_tool(name, tool))
    return ToolSet((*read, *own), example=_EXAMPLE)


def _read_tool(name: str, tool: ServerTool) -> McpTool:
    schema = tool.input_schema
    properties = _mapping(schema.get("properties"))
    required = cast("Collection[str]", schema.get("required") or ())
    names: dict[str, str] = {}
    parameters: list[Parameter] = []
    for theirs, described in properties.items():
        ours = _identifier(theirs, names)
        names[ours] = theirs
        parameters.append(_read_parameter(ours, _mapping(described), theirs in required))
    told = {**schema, "type": "object", "properties": {o: properties[t] for o, t in names.items()}}
    told["required"] = [ours for ours, theirs in names.items() if theirs in required]
    return McpTool(
        name,
        tool.description or tool.title or f"The tool {tool.name}.",
        "What the tool says." if tool.output_schema is None else json.dumps(tool.output_schema),
        tuple(parameters),
        asked_as=tool.name,
        names=MappingProxyType(names),
        schema=MappingProxyType(told),
    )


def _read_parameter(name: str, described: Mapping[str, Any], required: bool) -> Parameter:
    kind, values = described.get("type"), described.get("enum")
    items = _mapping(described.get("items"))
    words = isinstance(values, list) and all(
        isinstance(it, str) for it in cast("list[Any]", values)
    )
    text = str(described.get("description") or "")
    if kind not in _SIMPLE or "properties" in described or "properties" in items:
        shown = {key: value for key, value in described.items() if key != "description"}
        text += f" As JSON schema: {json.dumps(shown)}"
    of_items = items.get("type")
    return Parameter(
        name,
        kind if kind in _SIMPLE else "any",
        text.strip(),
        required,
        tuple(cast("list[str]", values)) if words and kind == "string" else (),
        of_items if kind == "array" and of_items in _SIMPLE else "",
    )


def _identifier(name: str, taken: Collection[str]) -> str:
    """Return a name that a Python call can have, and that nobody has."""
    word = _NO_WORD.sub("_", name)
    if not word.isidentifier():
        word = f"_{word}"
    if keyword.iskeyword(word):
        word += "_"
    found, number = word, 2
    while found in taken:
        found, number = f"{word}_{number}", number + 1
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
