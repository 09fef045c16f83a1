"""Answers to commands, written in place into the events of a stream's outbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server.errors import CommandError
from env_servers.server.instance import AdvisedReply, Result

__all__ = [
    "Answer",
    "Deferred",
    "WriteAnswer",
    "advice",
    "attached",
    "cancelled",
    "closed",
    "lease_extended",
    "observation",
    "write_error",
    "write_result",
]

WriteAnswer = Callable[[pb.Event], None]
"""Writes the body of the event that answers a command."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """An answer that takes time: it is written when it is there."""

    outcome: Awaitable[WriteAnswer]


Answer = WriteAnswer | Deferred


# No keyword parameters: CPython calls a function that has some more slowly, with or without them.
def write_result(event: pb.Event, episode_id: str, seq: int, result: Result) -> None:
    """Write the outcome of a reset or step: the flat fields of the hot path."""
    observed, state_hash, parsed_action = result
    text, reward, score, terminated, truncated, stop_reason, info, images = observed
    event.episode_id = episode_id
    event.seq = seq
    event.observation = text
    event.state_hash = state_hash
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
    for media_type, content in images:
        event.images.add(media_type=media_type, content=content)
    if parsed_action is not None:
        event.parsed_action = parsed_action


def write_error(event: pb.Event, episode_id: str, seq: int, error: CommandError) -> None:
    """Write an error."""
    event.episode_id = episode_id
    event.seq = seq
    event.error.CopyFrom(error.status())


def observation(
    episode_id: str, seq: int, result: Result, *, replayed: bool = False
) -> WriteAnswer:
    """Answer with the outcome of a reset or step."""

    def write(event: pb.Event) -> None:
        write_result(event, episode_id, seq, result)
        if replayed:
            event.replayed = True

    return write


def attached(seq: int, lease: float, *, in_flight: bool) -> WriteAnswer:
    """Answer an attach; `lease` in seconds."""
    body = pb.Attached(current_seq=seq, in_flight=in_flight, lease_ms=int(lease * 1000))
    return lambda event: event.attached.CopyFrom(body)


def advice(advised: AdvisedReply) -> WriteAnswer:
    """Answer a consultation."""
    action, thought, reply = advised
    body = pb.Advice(action=action, thought=thought, reply=reply)
    return lambda event: event.advice.CopyFrom(body)


def cancelled(*, found: bool) -> WriteAnswer:
    """Answer a cancel; `found` tells whether there was anything to cancel."""
    return lambda event: event.cancelled.CopyFrom(pb.Cancelled(found=found))


def closed(*, found: bool) -> WriteAnswer:
    """Answer a close; `found` tells whether the episode was there."""
    return lambda event: event.closed.CopyFrom(pb.Closed(found=found))


def lease_extended(lease: float) -> WriteAnswer:
    """Answer a heartbeat; `lease` in seconds."""
    body = pb.LeaseExtended(lease_ms=int(lease * 1000))
    return lambda event: event.lease_extended.CopyFrom(body)
