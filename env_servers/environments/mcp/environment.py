"""One episode with an MCP server: its tools, an instruction, and checks at the end.

Steps earn nothing until an answer is handed in; then the score is 1 where all checks of the task
hold, else 0.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar, Final, cast

from mcp_types import Tool as ServerTool

from env_servers.environments.mcp.example.stockroom import TOOLS
from env_servers.environments.mcp.prompt import read_tools
from env_servers.environments.mcp.session import McpSession, ServerOptions
from env_servers.environments.mcp.task_file import Check
from env_servers.environments.mcp.tasks import Settings, make_tasks, read_settings
from env_servers.sdk import (
    Advice,
    Environment,
    EnvironmentConfig,
    EnvironmentSpec,
    Execution,
    InvalidOption,
    Observation,
)
from env_servers.toolkit.tool_calls import (
    FINISH,
    Reply,
    ToolEnvironment,
    ToolEpisode,
    ToolSet,
    ToolTaskSet,
)

__all__ = ["Mcp"]

_EXAMPLE_TOOLS: Final = read_tools([ServerTool.model_validate(tool) for tool in TOOLS])
_MEBIBYTE: Final = 1024 * 1024
_END: Final = f"Action: {FINISH.name} "
"""How the action begins that hands an answer in."""


class Mcp(ToolEnvironment):
    """Tasks that are solved by the tools of an MCP server; as it is here, the example's."""

    toolset = _EXAMPLE_TOOLS
    option_names = ("goal",)
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="mcp",
        version="1.0.0",
        description="Solve tasks by the tools of any MCP server; without one, in a stockroom.",
        grammar=_EXAMPLE_TOOLS.grammar(),
        conversation_starts=_EXAMPLE_TOOLS.conversation_starts(),
        max_rounds=20,
        profiles=("fixed",),
        # Each episode waits for a process of its own, or for a service.
        execution=Execution.THREAD,
        has_views=True,
        episode_bytes=16 * _MEBIBYTE,
    )

    @classmethod
    def configured(cls, config: EnvironmentConfig) -> type[Environment]:
        settings = read_settings(config)
        if not any(key.startswith("mcp.") for key in config.settings):
            return cls
        toolset = _ask_tools(settings.server) if settings.own_server else cls.toolset
        return _configured_class(cls, settings, toolset)

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ToolTaskSet:
        return make_tasks(read_settings(config), cls.toolset)

    def finish(self, episode: ToolEpisode, arguments: Mapping[str, Any]) -> Reply:
        # Not where the reward is asked for: here nothing has changed yet, so that the answer can be
        # handed in again if a tool that a check calls gave none.
        checks = cast("tuple[Check, ...]", episode.task.subgoals)
        _session(episode).judge(checks, arguments["answer"])
        return Reply(arguments["answer"])

    def finish_reward(self, episode: ToolEpisode, answer: Any) -> float:
        return float(all(_session(episode).verdict))

    def step(self, action: str) -> Observation:
        observation = super().step(action)
        if not observation.terminated:
            return observation
        told = {**(observation.info or {}), "checks": list(_session(self.episode).verdict)}
        return observation._replace(info=told)

    def advise_random(self, rng: random.Random) -> Advice:
        # Drawn again where it is the end: servers with few tools would hardly be tried.
        advice = super().advise_random(rng)
        return super().advise_random(rng) if advice.action.startswith(_END) else advice

    def advise_expert(self, seed: int) -> Advice:
        if self.episode.task.plan is None:
            raise InvalidOption("the task file has no solution of this task")
        return super().advise_expert(seed)


def _session(episode: ToolEpisode) -> McpSession:
    session = episode.session
    assert isinstance(session, McpSession), "its backend opens no others"
    return session


def _ask_tools(server: ServerOptions) -> ToolSet:
    """Return the tools of a server; raises ServiceUnavailable."""
    from env_servers.environments.mcp.connection import Connection

    with closing(Connection.open(server.address, server.seconds)) as connection:
        return read_tools(connection.tools())


def _configured_class(
    environment: type[Mcp], settings: Settings, toolset: ToolSet
) -> type[Environment]:
    """Return the same environment with a user's server, tasks, or both."""
    spec = replace(
        environment.spec,
        grammar=toolset.grammar(),
        conversation_starts=toolset.conversation_starts(),
        max_rounds=settings.file.max_rounds,
        deterministic=settings.server.deterministic,
        has_expert=all(task.solution is not None for task in settings.file.tasks),
        episode_bytes=(64 if settings.own_server else 16) * _MEBIBYTE,
    )
    return type(
        f"Configured{environment.__name__}", (environment,), {"spec": spec, "toolset": toolset}
    )
