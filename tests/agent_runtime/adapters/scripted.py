"""What a scripted model replies, so that a harness of somebody else plays as ours does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agentgym

__all__ = ["experts_replies"]

Conversation = list[tuple[str, str]]


def experts_replies(
    environment: str, target: str, count: int, split: str = "eval"
) -> tuple[dict[str, Conversation], Callable[[dict[str, Any]], str]]:
    """Play the first tasks of a split with the expert.

    Returns:
        The conversation of each item, and what says, to the body of a chat request that begins one
        of them, what the expert replied there.
    """
    played: dict[str, Conversation] = {}
    replies: dict[str, str] = {}
    with agentgym.make(environment, target=target) as env:
        for task, _ in zip(env.tasks(split), range(count), strict=False):
            conversation = [("user", env.instruction()), ("assistant", env.acknowledgement())]
            with env.reset(task) as episode:
                conversation.append(("user", episode.text))
                while not episode.ended:
                    reply = episode.consult().reply
                    replies[repr(conversation)] = reply
                    state = episode.reply(reply)
                    conversation += [("assistant", reply), ("user", state.text)]
            played[task.item_id] = conversation

    def answer(body: dict[str, Any]) -> str:
        return replies[repr([(it["role"], _text(it["content"])) for it in body["messages"]])]

    return played, answer


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
