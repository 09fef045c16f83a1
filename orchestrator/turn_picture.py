"""The picture of a turn of a recorded episode, drawn by its environment on a server."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator.client import ClientConfig, connection_options
from orchestrator.command_line import run_loop
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.revisit import revisit

__all__ = ["draw_turn"]


def draw_turn(record: episode_pb2.Episode, turn: int, config: FleetConfig) -> Sequence[pb.View]:
    """Return the views of the state after a turn, 0 = after the reset; starts servers if need be.

    Raises what `orchestrator.revisit` raises, FleetError where the environment cannot be had, and
    EnvironmentFailure where it draws nothing.
    """

    async def draw() -> Sequence[pb.View]:
        options = connection_options(ClientConfig())
        async with (
            Fleet([record.environment], config, options) as fleet,
            revisit(record, turn, fleet) as live,
        ):
            return (await live.connection.render(live.episode_id)).views

    return run_loop(draw())
