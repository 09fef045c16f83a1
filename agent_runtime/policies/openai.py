"""Any server with OpenAI's chat completions API as a policy.

Conversations are translated to that API's messages and tool calls, and back.
Text only: it reports no token ids, so its episodes can be cloned from but not trained on by
policy gradients. Where the episode's format is function calling, the model's first tool call
becomes the JSON text {"thought", "function_name", "arguments"} that environment servers read;
what is wrong with a call (unknown name, broken arguments) is left to the server to answer.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agent_runtime.concurrency import ConcurrencyController, ConcurrencyRules
from agent_runtime.conversation import Message, Role
from agent_runtime.endpoint import Endpoint, is_loopback, split_credentials
from agent_runtime.errors import (
    ContextOverflow,
    PolicyMisbehaved,
    PolicyMisconfigured,
    PolicyRejected,
    Trouble,
)
from agent_runtime.policies.base import (
    Completion,
    EpisodeContext,
    Policy,
    PolicySession,
)
from agent_runtime.policies.config import OpenAIOptions, PolicyConfig
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.request_sender import RequestSender
from agent_runtime.sampling import FinishReason
from agent_runtime.usage import read_count
from agentgym.env.v1 import types_pb2

__all__ = ["OpenAIPolicy"]

_RULES: Final = ConcurrencyRules(start=256, ceiling=4096, slow=4.0)
"""Servers of this kind report no load: their answers say what they can bear."""
_BYTES_PER_TOKEN: Final = 4
_DEFAULT_URL: Final = "https://api.openai.com/v1"
_SEED_MASK: Final = 2**31 - 1
"""Some servers take 32-bit seeds only; the low bits of a derived seed differ just as well."""
_ROLES: Final = {Role.SYSTEM: "system", Role.USER: "user", Role.ASSISTANT: "assistant"}
_FINISH: Final = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "abort": FinishReason.ABORT,
}


_Answer = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]
"""The whole answer, its first choice, and the message in that."""


class OpenAIPolicy(Policy):
    """One model of one server."""

    def __init__(
        self, model: str, config: PolicyConfig, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment` (default: the process's) holds address and key.

        Raises PolicyMisconfigured where the key is missing, unless the address is loopback.
        """
        variables = os.environ if environment is None else environment
        options = config.openai
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
        self._config = config

    async def start(self) -> None:
        """Open the connection pool; the server is first asked by the first reply."""
        await self._endpoint.open()

    def open(self, context: EpisodeContext) -> PolicySession:
        tools: list[Any] = []
        calling = context.action_format == types_pb2.ACTION_FORMAT_FUNCTION_CALLING
        if calling and self._config.openai.native_tools:
            tools = _declared(context.tools_json)
        return _OpenAISession(self._endpoint, self._sender, self._model, self._config, tools)

    def outage(self) -> Outage | None:
        return self._sender.outage()

    def request_counts(self) -> RequestCounts:
        return self._sender.counts

    async def close(self) -> None:
        await self._endpoint.close()


@dataclass(frozen=True, slots=True)
class _ToolCall:
    """One tool call of a reply."""

    thought: str
    id: str
    name: str
    arguments: str
    """As the model wrote them; meant to be a JSON object."""

    def as_action(self) -> str:
        """The text that environment servers read; broken arguments stay the text they are."""
        try:
            arguments = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = self.arguments
        call = {"thought": self.thought, "function_name": self.name, "arguments": arguments}
        return json.dumps(call, ensure_ascii=False)

    def as_message(self) -> dict[str, Any]:
        """The assistant message in the API's own form."""
        function = {"name": self.name, "arguments": self.arguments}
        call = {"id": self.id, "type": "function", "function": function}
        return {"role": "assistant", "content": self.thought or None, "tool_calls": [call]}


