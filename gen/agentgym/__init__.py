"""LLM-agent environments over gRPC, as a library.

    import agentgym

    with agentgym.make("textcraft") as env:
        with env.reset() as episode:
            while not episode.ended:
                episode.step(episode.consult().action)
            print(episode.score)

`agentgym.aio` is the same for programs with an event loop, `agentgym.gymnasium` registers the
environments with Gymnasium. `agentgym.env` and `agentgym.episode` are generated from the contract
and stand alone: nothing of the library is loaded before one of its names is used.
"""

# This file, aio.py, gymnasium.py, inspect_tasks.py, rubric.py and trl_rollouts.py are written by
# hand; everything else here is generated.

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from agent_runtime.channel import ClientSecurity, ConnectionOptions
    from agent_runtime.episode import Transition
    from agent_runtime.errors import (
        AgentRuntimeError,
        ConnectionLost,
        EnvironmentFailure,
        EpisodeClosed,
        ServerArgumentsInvalid,
        ServerNotStarted,
        UnknownName,
    )
    from agent_runtime.images import Image
    from agent_runtime.library.sync import Environment, Episode, Vector, make
    from agent_runtime.library.values import Advice, Task, View
    from agent_runtime.library.vector import Autoreset, Batch
    from agentgym import aio
    from env_servers.sdk.registry import environment_names

__all__ = [
    "Advice",
    "AgentRuntimeError",
    "Autoreset",
    "Batch",
    "ClientSecurity",
    "ConnectionLost",
    "ConnectionOptions",
    "Environment",
    "EnvironmentFailure",
    "Episode",
    "EpisodeClosed",
    "Image",
    "ServerArgumentsInvalid",
    "ServerNotStarted",
    "Task",
    "Transition",
    "UnknownName",
    "Vector",
    "View",
    "aio",
    "environment_names",
    "make",
]

_MODULES: Final = {
    "agent_runtime.channel": ("ClientSecurity", "ConnectionOptions"),
    "agent_runtime.episode": ("Transition",),
    "agent_runtime.errors": (
        "AgentRuntimeError",
        "ConnectionLost",
        "EnvironmentFailure",
        "EpisodeClosed",
        "ServerArgumentsInvalid",
        "ServerNotStarted",
        "UnknownName",
    ),
    "agent_runtime.images": ("Image",),
    "agent_runtime.library.sync": ("Environment", "Episode", "Vector", "make"),
    "agent_runtime.library.values": ("Advice", "Task", "View"),
    "agent_runtime.library.vector": ("Autoreset", "Batch"),
    "env_servers.sdk.registry": ("environment_names",),
}
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "aio":
        return importlib.import_module("agentgym.aio")
    if name not in _HOMES:
        raise AttributeError(f"module 'agentgym' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
