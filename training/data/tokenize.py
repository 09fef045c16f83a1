"""From a conversation's text to sequences, exactly as a policy of this model would have met it.

Owns the checked mask: the conversation is played through the same ledger that records rollouts, so
prompts, replies and what follows them get the ids that inference gives them, and the mask is true
for a reply's ids and the token that ends its turn. Every reply's ids must decode to its text.

Knows no files. What was recorded in tokens never comes here: it has its ids already.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """The sequences of a conversation; messages marked `sampled` are trained on.

    One sequence, or several where the chat template rewrites history. Raises CannotTokenize.
    """
    replies = [at for at, it in enumerate(messages) if it.role is Role.ASSISTANT]
    trained = [at for at in replies if messages[at].sampled]
    if not trained:
        return []
    tokenized = TokenizedConversation(renderer)
    try:
        for turn, at in enumerate(it for it in replies if it >= trained[0]):
            _speak(tokenized, renderer, messages[: at + 1], turn)
    except (PolicyMisconfigured, ValueError) as error:
        raise CannotTokenize(str(error)) from error
    spoken = [messages[at] for at in replies if at >= trained[0]]
    made = (
        _to_sequence(segment, number, spoken, origin, weight)
        for number, segment in enumerate(tokenized.ledger.segments)
    )
    return [sequence for sequence in made if sequence is not None]


def _speak(
    tokenized: TokenizedConversation,
    renderer: TemplateRenderer,
    messages: Sequence[Message],
    turn: int,
) -> None:
    """Append the prompt of the last message and that message as a reply."""
    tokenized.prompt(messages[:-1])
    ids = renderer.reply_ids(tokenized.text, messages)
    if not ids:
        raise CannotTokenize(f"reply {turn} has no tokens")
    if _bare(renderer.decode(ids)) != _bare(messages[-1].text):
        raise CannotTokenize(f"the masked ids of reply {turn} do not decode to its text")
    tokenized.append_reply(ids, [0.0] * len(ids), generation=turn)


def _bare(text: str) -> str:
    """Text without white space, which templates and tokenizers trim and prepend."""
    return "".join(text.split())


def _to_sequence(
    segment: Segment, number: int, spoken: Sequence[Message], origin: Provenance, weight: float
) -> TokenSequence | None:
    mask = [
        token is Origin.SAMPLED and turn is not None and spoken[turn].sampled
        for token, turn in zip(segment.origins, segment.generations, strict=True)
    ]
    place = Provenance(**{**origin.to_plain(), "segment": number})
    return make_sequence(
        np.array(segment.ids, np.uint32), np.array(mask, np.bool_), None, place, weight
    )
