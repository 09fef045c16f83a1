"""Models of other vendors by way of LiteLLM (extra `litellm`): `litellm:PROVIDER/MODEL`.

LiteLLM translates one request and one answer. Whether a request is sent again, how many are in
flight and how conversations become messages is decided here, as for any OpenAI-compatible server;
its own retries are off. Keys are those that it reads from the environment, and prices those of its
table, unless the user says others. It loads for seconds: only when such a policy is made.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from agent_runtime.concurrency import ConcurrencyController, ConcurrencyRules
from agent_runtime.draft import Draft
from agent_runtime.endpoint import error_for
from agent_runtime.errors import (
    ContextOverflow,
    PolicyError,
    PolicyLost,
    PolicyMisconfigured,
    PolicyUnavailable,
    Trouble,
)
from agent_runtime.extras import install_command
from agent_runtime.openai.answer import Usage, declared_tools
from agent_runtime.openai.chat import ChatApi
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.policies.base import EpisodeContext, Policy, PolicySession
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.openai import TextSession
from agent_runtime.policies.openai_server import Asked, price
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.request_sender import RequestSender
from agent_runtime.spending import Pricing
from agentgym.env.v1 import types_pb2

__all__ = ["LiteLLMPolicy"]

_RULES: Final = ConcurrencyRules(start=256, ceiling=4096, slow=4.0)
"""As for OpenAI-compatible servers: vendors report no load."""

T = TypeVar("T")


class LiteLLMPolicy(Policy):
    """One model of one vendor."""

    def __init__(self, model: str, config: PolicyConfig) -> None:
        """Load LiteLLM. Raises PolicyMisconfigured without it, and for settings it cannot have."""
        options = config.openai.resolve()
        if options.api != "chat" or options.stream or config.cache is not None:
            raise PolicyMisconfigured(
                "litellm: has --openai.api chat only, no --openai.stream and no --cache"
            )
        self.name = f"litellm:{model}"
        self._model = model
        self._sampling = config.sampling
        self._options = options
        self._vendor = _Vendor(model, config, options)
        self.pricing = self._vendor.pricing

    def open(self, context: EpisodeContext) -> PolicySession:
        calling = context.action_format == types_pb2.ACTION_FORMAT_FUNCTION_CALLING
        declared = calling and self._options.native_tools
        tools = declared_tools(context.tools_json) if declared else []
        api = ChatApi(self._model, self._sampling, self._options, tools)
        longest = self._sampling.max_new_tokens
        return TextSession(self._vendor, api, self._options, context, longest)

    def outage(self) -> Outage | None:
        return self._vendor.sender.outage()

    def request_counts(self) -> RequestCounts:
        return self._vendor.sender.counts


class _Vendor:
    """What answers, behind LiteLLM."""

    def __init__(self, model: str, config: PolicyConfig, options: OpenAIOptions) -> None:
        self._library = _load()
        self._model = model
        self._timeout = config.request_timeout
        self._options = options
        self.sender = RequestSender(
            f"litellm:{model}",
            config.request_retry,
            ConcurrencyController(_RULES.within(config.max_requests)),
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
        )
        given = (options.usd_per_million_input, options.usd_per_million_output)
        self._priced_here = None not in given
        priced = self._priced_here or self._table_price(Usage(prompt=1, completion=1)) is not None
        self.pricing = Pricing.PRICED if priced else Pricing.UNKNOWN

    async def ask(
        self,
        path: str,
        request: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], T],
        *,
        seed: int,
        episode_id: str,
        tokens: int,
        repeats: Counter[str],
        draft: Draft | None = None,
    ) -> Asked[T]:
        """Get the answer to a request; see `OpenAIServer.ask`. Raises PolicyError."""
        body = self._options.without_omitted(request)
        answer = await self.sender.send(
            lambda: self._complete(body, read), tokens=tokens, repeats=repeats
        )
        return Asked(answer, from_cache=False)

    async def _complete(self, body: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T]) -> T:
        key = os.environ.get(self._options.api_key_env) if self._options.base_url else None
        try:
            answer = await self._library.acompletion(
                **body,
                api_base=self._options.base_url,
                api_key=key or ("none" if self._options.base_url else None),
                timeout=self._timeout,
                num_retries=0,
                max_retries=0,
            )
        except Exception as error:  # the boundary to LiteLLM, which raises all vendors' errors
            raise self._typed(error) from error
        return read(answer.model_dump())

    def _typed(self, error: Exception) -> PolicyError:
        kinds = self._library.exceptions
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, kinds.ContextWindowExceededError):
            return ContextOverflow(text)
        if isinstance(error, kinds.Timeout):
            return PolicyUnavailable(text, trouble=Trouble.TIMEOUT)
        if isinstance(error, kinds.APIConnectionError) or _unconnected(error):
            return PolicyLost(text)
        status: object = getattr(error, "status_code", None)
        headers: Mapping[str, str] = (
            getattr(getattr(error, "response", None), "headers", None) or {}
        )
        return error_for(status if isinstance(status, int) else 500, text, headers)

    def cost(self, usage: Usage, *, from_cache: bool) -> float | None:
        """US dollars of a reply; None where a price or a count is unknown."""
        return price(usage, self._options) if self._priced_here else self._table_price(usage)

    def _table_price(self, usage: Usage) -> float | None:
        if usage.prompt is None or usage.completion is None:
            return None
        try:
            prices: tuple[float, float] = self._library.cost_per_token(
                model=self._model,
                prompt_tokens=usage.prompt,
                completion_tokens=usage.completion,
                cache_read_input_tokens=usage.cached or 0,
                cache_creation_input_tokens=usage.written or 0,
            )
        except Exception:  # noqa: BLE001 - whatever it raises, its table lacks this model
            return None
        return sum(prices) or None  # a price of 0 is one that the table does not know


def _load() -> Any:
    """Return the library; its table of prices is the installed one, nothing is fetched."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        litellm: Any = importlib.import_module("litellm")
    except ImportError as error:
        raise PolicyMisconfigured(
            f"litellm: needs an extra, {error.name} is not installed: {install_command('litellm')}"
        ) from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


def _unconnected(error: BaseException | None) -> bool:
    """Tell whether there was no connection, which LiteLLM calls an internal error."""
    while error is not None:
        if type(error).__name__ in ("APIConnectionError", "ConnectError", "ClientConnectorError"):
            return True
        error = error.__cause__ or error.__context__
    return False
