"""Writing outcomes into the wire's events, in place: the flat fields of the hot path."""

from __future__ import annotations

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server.errors import CommandError
from env_servers.server.live import Result

__all__ = ["fill_error", "fill_result"]


def fill_result(
    event: pb.Event, episode_id: str, seq: int, result: Result, *, replayed: bool = False
) -> None:
    """Write the outcome of a reset or step."""
    text, reward, score, terminated, truncated, stop_reason, info = result.observation
    event.episode_id = episode_id
    event.seq = seq
    event.observation = text
    event.state_hash = result.state_hash
    if replayed:
        event.replayed = True
    if reward is not None:
        event.reward = reward
    if score is not None:
        event.score = score
    if terminated or truncated:
        event.terminated = terminated
        event.truncated = truncated
        event.stop_reason = stop_reason.value  # pyright: ignore[reportAttributeAccessIssue]
    if info is not None:
        event.info.update(info)
    if result.parsed_action is not None:
        event.parsed_action = result.parsed_action


def fill_error(event: pb.Event, episode_id: str, seq: int, error: CommandError) -> None:
    """Write an error."""
    event.episode_id = episode_id
    event.seq = seq
    event.error.CopyFrom(error.status())
