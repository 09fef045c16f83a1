"""The turns of a record: which messages are replies, and which call gave each.

Turn n is the n-th reply and the step that it caused; turn 0 is the reset. A branch begins with
turns of its parent: their replies are no calls of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.episode.v1 import episode_pb2

__all__ = ["call_of_turn", "reply_places"]


def reply_places(episode: episode_pb2.Episode) -> Sequence[int]:
    """Return the places of all replies in `messages`, turn by turn, a parent's included."""
    own = [at for at, message in enumerate(episode.messages) if message.sampled]
    inherited = episode.parent.turn
    if not inherited:
        return own
    before = range(own[0] if own else len(episode.messages))
    said = [at for at in before if episode.messages[at].role == episode_pb2.ROLE_ASSISTANT]
    # What stands before them is the conversation's start, whose acknowledgement nobody played.
    return said[-inherited:] + own


def call_of_turn(episode: episode_pb2.Episode, turn: int) -> episode_pb2.Generation | None:
    """Return the policy call of a turn, from 1; None = it has none, or it was the parent's."""
    index = turn - 1 - episode.parent.turn
    return episode.generations[index] if 0 <= index < len(episode.generations) else None
