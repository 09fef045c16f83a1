"""One Movie episode: answer a question about films with a film database's functions.

Here stand the spec, the first observation of recorded episodes and what a random player tries; the
loop is `ToolEnvironment`'s, the functions those of `functions.py`.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar

from env_servers.environments.movie.backends import embedded_service
from env_servers.environments.movie.catalogue import FILMS, PEOPLE
from env_servers.environments.movie.prompt import TOOLS
from env_servers.environments.movie.tasks import load_tasks
from env_servers.sdk import EnvironmentConfig, EnvironmentSpec, Parameter
from env_servers.toolkit.tool_calls import Tool, ToolEnvironment, ToolTaskSet

__all__ = ["Movie"]


class Movie(ToolEnvironment):
    """Answer questions about films, casts and crews."""

    toolset = TOOLS
    recorded_first_observation = (
        "You should perform actions to accomplish the goal: {goal}\nGive me one action."
    )
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="movie",
        version="1.0.0",
        description="Answer questions about films and people with the tools of a film database.",
        grammar=TOOLS.grammar(),
        conversation_starts=TOOLS.conversation_starts(),
        max_rounds=12,
        profiles=("agentgym", "fixed"),
        has_views=True,
        episode_bytes=64 * 1024,
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ToolTaskSet:
        return load_tasks(config)

    def sample_argument(self, tool: Tool, parameter: Parameter, rng: random.Random) -> Any:
        """Films and people that exist."""
        catalogue = embedded_service().catalogue
        film, person = rng.randrange(FILMS), rng.randrange(PEOPLE)
        samples: dict[str, Any] = {
            "movie_name": catalogue.title(film),
            "person_name": catalogue.person_name(person),
            "movie_id": str(catalogue.film_id(film)),
            "person_id": str(catalogue.person_id(person)),
            "answer": rng.choice(("Yes", "No", catalogue.title(film))),
        }
        return samples[parameter.name]
