"""AgentTraj and AgentTraj-L files as records.

An entry is a conversation with an item id; it has neither steps nor, in the published files, a
reward. Each reply that is trained on was played, hence is a step; a file ends with the last of
them, whose observation nobody knows: it is empty.
Source: https://huggingface.co/datasets/AgentGym/AgentTraj-L
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from agent_runtime.conversation import Message, Role
from agentgym.episode.v1 import episode_pb2
from orchestrator.conversations import environment_name, to_conversation
from orchestrator.imports.base import EntryReader, Source, add_step, begin_record

__all__ = ["AgentTrajReader"]

_KEPT = frozenset({"conversations", "item_id", "reward", "success"})


class AgentTrajReader(EntryReader):
    """Reads objects with `conversations`."""

    def accepts(self, entry: Any) -> bool:
        return isinstance(entry, dict) and "conversations" in entry

    def to_episode(self, number: int, entry: Any, source: Source) -> episode_pb2.Episode:
        conversation = to_conversation(number, entry)
        source.left_out.update(name for name in cast("dict[str, Any]", entry) if name not in _KEPT)
        item_id = conversation.item_id
        environment = environment_name(item_id) if item_id else source.environment
        episode = begin_record(environment, item_id or f"entry-{number}", source.policy)
        episode.episode_id = source.episode_id(number)
        for message in conversation.messages:
            episode.messages.add(
                role=cast("episode_pb2.Role", int(message.role)),
                text=message.text,
                sampled=message.sampled,
            )
        _add_steps(episode, conversation.messages)
        if conversation.reward is not None:
            episode.reward = episode.steps[-1].reward = conversation.reward
        if conversation.success is not None:
            episode.success = conversation.success
        return episode


def _add_steps(episode: episode_pb2.Episode, messages: Sequence[Message]) -> None:
    """Add the reset and a step for each reply, with the observation that the next message is."""
    replies = [at for at, message in enumerate(messages) if message.sampled]
    opening = messages[: replies[0]] if replies else messages
    shown = [message.text for message in opening if message.role is Role.USER]
    add_step(episode, shown[-1] if shown else "")
    for at in replies:
        after = messages[at + 1] if at + 1 < len(messages) else None
        observed = after.text if after is not None and after.role is Role.USER else ""
        add_step(episode, observed, messages[at].text)
