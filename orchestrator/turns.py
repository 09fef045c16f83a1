"""The turns of a record: which messages are replies, and which call gave each.

Turn n is the n-th reply and the step that it caused; turn 0 is the reset. A branch begins with
turns of its parent: their replies are no calls of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.conversation import Message, Role
from agent_runtime.images import shown_images
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import UsageError

__all__ = ["call_of_turn", "messages_until", "reply_places"]


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


def messages_until(record: episode_pb2.Episode, turn: int) -> list[Message]:
    """Return the conversation up to the observation of a turn, none of it marked as sampled.

    Raises UsageError for a turn that was not played, or is not in the conversation.
    """
    if not 0 <= turn < len(record.steps):
        last = len(record.steps) - 1
        raise UsageError(f"the episode has no turn {turn}: 0 to {last} were played")
    replies = reply_places(record)
    if len(replies) < turn:
        raise UsageError(f"what was said before turn {turn} is not recorded: it cannot go on")
    end = replies[turn] if turn < len(replies) else len(record.messages)
    told = [
        Message(Role(it.role), it.text, images=shown_images(it, record.images))
        for it in record.messages[:end]
    ]
    # A conversation may stop before the last observation, which nobody replied to.
    if not told or told[-1].role is not Role.USER:
        step = record.steps[turn]
        images = shown_images(step, record.images)
        told.append(Message(Role.USER, step.observation, images=images))
    return told
