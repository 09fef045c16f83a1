"""Any OpenAI-compatible server as a policy, by the API that `--openai.api` names.

Chat completions and responses are text: they report no token ids, so that their episodes can be
cloned from but not trained on by policy gradients. Where the episode's format is function calling,
a tool call of the model becomes the JSON text {"thought", "function_name", "arguments"} that
environment servers read; what is wrong with a call (unknown name, broken arguments) is left to the
server to answer. Several calls of one reply are played one after the other, a turn each, and all
their results go back with the next request.

What is sent and read is said in `agent_runtime.openai`; token ids are those of
`agent_runtime.policies.openai_tokens`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import orjson

from agent_runtime.conversation import Message
from agent_runtime.errors import ContextOverflow, PolicyMisconfigured
from agent_runtime.openai.answer import Answer, ToolCall, ToolResult, Turn, declared_tools
from agent_runtime.openai.chat import ChatApi
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.openai.responses import ResponsesApi
from agent_runtime.openai.text_api import TextApi
from agent_runtime.policies.base import Completion, EpisodeContext, Policy, PolicySession
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.openai_server import Asked, OpenAIServer, TextServer
from agent_runtime.policies.openai_tokens import TokenModel, VLLMSession
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.sampling import FinishReason
from agentgym.env.v1 import types_pb2

__all__ = ["OpenAIPolicy", "TextSession"]

_BYTES_PER_TOKEN: Final = 4
_TOKENS_PER_IMAGE: Final = 1000
"""Servers count an image by its pixels, from a hundred tokens to some thousands."""


class OpenAIPolicy(Policy):
    """One model of one server."""

    def __init__(
        self, model: str, config: PolicyConfig, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment` (default: the process's) holds address and key.

        Raises PolicyMisconfigured where the key is missing, unless the address is loopback, and
        for settings that cannot be read or do not go together.
        """
        options = config.openai.resolve()
        if options.api == "responses" and config.sampling.stop:
            raise PolicyMisconfigured(
                "the Responses API has no stop strings: leave out --stop, or use --openai.api chat"
            )
        self.name = f"openai:{model}"
        self._model = model
        self._sampling = config.sampling
        self._options = options
        self._server = OpenAIServer(config, options, environment)
        self.pricing = self._server.pricing
        self._tokens: TokenModel | None = None
        if options.api == "token_ids":
            self._tokens = TokenModel(model, self._server, config.sampling, options)

    async def start(self) -> None:
        """Open the connections; only for token ids the server is asked something already."""
        try:
            await self._server.open()
            if self._tokens is not None:
                await self._tokens.start()
        except BaseException:
            await self._server.close()
            raise

    def open(self, context: EpisodeContext) -> PolicySession:
        """Open a session; raises RuntimeError before `start` where tokens are spoken."""
        if self._tokens is not None:
            return VLLMSession(self._tokens, context)
        tools: list[Any] = []
        calling = context.action_format == types_pb2.ACTION_FORMAT_FUNCTION_CALLING
        if calling and self._options.native_tools:
            tools = declared_tools(context.tools_json)
        kind = ResponsesApi if self._options.api == "responses" else ChatApi
        api = kind(self._model, self._sampling, self._options, tools)
        return TextSession(self._server, api, self._options, context, self._sampling.max_new_tokens)

    def outage(self) -> Outage | None:
        return self._server.outage()

    def request_counts(self) -> RequestCounts:
        return self._server.counts

    async def close(self) -> None:
        await self._server.close()


