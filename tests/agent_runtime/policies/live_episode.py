"""An environment episode for tests of policies: it gives recorded advice."""

from __future__ import annotations

from agent_runtime.policies import EpisodeContext
from agentgym.env.v1 import environment_pb2, types_pb2


class RecordedEpisode:
    """A live episode that says who was consulted with which seed."""

    def __init__(self) -> None:
        self.consulted: list[tuple[environment_pb2.Advisor, int]] = []

    async def consult(self, advisor: environment_pb2.Advisor, seed: int) -> environment_pb2.Advice:
        self.consulted.append((advisor, seed))
        action = f"move {len(self.consulted)}"
        reply = f"Thought:\nt\n\nAction:\n{action}"
        return environment_pb2.Advice(action=action, thought="t", reply=reply)


def episode_context(
    live: RecordedEpisode | None = None,
    *,
    action_format: types_pb2.ActionFormat = types_pb2.ACTION_FORMAT_REACT,
    tools_json: str = "[]",
    episode_id: str = "run-1/maze_3/0",
    environment: str = "maze",
) -> EpisodeContext:
    """What a session is opened with."""
    return EpisodeContext(
        episode_id=episode_id,
        environment=environment,
        item_id="maze_3",
        action_format=action_format,
        live=live or RecordedEpisode(),
        tools_json=tools_json,
    )
