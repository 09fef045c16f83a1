"""Registers every installed environment as a task of Inspect, for example "agentgym/textcraft".

Inspect loads it by itself, as an entry point of its group. Needs the extra `inspect`.
"""

# Types are those of a library that is not where most is checked: `nox -s adapters` has it.
# pyright: standard, reportMissingImports=false

from __future__ import annotations

from typing import Any

from agent_runtime.adapters.inspect_tasks import Settings, environment_task
from env_servers.sdk.registry import environment_names

# After our own, which says how the extra is installed where it lacks.
from inspect_ai import Task, task  # isort: skip
from inspect_ai.util import registry_info  # isort: skip

__all__ = ["Settings", "environment_task"]


def _register(environment: str, name: str) -> str:
    """Register a task; returns the name that Inspect knows it by."""

    @task(name=name)
    def play(
        target: str = "",
        split: str = "eval",
        action_format: str = "",
        profile: str = "",
        options: dict[str, Any] | None = None,
        seed: int = 0,
        max_rounds: int = 0,
        data: str = "",
    ) -> Task:
        return environment_task(
            environment,
            target=target,
            split=split,
            action_format=action_format,
            profile=profile,
            options=options or {},
            seed=seed,
            max_rounds=max_rounds,
            data=data,
        )

    return registry_info(play).name


for _name in environment_names():
    # Inspect puts the package's name before the task's, but not of an editable installation.
    if _register(_name, _name) != f"agentgym/{_name}":
        _register(_name, f"agentgym/{_name}")