class _OpenAISession(PolicySession):
    def __init__(
        self,
        endpoint: Endpoint,
        sender: RequestSender,
        model: str,
        config: PolicyConfig,
        tools: list[Any],
    ) -> None:
        self._endpoint = endpoint
        self._sender = sender
        self._model = model
        self._sampling = config.sampling
        self._options = config.openai
        self._tools = tools
        self._calls: dict[int, _ToolCall] = {}
        """Tool calls by the index of the message that they became."""

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """One reply; a conversation that is too long gives an empty one with CONTEXT."""
        request = self._body(messages, seed)
        repeats: Counter[str] = Counter()
        try:
            answer = await self._sender.send(
                lambda: self._ask(request), tokens=self._most_tokens(request), repeats=repeats
            )
        except ContextOverflow:
            return Completion(text="", finish_reason=FinishReason.CONTEXT)
        body, choice, message = answer
        finish = str(choice.get("finish_reason"))
        if finish == "content_filter":
            raise PolicyRejected("the server's content filter refused the conversation")
        text = _content(message)
        call = _first_call(message, text, turn) if self._tools else None
        if call is not None:
            self._calls[len(messages)] = call
            text = call.as_action()
        usage = _Usage.read(body.get("usage"))
        return Completion(
            text=text,
            finish_reason=_FINISH.get(finish, FinishReason.STOP),
            prompt_tokens=usage.prompt or 0,
            completion_tokens=usage.completion or 0,
            cached_tokens=usage.cached or 0,
            policy_version=_version(body),
            cost_usd=usage.cost(self._options),
            repeats=repeats,
        )

    async def _ask(self, request: Mapping[str, Any]) -> _Answer:
        """Send a request once; an answer without a message may be better the next time."""
        body = await self._endpoint.post("/chat/completions", request)
        choice = _first_choice(body)
        return body, choice, _mapping(choice, "message", trouble=Trouble.INVALID)

    def _most_tokens(self, request: Mapping[str, Any]) -> int:
        """Estimate what a request may cost, as servers count against their limits."""
        text = sum(len(message.get("content") or "") for message in request["messages"])
        return text // _BYTES_PER_TOKEN + self._sampling.max_new_tokens

    def _body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        sampling = self._sampling
        body: dict[str, Any] = {
            "model": self._model,
            "messages": self._messages(messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed & _SEED_MASK,
            self._options.max_tokens_field: sampling.max_new_tokens,
        }
        if sampling.top_k != -1:  # not OpenAI's own, but of most other servers
            body["top_k"] = sampling.top_k
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if self._tools:
            body |= {"tools": self._tools, "tool_choice": self._options.tool_choice}
        return {name: value for name, value in body.items() if name not in self._options.omit}

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The conversation as the API's messages; tool calls and their results as such."""
        wire: list[dict[str, Any]] = []
        open_call = ""
        for index, message in enumerate(messages):
            call = self._calls.get(index)
            if call is not None:
                wire.append(call.as_message())
            elif open_call:
                wire.append({"role": "tool", "tool_call_id": open_call, "content": message.text})
            else:
                wire.append({"role": _ROLES[message.role], "content": message.text})
            open_call = call.id if call is not None else ""
        return wire


@dataclass(frozen=True, slots=True)
class _Usage:
    """Token counts of one reply; None where the server gives none that can be."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None

    @classmethod
    def read(cls, usage: object) -> _Usage:
        if not isinstance(usage, dict):
            return cls()
        counts = cast("dict[str, object]", usage)
        details = counts.get("prompt_tokens_details")
        nested = cast("dict[str, object]", details) if isinstance(details, dict) else {}
        return cls(
            read_count(counts.get("prompt_tokens"), "prompt_tokens"),
            read_count(counts.get("completion_tokens"), "completion_tokens"),
            read_count(nested.get("cached_tokens"), "cached_tokens"),
        )

    def cost(self, options: OpenAIOptions) -> float | None:
        """US dollars; None where a price or a count is unknown."""
        full, output = options.usd_per_million_input, options.usd_per_million_output
        if full is None or output is None or self.prompt is None or self.completion is None:
            return None
        cached = options.usd_per_million_cached
        cached = full if cached is None else cached
        reused = min(self.cached or 0, self.prompt)
        fresh = self.prompt - reused
        return (fresh * full + reused * cached + self.completion * output) / 1e6


def _declared(tools_json: str) -> list[Any]:
    try:
        tools = json.loads(tools_json)
    except ValueError:
        tools = None
    if not isinstance(tools, list):
        raise PolicyMisconfigured("the environment's functions are no JSON list")
    return cast("list[Any]", tools)


def _first_choice(body: Mapping[str, Any]) -> dict[str, Any]:
    choices: object = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise PolicyMisbehaved("the reply has no choices", trouble=Trouble.INVALID)
    first: object = cast("list[object]", choices)[0]
    if not isinstance(first, dict):
        raise PolicyMisbehaved("the reply's first choice is no object", trouble=Trouble.INVALID)
    return cast("dict[str, Any]", first)


def _mapping(
    body: Mapping[str, Any], name: str, *, trouble: Trouble | None = None
) -> dict[str, Any]:
    value: object = body.get(name)
    if not isinstance(value, dict):
        raise PolicyMisbehaved(f"the reply has no {name}", trouble=trouble)
    return cast("dict[str, Any]", value)


def _content(message: Mapping[str, Any]) -> str:
    """The reply's text; a refusal counts as text, nothing at all as an empty reply."""
    content = message.get("content")
    if content is None:
        content = message.get("refusal")
    if content is None:
        return ""
    if not isinstance(content, str):
        raise PolicyMisbehaved("the reply's content is no text")
    return content


def _first_call(message: Mapping[str, Any], thought: str, turn: int) -> _ToolCall | None:
    """The first tool call of a reply; later ones are dropped: an episode takes one action a turn.

    Raises PolicyMisbehaved for a call that has no name.
    """
    calls: object = message.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        return None
    first: object = cast("list[object]", calls)[0]
    call = cast("dict[str, Any]", first) if isinstance(first, dict) else {}
    function = _mapping(call, "function")
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str):
        raise PolicyMisbehaved("a tool call without a name")
    if not isinstance(arguments, str):  # some servers send the object itself
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    return _ToolCall(thought, str(call.get("id") or f"call_{turn}"), name, arguments)


def _version(body: Mapping[str, Any]) -> str:
    """What the server says that answered: weight version, else model and fingerprint."""
    metadata: object = body.get("metadata")
    if isinstance(metadata, dict):
        weights = cast("dict[str, object]", metadata).get("weight_version")
        if isinstance(weights, str):
            return weights
    parts = (body.get("model"), body.get("system_fingerprint"))
    return "@".join(part for part in parts if isinstance(part, str) and part)
