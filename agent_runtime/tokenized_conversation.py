"""One conversation as token ids: the ledger of an episode, kept by a chat renderer.

For policies that speak in tokens. The ids that a policy sampled reach the next prompt unchanged,
unless the chat template itself rewrites earlier turns: then the ledger forks, and counts it.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.conversation import Message, Role
from agent_runtime.ledger import TokenLedger, VersionSpan
from agent_runtime.rendering import ChatRenderer, Continuation, Retokenized

__all__ = ["TokenizedConversation"]


class TokenizedConversation:
    """The token side of one episode."""

    def __init__(self, renderer: ChatRenderer) -> None:
        self.ledger = TokenLedger()
        self._renderer = renderer
        self._text = ""
        self._rendered = 0
        """Messages that the last prompt holds."""
        self._sampled: list[int] | None = None
        """The reply that the next prompt follows; None = no reply since the last prompt."""

    @property
    def text(self) -> str:
        """Text of the last prompt as the chat template gave it; empty before the first."""
        return self._text

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Render the next prompt; asking again before a reply gives the same.

        Args:
            messages: The whole conversation so far, ending with the user's message.

        Returns:
            All ids of the context.

        Raises:
            ValueError: The conversation does not continue the one of the last prompt.
            PolicyMisconfigured: The chat template refuses it.
        """
        if self._sampled is None and self._rendered == len(messages):
            return self.ledger.prompt_ids()
        if self._rendered == 0:
            prompt = self._renderer.begin(messages)
            self.ledger.append_context(prompt.ids)
            self._text = prompt.text
        else:
            self._follow(messages)
        self._rendered = len(messages)
        self._sampled = None
        return self.ledger.prompt_ids()

    def append_reply(
        self,
        ids: Sequence[int],
        logprobs: Sequence[float | None],
        *,
        generation: int,
        versions: Sequence[VersionSpan] = (),
        entropies: Sequence[float] = (),
    ) -> None:
        """Record the reply that was sampled to the last prompt.

        Args:
            ids: Its tokens.
            logprobs: One per id.
            generation: Index of the policy call.
            versions: Names of the weights that sampled them, by spans.
            entropies: One per id; none where the engine told none.

        Raises:
            PolicyMisbehaved: As `TokenLedger.append_sampled`.
        """
        self.ledger.append_sampled(
            ids, logprobs, generation=generation, versions=versions, entropies=entropies
        )
        self._sampled = list(ids)

    def inherit_reply(self, ids: Sequence[int]) -> None:
        """Record a reply to the last prompt that another episode sampled: here it is context."""
        self.ledger.append_context(ids)
        self._sampled = list(ids)

    def reply_text(self, ids: Sequence[int], stop: Sequence[str] = ()) -> str:
        """Decode a reply, cut before the first of the stop strings."""
        text = self._renderer.decode(ids)
        ends = [position for end in stop if end and (position := text.find(end)) >= 0]
        return text[: min(ends)] if ends else text

    def _follow(self, messages: Sequence[Message]) -> None:
        """Append what follows the sampled reply, or fork."""
        reply = self._rendered  # the reply's index: it follows what was rendered
        if self._sampled is None or len(messages) <= reply + 1:
            raise ValueError("a prompt needs the sampled reply and what the environment answered")
        if messages[reply].role is not Role.ASSISTANT:
            raise ValueError("the message after a prompt must be the reply to it")
        match self._renderer.extend(self._text, messages, reply=reply, sampled=self._sampled):
            case Retokenized(text, ids, reason):
                self.ledger.fork(reason, ids)
            case Continuation(text, end_of_turn, context):
                self.ledger.append_forced(end_of_turn)
                self.ledger.append_context(context)
        self._text = text
