"""Any server with OpenAI's chat completions API as a policy.

Text only: it reports no token ids, so its episodes can be cloned from but not trained on by
policy gradients. Where the episode's format is function calling, a tool call of the model
becomes the JSON text {"thought", "function_name", "arguments"} that environment servers read;
what is wrong with a call (unknown name, broken arguments) is left to the server to answer.
Several calls of one reply are played one after the other, a turn each, and all their results go
back with the next request.

What is sent and read is said in `agent_runtime.openai`.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from agent_runtime.concurrency import ConcurrencyController, ConcurrencyRules
from agent_runtime.conversation import Message
from agent_runtime.endpoint import Endpoint, is_loopback, split_credentials
from agent_runtime.errors import ContextOverflow, PolicyMisconfigured
from agent_runtime.openai.answer import (
    Answer,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    declared_tools,
)
from agent_runtime.openai.chat import ChatApi
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.openai.opening import Opening
from agent_runtime.policies.base import (
    Completion,
    EpisodeContext,
    Policy,
    PolicySession,
)
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.request_sender import RequestSender
from agent_runtime.sampling import FinishReason, Sampling
from agentgym.env.v1 import types_pb2

__all__ = ["OpenAIPolicy"]

_RULES: Final = ConcurrencyRules(start=256, ceiling=4096, slow=4.0)
"""Servers of this kind report no load: their answers say what they can bear."""
_BYTES_PER_TOKEN: Final = 4
_DEFAULT_URL: Final = "https://api.openai.com/v1"


class OpenAIPolicy(Policy):
    """One model of one server."""

    def __init__(
        self, model: str, config: PolicyConfig, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment` (default: the process's) holds address and key.

        Raises PolicyMisconfigured where the key is missing, unless the address is loopback, and
        for a prompt that cannot be read or filled in.
        """
        variables = os.environ if environment is None else environment
        options = config.openai.resolve()
        url = options.base_url or variables.get("OPENAI_BASE_URL") or _DEFAULT_URL
        key = variables.get(options.api_key_env, "")
        self._endpoint = Endpoint(url, timeout=config.request_timeout, api_key=key)
        self._sender = RequestSender(
            self._endpoint.base_url,
            config.request_retry,
            ConcurrencyController(_RULES.within(config.max_requests)),
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
        )
        address, authorization = split_credentials(url)
        if not key and not authorization and not is_loopback(address):
            raise PolicyMisconfigured(
                f"{address} needs a key: set the environment variable {options.api_key_env}"
            )
        self.name = f"openai:{model}"
        self._model = model
        self._sampling = config.sampling
        self._options = options
        self._opening = options.opening()

    async def start(self) -> None:
        """Open the connection pool; the server is first asked by the first reply."""
        await self._endpoint.open()

    def open(self, context: EpisodeContext) -> PolicySession:
        calling = context.action_format == types_pb2.ACTION_FORMAT_FUNCTION_CALLING
        tools: list[Any] = []
        if calling and self._options.native_tools:
            tools = declared_tools(context.tools_json)
        return _OpenAISession(self, context, tools)

    @property
    def model(self) -> str:
        """The model's name, as requests give it."""
        return self._model

    @property
    def sampling(self) -> Sampling:
        """How replies are sampled."""
        return self._sampling

    @property
    def options(self) -> OpenAIOptions:
        """The settings of this kind, with the texts of the files that they name."""
        return self._options

    @property
    def opening(self) -> Opening:
        """How conversations begin."""
        return self._opening

    async def ask(
        self, api: ChatApi, body: Mapping[str, Any], turn: int, repeats: Counter[str]
    ) -> Answer:
        """Send a request until it is answered; raises PolicyError."""

        async def attempt() -> Answer:
            return api.read(await self._endpoint.post(api.path, body), turn)

        # What a request may cost, as servers count against their limits.
        tokens = len(orjson.dumps(body)) // _BYTES_PER_TOKEN + self._sampling.max_new_tokens
        return await self._sender.send(attempt, tokens=tokens, repeats=repeats)

    def outage(self) -> Outage | None:
        return self._sender.outage()

    def request_counts(self) -> RequestCounts:
        return self._sender.counts

    async def close(self) -> None:
        await self._endpoint.close()


class _OpenAISession(PolicySession):
    def __init__(self, policy: OpenAIPolicy, context: EpisodeContext, tools: list[Any]) -> None:
        self._policy = policy
        self._environment = context.environment
        self._api = ChatApi(policy.model, policy.sampling, policy.options, tools)
        self._answers: dict[int, Answer] = {}
        """What the model answered, by the index of the message that it became."""
        self._further: dict[int, ToolCall] = {}
        """Its other calls, by the index of the message that each became."""
        self._waiting: deque[ToolCall] = deque()
        """Calls of the last answer that are still to be played."""

    def begin(self, messages: Sequence[Message]) -> Sequence[Message]:
        return self._policy.opening.of(messages, self._environment)

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """One reply; a conversation that is too long gives an empty one with CONTEXT.

        The second and later tool calls of an answer are replies of their own, and ask nobody.
        """
        if self._waiting:
            call = self._waiting.popleft()
            self._further[len(messages)] = call
            return Completion(text=call.as_action(""), same_completion=True)
        body = self._api.request(self._turns(messages), seed)
        omitted = self._policy.options.omit
        body = {name: value for name, value in body.items() if name not in omitted}
        repeats: Counter[str] = Counter()
        try:
            answer = await self._policy.ask(self._api, body, turn, repeats)
        except ContextOverflow:
            return Completion(text="", finish_reason=FinishReason.CONTEXT)
        self._answers[len(messages)] = answer
        self._waiting.extend(answer.calls[1:])
        return _completion(answer, self._policy.options, repeats)

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
                turns.append(message if played is None else ToolResult(played, message.text))
                played = None
        return turns


def _completion(answer: Answer, options: OpenAIOptions, repeats: Mapping[str, int]) -> Completion:
    usage = answer.usage
    return Completion(
        text=answer.calls[0].as_action(answer.text) if answer.calls else answer.text,
        finish_reason=answer.finish,
        prompt_tokens=usage.prompt or 0,
        completion_tokens=usage.completion or 0,
        cached_tokens=usage.cached or 0,
        cache_write_tokens=usage.written or 0,
        reasoning_tokens=usage.reasoning or 0,
        policy_version=answer.version,
        cost_usd=_cost(usage, options),
        repeats=repeats,
        reasoning=answer.reasoning,
        output_items=answer.items,
    )


def _cost(usage: Usage, options: OpenAIOptions) -> float | None:
    """US dollars; None where a price or a count is unknown."""
    full, output = options.usd_per_million_input, options.usd_per_million_output
    if full is None or output is None or usage.prompt is None or usage.completion is None:
        return None
    cached, written = options.usd_per_million_cached, options.usd_per_million_cache_write
    reused = min(usage.cached or 0, usage.prompt)
    stored = min(usage.written or 0, usage.prompt - reused)
    return (
        (usage.prompt - reused - stored) * full
        + reused * (full if cached is None else cached)
        + stored * (full if written is None else written)
        + usage.completion * output
    ) / 1e6
