"""Episodes in token ids with a vLLM server, so that they can be trained on.

The chat endpoint would render the conversation anew for each turn and tokenise what the model said
again. Here the prompt is rendered by us and sent as ids, the sampled ids come back with their
logprobs, and the next prompt goes on from them: the same ledger as with SGLang.

Logprobs are the server's: by default (`--logprobs-mode raw_logprobs`) those of the model itself, at
temperature 1, whatever the temperature was. A token's version is the model's name as the server
gives it with the answer, for vLLM knows no version of weights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import load_renderer
from agent_runtime.logs import get_logger
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.openai.token_ids import (
    TOKEN_IDS_PATH,
    SampledAnswer,
    read_completion,
    token_request,
)
from agent_runtime.policies.base import Completion, EpisodeContext
from agent_runtime.policies.openai_server import Asked, OpenAIServer
from agent_runtime.policies.token_session import TokenSession
from agent_runtime.rendering import ChatRenderer
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import Sampling

__all__ = ["TokenModel", "VLLMSession"]

_PROBE: Final = [Message(Role.USER, "Which tokens is this, and <which> are 12.5% of them?")]

log = get_logger(__name__)


class TokenModel:
    """The model behind a vLLM server, as one that is spoken to in token ids."""

    def __init__(
        self, name: str, server: OpenAIServer, sampling: Sampling, options: OpenAIOptions
    ) -> None:
        """Name the model; `start` asks the server for it."""
        self.name = name
        self.server = server
        self.sampling = sampling
        self.options = options
        self.context_limit = 0
        """Longest prompt plus reply in tokens; 0 = unknown."""
        self._renderer: ChatRenderer | None = None

    @property
    def renderer(self) -> ChatRenderer:
        """Its chat template and tokenizer; raises RuntimeError before `start`."""
        if self._renderer is None:
            raise RuntimeError("the policy is not started")
        return self._renderer

    async def start(self) -> None:
        """Load the tokenizer of the model that is served, and compare it. Raises PolicyError."""
        card = await self.server.model_card(self.name)
        limit: Any = card.get("max_model_len")
        self.context_limit = limit if isinstance(limit, int) else 0
        source: Any = self.options.tokenizer or card.get("root")
        if not isinstance(source, str):
            raise PolicyMisconfigured("the server names no tokenizer: set --openai.tokenizer")
        chosen = self.options.chat_template, self.options.template_date
        self._renderer = await asyncio.to_thread(load_renderer, source, *chosen)
        rendered = self._renderer.begin(_PROBE)
        theirs = await self.server.tokenize(self.name, rendered.text)
        if theirs is None:
            log.warning("the server does not tokenize: its tokenizer is not compared")
        elif theirs != rendered.ids:
            raise PolicyMisconfigured(
                f"{self.server.address} serves {self.name!r} with another tokenizer than the one "
                "used here: leave out --openai.tokenizer, or name the one that belongs to it"
            )


class VLLMSession(TokenSession):
    """One episode."""

    def __init__(self, model: TokenModel, context: EpisodeContext) -> None:
        """Open the episode's ledger; the model is started."""
        super().__init__(model.renderer, model.sampling, model.context_limit)
        self._model = model
        self._context = context
        self._asked: Asked[SampledAnswer] | None = None
        """Of the present reply."""

    def begin(self, messages: Sequence[Message]) -> Sequence[Message]:
        return self._model.options.opening().of(messages, self._context.environment)

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """One generation; see `TokenSession.reply`."""
        self._asked = None
        completion = await super().reply(messages, turn=turn, seed=seed)
        asked = self._asked
        if asked is None:
            return replace(completion, cost_usd=self._model.server.pricing.unbilled)
        cost = self._model.server.cost(asked.answer.usage, from_cache=asked.from_cache)
        return replace(completion, cost_usd=cost, from_cache=asked.from_cache)

    async def sample(self, prompt: list[int], budget: int, seed: int) -> SampledReply:
        request = token_request(
            self._model.name,
            prompt,
            self._model.sampling,
            budget=budget,
            seed=seed,
            stop_ids=self.stop_ids,
        )
        self._asked = asked = await self._model.server.ask(
            TOKEN_IDS_PATH,
            request,
            partial(read_completion, prompt=prompt),
            seed=seed,
            episode_id=self._context.episode_id,
            tokens=len(prompt) + budget,
            repeats=self.repeats,
        )
        return asked.answer.reply
