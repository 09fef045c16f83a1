"""From a conversation's text to sequences, exactly as a policy of this model would have met it.

The conversation is played through the same ledger that records rollouts, so prompts, replies and
what follows them get the ids that inference gives them; the mask is true for a reply's ids and the
token that ends its turn. Every reply's ids must decode to its text. What was recorded in tokens
never comes here: it has its ids already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.ledger import Origin, Segment
from agent_runtime.rendering import TemplateRenderer
from agent_runtime.tokenized_conversation import TokenizedConversation
from training.data.sequences import Provenance, TokenSequence, make_sequence

__all__ = ["CannotTokenize", "tokenize"]


class CannotTokenize(ValueError):
    """When a conversation cannot be turned into sequences; says why. Callers count it."""


def tokenize(
    messages: Sequence[Message], renderer: TemplateRenderer, origin: Provenance, weight: float = 1.0
) -> list[TokenSequence]:
    """Return the sequences of a conversation; messages marked `sampled` are trained on.

    There is one sequence, or several where the chat template rewrites history.

    Raises:
        CannotTokenize: The ids of a reply do not decode to its text.
    """
    replies = [index for index, message in enumerate(messages) if message.role is Role.ASSISTANT]
    first = next((index for index in replies if messages[index].sampled), None)
    if first is None:
        return []
    replies = [index for index in replies if index >= first]
    tokenized = TokenizedConversation(renderer)
    try:
        for turn, index in enumerate(replies):
            _append_reply(tokenized, renderer, messages[: index + 1], turn)
    except (PolicyMisconfigured, ValueError) as error:
        raise CannotTokenize(str(error)) from error
    spoken = [messages[index] for index in replies]
    sequences = (
        _to_sequence(segment, number, spoken, origin, weight)
        for number, segment in enumerate(tokenized.ledger.segments)
    )
    return [sequence for sequence in sequences if sequence is not None]


def _append_reply(
    tokenized: TokenizedConversation,
    renderer: TemplateRenderer,
    messages: Sequence[Message],
    turn: int,
) -> None:
    """Append the prompt before the last message, and that message as a reply."""
    tokenized.prompt(messages[:-1])
    ids = renderer.reply_ids(tokenized.text, messages)
    if not ids:
        raise CannotTokenize(f"reply {turn} has no tokens")
    if _without_spaces(renderer.decode(ids)) != _without_spaces(messages[-1].text):
        raise CannotTokenize(f"the masked ids of reply {turn} do not decode to its text")
    tokenized.append_reply(ids, [0.0] * len(ids), generation=turn)


def _without_spaces(text: str) -> str:
    """Return text without white space, which templates and tokenizers trim and prepend."""
    return "".join(text.split())


def _to_sequence(
    segment: Segment, number: int, spoken: Sequence[Message], origin: Provenance, weight: float
) -> TokenSequence | None:
    mask = [
        token is Origin.SAMPLED and turn is not None and spoken[turn].sampled
        for token, turn in zip(segment.origins, segment.generations, strict=True)
    ]
    segment_origin = replace(origin, segment=number)
    return make_sequence(
        np.array(segment.ids, np.uint32), np.array(mask, np.bool_), None, segment_origin, weight
    )
