"""One Academia episode: answer a question about papers and authors by walking two graphs.

Here stand the spec and what a random player tries; the loop is `ToolEnvironment`'s, the functions
those of `backends.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from env_servers.environments.academia import picture
from env_servers.environments.academia.backends import invented_graphs
from env_servers.environments.academia.graphs import AUTHORS, PAPERS
from env_servers.environments.academia.prompt import TOOLS
from env_servers.environments.academia.tasks import OFFICIAL_PREFIX, AcademiaTasks, load_tasks
from env_servers.sdk import Advice, EnvironmentConfig, EnvironmentSpec, Parameter, View
from env_servers.toolkit.tool_calls import Tool, ToolEnvironment, ToolEpisode, write_call

__all__ = ["Academia"]


class Academia(ToolEnvironment):
    """Answer questions about papers, authors, citations and collaborations."""

    toolset = TOOLS
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="academia",
        version="1.0.0",
        description="Answer questions about a citation network and a network of authors.",
        grammar=TOOLS.grammar(),
        conversation_starts=TOOLS.conversation_starts(),
        max_rounds=12,
        profiles=("agentgym", "fixed"),
        has_views=True,
        episode_bytes=64 * 1024,
        item_prefixes=(OFFICIAL_PREFIX,),
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> AcademiaTasks:
        return load_tasks(config)

    def advise_noop(self) -> Advice:
        """`check_valid_actions` works here too, but agents are not told of it."""
        call = write_call("authorNodeCheck", {"node": ""})
        return Advice(call, "I look for nobody in particular.")

    def draw_world(self, episode: ToolEpisode) -> Sequence[View]:
        return picture.draw(episode.outputs)

    def sample_argument(self, tool: Tool, parameter: Parameter, rng: random.Random) -> Any:
        """Papers and authors that exist."""
        if parameter.enum:
            return rng.choice(parameter.enum)
        graphs = invented_graphs()
        title, name = graphs.title(rng.randrange(PAPERS)), graphs.name(rng.randrange(AUTHORS))
        if parameter.name == "answer":
            return rng.choice(("Yes", "No", title, name))
        return title if tool.name.startswith("paper") or rng.random() < 0.3 else name