class TextSession(PolicySession):
    """One episode in texts; for every server that answers like one of OpenAI's."""

    def __init__(
        self,
        server: TextServer,
        api: TextApi,
        options: OpenAIOptions,
        context: EpisodeContext,
        max_new_tokens: int,
    ) -> None:
        self._server = server
        self._api = api
        self.streams = options.stream
        self._opening = options.opening()
        self._max_images = options.max_images
        self._context = context
        self._max_new_tokens = max_new_tokens
        self._answers: dict[int, Answer] = {}
        """What the model answered, by the index of the message that it became."""
        self._further: dict[int, ToolCall] = {}
        """Its other calls, by the index of the message that each became."""
        self._waiting: deque[ToolCall] = deque()
        """Calls of the last answer that are still to be played."""

    @property
    def takes_images(self) -> bool:
        return True

    def begin(self, messages: Sequence[Message]) -> Sequence[Message]:
        return self._opening.of(messages, self._context.environment)

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """One reply; a conversation that is too long gives an empty one with CONTEXT.

        The second and later tool calls of an answer are replies of their own, and ask nobody.
        """
        if self._waiting:
            call = self._waiting.popleft()
            self._further[len(messages)] = call
            return Completion(
                text=call.as_action(""),
                same_completion=True,
                cost_usd=self._server.pricing.unbilled,
            )
        if self._max_images is not None:
            messages = _with_last_images(messages, self._max_images)
        request = self._api.request(self._turns(messages), seed)
        repeats: Counter[str] = Counter()
        try:
            asked = await self._server.ask(
                self._api.path,
                request,
                partial(self._api.read, turn=turn),
                seed=seed,
                episode_id=self._context.episode_id,
                # As servers count against their limits.
                tokens=_estimate(request, messages) + self._max_new_tokens,
                repeats=repeats,
                draft=self._context.draft,
            )
        except ContextOverflow:
            unbilled = self._server.pricing.unbilled
            return Completion(text="", finish_reason=FinishReason.CONTEXT, cost_usd=unbilled)
        self._answers[len(messages)] = asked.answer
        self._waiting.extend(asked.answer.calls[1:])
        return self._completion(asked, repeats)

    def _turns(self, messages: Sequence[Message]) -> list[Turn]:
        """The conversation with what the model answered in place of what it became."""
        turns: list[Turn] = []
        played: ToolCall | None = None
        for index, message in enumerate(messages):
            answer, further = self._answers.get(index), self._further.get(index)
            if answer is not None:
                turns.append(answer)
                played = answer.calls[0] if answer.calls else None
            elif further is not None:
                played = further
            else:
                turns.append(
                    message if played is None else ToolResult(played, message.text, message.images)
                )
                played = None
        return turns

    def _completion(self, asked: Asked[Answer], repeats: Mapping[str, int]) -> Completion:
        answer, usage = asked.answer, asked.answer.usage
        return Completion(
            text=answer.calls[0].as_action(answer.text) if answer.calls else answer.text,
            finish_reason=answer.finish,
            prompt_tokens=usage.prompt or 0,
            completion_tokens=usage.completion or 0,
            cached_tokens=usage.cached or 0,
            cache_write_tokens=usage.written or 0,
            reasoning_tokens=usage.reasoning or 0,
            policy_version=answer.version,
            cost_usd=self._server.cost(usage, from_cache=asked.from_cache),
            repeats=repeats,
            reasoning=answer.reasoning,
            output_items=answer.items,
            from_cache=asked.from_cache,
        )


def _with_last_images(messages: Sequence[Message], count: int) -> list[Message]:
    """Return a conversation that has its last images alone."""
    surplus = sum(len(message.images) for message in messages) - count
    kept: list[Message] = []
    for message in messages:
        dropped = min(max(surplus, 0), len(message.images))
        surplus -= dropped
        kept.append(message._replace(images=message.images[dropped:]) if dropped else message)
    return kept


def _estimate(request: Mapping[str, Any], messages: Sequence[Message]) -> int:
    """Return about how many tokens a prompt has."""
    images = [image for message in messages for image in message.images]
    encoded = sum(4 * -(-len(image.content) // 3) for image in images)
    texts = max(len(orjson.dumps(request)) - encoded, 0)
    return texts // _BYTES_PER_TOKEN + _TOKENS_PER_IMAGE * len(images)
