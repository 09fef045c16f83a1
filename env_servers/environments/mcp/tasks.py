"""Which server and which task file: the settings, and the tasks that follow from them."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from env_servers.environments.mcp.errors import TaskFileError
from env_servers.environments.mcp.expert import make_plan
from env_servers.environments.mcp.prompt import McpTool
from env_servers.environments.mcp.server import ServerAddress
from env_servers.environments.mcp.session import McpBackend, ServerOptions
from env_servers.environments.mcp.task_file import FileTask, TaskFile, read_file
from env_servers.sdk import EnvironmentConfig, InvalidOption, Task
from env_servers.toolkit.tool_calls import (
    EMBEDDED,
    ToolSet,
    ToolSettings,
    ToolTask,
    ToolTaskSet,
)

__all__ = ["EXAMPLE_TASKS", "McpTasks", "Settings", "make_tasks", "read_settings"]

NAME: Final = "mcp"
_EXAMPLE: Final = Path(__file__).parent / "example"
EXAMPLE_TASKS: Final = _EXAMPLE / "tasks.toml"
# Without the user's site and settings, so that it is the same everywhere, and there in 20 ms.
_EXAMPLE_SERVER: Final = (sys.executable, "-I", "-S", str(_EXAMPLE / "stockroom.py"))
_KEYS: Final = ("command", "url", "tasks", "timeout", "deterministic", "variables", "token")


@dataclass(frozen=True, slots=True)
class Settings:
    """What was set, with the example in place of what was not."""

    server: ServerOptions
    file: TaskFile
    own_server: bool
    """Another one than the example."""


class McpTasks(ToolTaskSet):
    """The tasks of a file."""

    def __init__(self, splits: Mapping[str, list[Task]], backend: McpBackend, version: str) -> None:
        """`version` changes when the file or the server's tools do."""
        super().__init__(NAME, {}, splits, {EMBEDDED: backend}, version=version)


def read_settings(config: EnvironmentConfig) -> Settings:
    """Return what was set; raises InvalidOption, TaskFileError."""
    settings = ToolSettings.read(config, NAME, _KEYS)
    command, url = settings.text("command", ""), settings.text("url", "")
    if command and url:
        raise InvalidOption("set mcp.command or mcp.url, not both")
    own = bool(command or url)
    if own and not settings.text("tasks", ""):
        raise InvalidOption("setting mcp.tasks has to name the task file of the MCP server")
    if url and not url.startswith(("http://", "https://")):
        raise InvalidOption(f"setting mcp.url is no address of HTTP: {url[:100]!r}")
    try:
        words = tuple(shlex.split(command)) or _EXAMPLE_SERVER
    except ValueError as error:
        raise InvalidOption(f"setting mcp.command is no command line: {error}") from None
    variables = tuple(it.strip() for it in settings.text("variables", "").split(",") if it.strip())
    server = ServerOptions(
        address=ServerAddress(
            command=() if url else words,
            url=url,
            variables=variables,
            token=settings.text("token", ""),
        ),
        seconds=settings.number("timeout", 20.0),
        deterministic=settings.flag("deterministic") or not own,
    )
    return Settings(server, read_file(Path(settings.text("tasks", str(EXAMPLE_TASKS)))), own)


def make_tasks(settings: Settings, toolset: ToolSet) -> McpTasks:
    """Return the tasks of a file; raises TaskFileError for a tool that the server does not have."""
    tools = {it.asked_as: it for it in toolset.tools if isinstance(it, McpTool)}
    splits: dict[str, list[Task]] = {}
    for task in settings.file.tasks:
        for call in task.calls():
            if call.tool not in tools:
                raise TaskFileError(
                    f"task {task.id} names the tool {call.tool[:100]!r}, which the MCP server does "
                    "not have",
                    valid=tools,
                )
        splits.setdefault(task.split, []).append(_make_task(task, tools))
    schemas = [[it.asked_as, it.description, dict(it.schema)] for it in tools.values()]
    content = json.dumps([schemas, settings.file.model_dump(mode="json")], sort_keys=True)
    version = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    return McpTasks(splits, McpBackend(settings.server, toolset), version)


def _make_task(task: FileTask, tools: dict[str, McpTool]) -> Task:
    payload = ToolTask(
        goal=task.instruction,
        subgoals=task.checks,
        index=task.id,
        plan=make_plan(task, tools),
        steps=len(task.solution or ()) + 1,
    )
    return Task(f"{NAME}_{task.id}", payload, task.category)
