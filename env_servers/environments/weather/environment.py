"""One weather episode: find out about weather and places by tools, and hand in an answer.

Unlike in the other tool environments, any satisfied subgoal counts as 1, and coordinates match
within 50 km.
"""

from __future__ import annotations

import math
import random
from typing import Any, ClassVar, Final

from env_servers.environments.weather.prompt import TOOLS
from env_servers.environments.weather.tasks import load_tasks
from env_servers.sdk import EnvironmentConfig, EnvironmentSpec, Parameter
from env_servers.toolkit.tool_calls import Tool, ToolEnvironment, ToolTaskSet, equal_exactly

__all__ = ["Weather"]

_NEAR_KM: Final = 50.0
_RADIUS_KM: Final = 6371.0
_PLACE: Final = {"latitude", "longitude"}
_NAMES: Final = ("Paris", "Lima", "Oslo", "Nairobi", "Denver", "nowhere at all")


class Weather(ToolEnvironment):
    """Answer questions about weather, air and places."""

    toolset = TOOLS
    binary_reward = True
    recorded_first_observation = (
        "Now new trial starts. You should perform actions to accomplish the goal: "
        "{goal}\nGive me one action."
    )
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="weather",
        version="1.0.0",
        description="Answer questions about weather, air quality and places by calling tools.",
        grammar=TOOLS.grammar(),
        conversation_starts=TOOLS.conversation_starts(),
        max_rounds=10,
        profiles=("agentgym", "fixed"),
        has_views=True,
        episode_bytes=32 * 1024,
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ToolTaskSet:
        return load_tasks(config)

    def matches(self, subgoal: Any, output: Any) -> bool:
        if isinstance(subgoal, dict) and subgoal.keys() >= _PLACE:
            return isinstance(output, dict) and output.keys() >= _PLACE and _alike(subgoal, output)
        return equal_exactly(subgoal, output)

    def sample_argument(self, tool: Tool, parameter: Parameter, rng: random.Random) -> Any:
        if parameter.name == "name":
            return rng.choice(_NAMES)
        if parameter.name.endswith("_date"):
            return f"2023-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
        return super().sample_argument(tool, parameter, rng)


def _alike(subgoal: dict[str, Any], output: dict[str, Any]) -> bool:
    """Return whether two replies differ in the place only, by less than 50 km."""
    rest = [
        {name: value for name, value in each.items() if name not in _PLACE}
        for each in (subgoal, output)
    ]
    try:
        near = _haversine_km(subgoal, output) < _NEAR_KM
    except (TypeError, ValueError):
        return False
    return near and equal_exactly(rest[0], rest[1])


def _haversine_km(one: dict[str, Any], other: dict[str, Any]) -> float:
    north1, north2 = math.radians(one["latitude"]), math.radians(other["latitude"])
    east = math.radians(other["longitude"]) - math.radians(one["longitude"])
    half = math.sin((north2 - north1) / 2) ** 2
    half += math.cos(north1) * math.cos(north2) * math.sin(east / 2) ** 2
    return _RADIUS_KM * 2 * math.atan2(math.sqrt(half), math.sqrt(1 - half))
