"""An environment as an MCP server: its functions are tools, its tasks resources.

`reset` opens an episode; the environment's functions play it, or the one tool `act` where it has
none. Each result has the observation as text, its images as such, and reward, score and end as
structured content.
MCP's HTTP holds no connection, so an episode is named: `reset` tells its `episode_id`, which every
other call repeats. Over stdio there is one client, and no name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import orjson
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ImageContent,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
)

from agent_runtime.errors import AgentRuntimeError
from env_servers.gateways.errors import BadRequest, GatewayError, problem_of
from env_servers.gateways.messages import Action, Reset, validate
from env_servers.gateways.sessions import Environment, Sessions
from orchestrator.errors import UsageError

__all__ = ["EnvironmentServer"]

_PAGE: Final = 100
"""Tasks that are listed at once."""
_EPISODE: Final = "episode_id"
_ALONE: Final = "the client"
"""Name of the one session over stdio."""
_RESET: Final[Mapping[str, Any]] = {
    "item_id": {"type": "string", "description": "The task, by its id."},
    "index": {"type": "integer", "minimum": 0, "description": "The task, by its place."},
    "split": {"type": "string", "description": "Tasks to choose from; default: the first split."},
    "seed": {"type": "integer", "minimum": 0, "description": "Alone it chooses the task."},
    "options": {"type": "object", "description": "Of the environment, as its README has them."},
}
_ACT: Final[Mapping[str, Any]] = {
    "name": "act",
    "description": "Play one action, as the instruction of reset describes actions.",
    "input_schema": {
        "type": "object",
        "properties": {"action": {"type": "string"}},
        "required": ["action"],
        "additionalProperties": False,
    },
}


class EnvironmentServer:
    """The MCP server of one environment."""

    def __init__(self, environment: Environment, idle_limit: float, *, alone: bool) -> None:
        """Describe the server.

        Args:
            environment: What is played.
            idle_limit: Seconds without a request after which an episode is closed.
            alone: There is one client, whose calls name no episode.

        Raises:
            UsageError: A function of the environment has a name that is needed here.
        """
        self.environment = environment
        self.sessions = Sessions(environment, idle_limit)
        self._alone = alone
        self._functions = {it["name"]: it for it in environment.tools()}
        played = list(self._functions.values()) or [_ACT]
        properties = [it["input_schema"].get("properties", {}) for it in played]
        if "reset" in self._functions or any(_EPISODE in it for it in properties):
            raise UsageError(f"{environment.name} has a function `reset`, or one with `{_EPISODE}`")
        self._tools = [self._reset_tool(), *(self._tool(it) for it in played)]
        self.server: Server[Any] = Server(
            environment.name,
            version=version("agentgym-grpc"),
            instructions="Call `reset` to open an episode, then the other tools until `done`.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
        )

    def _reset_tool(self) -> Tool:
        described = self.environment.described.description
        schema = {"type": "object", "properties": dict(_RESET), "additionalProperties": False}
        text = f"Open an episode in place of the one before. {described}"
        return Tool(name="reset", description=text, input_schema=schema)

    def _tool(self, function: Mapping[str, Any]) -> Tool:
        schema = dict(function["input_schema"])
        if not self._alone:
            named = {"type": "string", "description": "As reset told it."}
            schema["properties"] = {**schema.get("properties", {}), _EPISODE: named}
            schema["required"] = [*schema.get("required", []), _EPISODE]
        return Tool(name=function["name"], description=function["description"], input_schema=schema)

    async def _list_tools(
        self, context: object, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=self._tools)

    async def _call_tool(self, context: object, params: CallToolRequestParams) -> CallToolResult:
        arguments = dict(params.arguments or {})
        if params.name not in {it.name for it in self._tools}:
            names = ", ".join(it.name for it in self._tools)
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:100]!r}: {names}")
        try:
            if params.name == "reset":
                return _result(await self._reset(arguments))
            return _result(await self._play(params.name, arguments))
        except (GatewayError, AgentRuntimeError) as error:
            problem = problem_of(error)
            told = {"reason": problem.reason, "retriable": problem.retriable}
            content = TextContent(type="text", text=problem.detail)
            return CallToolResult(content=[content], structured_content=told, is_error=True)

    async def _reset(self, arguments: dict[str, Any]) -> dict[str, Any]:
        surplus = ", ".join(sorted(set(arguments) - set(_RESET)))
        if surplus:
            raise BadRequest(f"reset does not know {surplus[:200]}: {', '.join(_RESET)}")
        options = arguments.pop("options", {})
        if not isinstance(options, dict):
            raise BadRequest("`options` is an object")
        reset = validate(Reset, {**options, **arguments})
        name = _ALONE if self._alone else ""
        if self.sessions.find(name) is None:
            name = self.sessions.create(name)
        reset.episode_id = name
        try:
            return await self.sessions.reset(self.sessions.require(name), reset)
        except (GatewayError, AgentRuntimeError):
            self.sessions.end(name)  # nobody else knows its name
            raise

    async def _play(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        name = _ALONE if self._alone else str(arguments.pop(_EPISODE, ""))
        if self.sessions.find(name) is None:
            raise BadRequest(
                "there is no such episode: call reset first"
                + ("" if self._alone else f", and name the `{_EPISODE}` that it told"),
                reason="EPISODE_NOT_FOUND",
            )
        called: dict[str, Any] = arguments  # of `act`: {"action": ...}
        if self._functions:
            called = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
        return await self.sessions.step(self.sessions.require(name), validate(Action, called))

    async def _list_resources(
        self, context: object, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Tell a page of tasks; the cursor is the place of the next one, split after split."""
        splits = [(it.name, it.size) for it in self.environment.described.splits if it.size]
        start = _number(params.cursor if params is not None and params.cursor else "0")
        found: list[Resource] = []
        passed = 0
        for split, size in splits:
            first = max(0, start + len(found) - passed)
            last = min(size, first + _PAGE - len(found))
            found += [self._resource(split, place) for place in range(first, last)]
            passed += size
        end = start + len(found)
        total = sum(size for _, size in splits)
        return ListResourcesResult(resources=found, next_cursor=str(end) if end < total else None)

    def _resource(self, split: str, place: int) -> Resource:
        uri = f"{self._prefix}{split}/{place}"
        return Resource(uri=uri, name=f"{split} {place}", mime_type="application/json")

    @property
    def _prefix(self) -> str:
        return f"agentgym://{self.environment.name}/"

    async def _read_resource(
        self, context: object, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        split, _, place = params.uri.removeprefix(self._prefix).rpartition("/")
        try:
            item = (await self.environment.items(split, number := _number(place), number + 1))[0]
        except (GatewayError, AgentRuntimeError) as error:
            raise MCPError(INVALID_PARAMS, problem_of(error).detail) from None
        told = {
            "environment": self.environment.name,
            "item_id": item,
            "split": split,
            "instruction": self.environment.instruction,
        }
        text = orjson.dumps(told).decode()
        contents = TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
        return ReadResourceResult(contents=[contents])


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 18):
        raise MCPError(INVALID_PARAMS, f"{text[:40]!r} is no number of a task")
    return int(text)


_FIELDS: Final[Sequence[str]] = (
    "episode_id",
    "item_id",
    "seq",
    "score",
    "terminated",
    "truncated",
    "stop_reason",
    "parsed_action",
)


def _result(answer: Mapping[str, Any]) -> CallToolResult:
    observation = answer["observation"]
    told = {name: observation[name] for name in _FIELDS}
    told |= {"reward": answer["reward"], "done": answer["done"]}
    texts = [it for it in (observation.get("instruction"), observation["text"]) if it]
    if answer["done"] or observation["seq"] == 0:
        # Agents that are shown the text alone need the name, and hear how it ended.
        texts.append(orjson.dumps(told).decode())
    content: list[TextContent | ImageContent] = [TextContent(type="text", text=it) for it in texts]
    content += [
        ImageContent(data=it["data"], mime_type=it["media_type"])
        for it in observation.get("images", ())
    ]
    return CallToolResult(content=list(content), structured_content=told)
