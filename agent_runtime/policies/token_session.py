"""The episode of a policy whose server takes and gives token ids.

What is common to such servers: the ledger, the budget that the context leaves, and what a full
context means. How a reply is sampled is the subclass's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence

from agent_runtime.conversation import Message
from agent_runtime.draft import Draft
from agent_runtime.errors import ContextOverflow, PolicyUnavailable
from agent_runtime.policies.base import Completion, PolicySession
from agent_runtime.rendering import ChatRenderer
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import FinishReason, Sampling
from agent_runtime.tokenized_conversation import TokenizedConversation
from agentgym.episode.v1 import episode_pb2

__all__ = ["TokenSession"]


class TokenSession(PolicySession):
    """One episode's ledger."""

    def __init__(
        self,
        renderer: ChatRenderer,
        sampling: Sampling,
        context_limit: int,
        *,
        remedy: str = "serve it with a longer one",
    ) -> None:
        """Begin with an empty ledger.

        Args:
            renderer: Chat template and tokenizer of the model.
            sampling: How replies are sampled.
            context_limit: Longest prompt plus reply, in tokens; 0 = unknown.
            remedy: What to do where it cannot hold the first observation.
        """
        self.stop_ids = list(renderer.stop_ids)
        """Ids that end a reply."""
        self.repeats: Counter[str] = Counter()
        """Requests of the present reply that were sent again, by reason."""
        self._conversation = TokenizedConversation(renderer)
        self._sampling = sampling
        self._limit = context_limit
        self._remedy = remedy

    def inherit(self, messages: Sequence[Message], replies: Sequence[Sequence[int]]) -> None:
        """Put the replies into the ledger as the context that they are here, id by id."""
        first = len(messages) - 2 * len(replies)
        for number, ids in enumerate(replies):
            self._conversation.prompt(messages[: first + 2 * number])
            self._conversation.inherit_reply(ids)

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """One generation; a full context gives an empty reply with CONTEXT and asks nobody.

        Raises ContextOverflow where the context cannot hold the first observation.
        """
        prompt = self._conversation.prompt(messages)
        max_new_tokens, limit = self._sampling.max_new_tokens, self._limit
        budget = min(max_new_tokens, limit - len(prompt)) if limit else max_new_tokens
        if budget < 1:
            return self._exhausted(turn, len(prompt), f"{limit} tokens")
        self.repeats = Counter()
        try:
            generated = await self.sample(prompt, budget, seed)
        except ContextOverflow as error:
            return self._exhausted(turn, len(prompt), str(error))
        if not generated.ids and generated.finish is FinishReason.ABORT:
            raise PolicyUnavailable("the engine gave the request back before the first token")
        self._conversation.append_reply(
            generated.ids,
            generated.logprobs,
            generation=turn,
            versions=generated.versions,
            entropies=generated.entropies,
        )
        cut = generated.finish is FinishReason.LENGTH and budget < max_new_tokens
        return Completion(
            text=self.text(generated.ids, self._sampling.stop),
            finish_reason=FinishReason.CONTEXT if cut else generated.finish,
            prompt_tokens=len(prompt),
            completion_tokens=len(generated.ids),
            cached_tokens=generated.cached,
            policy_version=generated.versions[-1].version if generated.versions else "",
            repeats=self.repeats,
        )

    def text(self, ids: Sequence[int], stop: Sequence[str] = ()) -> str:
        """Decode a reply, cut before the first of the stop strings."""
        return self._conversation.reply_text(ids, stop)

    def write_draft(self, draft: Draft, ids: list[int]) -> None:
        """Tell whoever watches what is sampled so far."""
        draft.write(lambda: self.text(ids, self._sampling.stop))

    def token_segments(self) -> list[episode_pb2.TokenSegment]:
        return self._conversation.ledger.to_protos()

    @abstractmethod
    async def sample(self, prompt: list[int], budget: int, seed: int) -> SampledReply:
        """Sample a whole reply of at most `budget` tokens; raises PolicyError."""

    def _exhausted(self, turn: int, prompt_tokens: int, limit: str) -> Completion:
        if turn == 0:
            raise ContextOverflow(
                f"the first observation makes a prompt of {prompt_tokens} tokens, which the "
                f"model's context cannot hold ({limit}): {self._remedy}"
            )
        return Completion(text="", finish_reason=FinishReason.CONTEXT, prompt_tokens=prompt_tokens)
