"""What a scripted model replies, so that a harness of somebody else plays as ours does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agentgym
from tests.kit.fake_openai import text_of

__all__ = ["scripted_replies"]

Conversation = list[tuple[str, str]]


def scripted_replies(
    environment: str, target: str, count: int, *, split: str = "eval", gives_up: int = 0
) -> tuple[dict[str, Conversation], Callable[[dict[str, Any]], str]]:
    """Play the first tasks of a split with the expert.

    Args:
        environment: Its name.
        target: Its server.
        count: Number of tasks.
        split: Where they are from.
        gives_up: Each task of this number, counted from 1, is played by who does nothing.

    Returns:
        The conversation of each item, and what says, to the body of a chat request that begins one
        of them, what was replied there.
    """
    played: dict[str, Conversation] = {}
    replies: dict[str, str] = {}
    with agentgym.make(environment, target=target) as env:
        for number, task in zip(range(1, count + 1), env.tasks(split), strict=False):
            player = "noop" if gives_up and number % gives_up == 0 else "expert"
            conversation = [("user", env.instruction()), ("assistant", env.acknowledgement())]
            with env.reset(task) as episode:
                conversation.append(("user", episode.text))
                while not episode.ended and episode.seq < env.max_rounds:
                    reply = episode.consult(player).reply
                    replies[repr(conversation)] = reply
                    state = episode.reply(reply)
                    conversation += [("assistant", reply), ("user", state.text)]
            played[task.item_id] = conversation

    def answer(body: dict[str, Any]) -> str:
        return replies[repr([(it["role"], text_of(it)) for it in body["messages"]])]

    return played, answer
