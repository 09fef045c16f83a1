"""One TODOList episode: a user's goal about a to-do account.

What `finish` is worth is all or nothing, and only if the account is what it has to be.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from env_servers.environments.todo import picture
from env_servers.environments.todo.prompt import TOOLS
from env_servers.environments.todo.sessions import EmbeddedSession, RecordedTodoSession, TodoSession
from env_servers.environments.todo.tasks import NAME, load_tasks
from env_servers.sdk import EnvironmentConfig, EnvironmentSpec, Parameter, View
from env_servers.toolkit.tool_calls import Tool, ToolEnvironment, ToolEpisode, ToolTaskSet

__all__ = ["Todo"]


class Todo(ToolEnvironment):
    """Look things up in a to-do account and change it."""

    toolset = TOOLS
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name=NAME,
        version="1.0.0",
        description="Answer questions about a to-do account and change it, by calling tools.",
        grammar=TOOLS.grammar(),
        conversation_starts=TOOLS.conversation_starts(),
        max_rounds=15,
        profiles=("agentgym", "fixed"),
        has_views=True,
        episode_bytes=64 * 1024,
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ToolTaskSet:
        return load_tasks(config)

    def final_reward(self, episode: ToolEpisode, reward: float) -> float:
        session = episode.session
        if not isinstance(session, TodoSession):
            raise TypeError("a session without an end state")
        return float(reward == 1.0 and session.state() == episode.task.end_state)

    def draw_world(self, episode: ToolEpisode) -> Sequence[View]:
        session = episode.session
        if not isinstance(session, EmbeddedSession | RecordedTodoSession):
            return ()
        return picture.draw(session.store, episode.task.end_state)

    def sample_argument(self, tool: Tool, parameter: Parameter, rng: random.Random) -> Any:
        """Ids that were seen, dates that occur."""
        if parameter.name in ("project_id", "task_id"):
            return rng.choice(self._seen_ids() or ["1"])
        if parameter.name == "due_date":
            return (
                f"{rng.randrange(2015, 2027)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
            )
        return super().sample_argument(tool, parameter, rng)

    def _seen_ids(self) -> list[str]:
        """Ids in the lists that the agent was shown, in the order of the calls."""
        outputs = self.episode.outputs.values() if self.running else ()
        return [
            str(entry["id"])
            for value in outputs
            if isinstance(value, list)
            for entry in value
            if isinstance(entry, dict) and "id" in entry
        ]
