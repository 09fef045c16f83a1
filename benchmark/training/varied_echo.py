"""An echo whose episodes are as long as their first action says: from two turns on.

For benchmarks of training: who samples the replies decides the spread of episode lengths.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation

__all__ = ["environment"]


class VariedEcho(EchoEnvironment):
    """Echo under another name; its first action is the number of its steps."""

    spec: ClassVar[EnvironmentSpec] = replace(
        EchoEnvironment.spec, name="varied_echo", max_rounds=100
    )

    def step(self, action: str) -> Observation:
        episode = self.episode
        if not episode.steps and action.isdecimal():
            episode.options = replace(episode.options, length=int(action))
        return super().step(action)


environment = VariedEcho
