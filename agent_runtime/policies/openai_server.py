"""One OpenAI-compatible server as all episodes of a policy use it: requests, their cache, prices.

A request is answered from the response cache where there is one and it knows the answer; else it is
sent, within the server's limits. Only answers that could be read are kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from agent_runtime.concurrency import ConcurrencyController, ConcurrencyRules
from agent_runtime.draft import Draft
from agent_runtime.endpoint import Endpoint, is_loopback, split_credentials
from agent_runtime.errors import PolicyLost, PolicyMisconfigured, PolicyRejected, Trouble
from agent_runtime.openai.answer import Usage
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.openai.prompt_cache import with_prompt_cache
from agent_runtime.openai.streamed import StreamedChat
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.request_sender import RequestSender
from agent_runtime.response_cache import ResponseCache, request_key
from agent_runtime.spending import Pricing

__all__ = ["Asked", "OpenAIServer", "TextServer", "price"]

_RULES: Final = ConcurrencyRules(start=256, ceiling=4096, slow=4.0)
"""Servers of this kind report no load: their answers say what they can bear."""
_DEFAULT_URL: Final = "https://api.openai.com/v1"
_VERSIONED: Final = "/v1"
_STREAMED: Final[Mapping[str, Any]] = {"stream": True, "stream_options": {"include_usage": True}}
_CONTROL_TIMEOUT: Final = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """An answer, and where it came from."""

    answer: T
    from_cache: bool


class TextServer(Protocol):
    """What a session needs of a server; `OpenAIServer` says what the members do."""

    @property
    def pricing(self) -> Pricing: ...

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
    ) -> Asked[T]: ...

    def cost(self, usage: Usage, *, from_cache: bool) -> float | None: ...


class OpenAIServer:
    """The server of one policy; use between `open` and `close`."""

    def __init__(
        self, config: PolicyConfig, options: OpenAIOptions, environment: Mapping[str, str] | None
    ) -> None:
        """`environment` (default: the process's) holds address and key.

        Raises PolicyMisconfigured where the key is missing, unless the address is loopback.
        """
        variables = os.environ if environment is None else environment
        url = options.base_url or variables.get("OPENAI_BASE_URL") or _DEFAULT_URL
        key = variables.get(options.api_key_env, "")
        self._endpoint = Endpoint(url, timeout=config.request_timeout, api_key=key)
        unversioned = url.rstrip("/").removesuffix(_VERSIONED)
        self._control = Endpoint(unversioned, timeout=_CONTROL_TIMEOUT, api_key=key)
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
        self._options = options
        self._cache = None if config.cache is None else ResponseCache(config.cache)

    @property
    def address(self) -> str:
        """Its base address, without user and password."""
        return self._endpoint.base_url

    async def open(self) -> None:
        """Open the connection pool and the cache; raises PolicyMisconfigured."""
        if self._cache is not None:
            await self._cache.open()
        await self._endpoint.open()
        await self._control.open()

    async def close(self) -> None:
        """Close them."""
        await self._endpoint.close()
        await self._control.close()
        if self._cache is not None:
            await self._cache.close()

    def outage(self) -> Outage | None:
        """Return why no episode should be begun now; None = nothing speaks against it."""
        return self._sender.outage()

    @property
    def counts(self) -> RequestCounts:
        """What became of the requests so far."""
        return self._sender.counts

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
        """Get the answer to a request.

        Args:
            path: Where it goes, under the base address.
            request: Its body; fields that the user left out go.
            read: Reads an answer; an error of it that has a `trouble` is asked for again.
            seed: Sampling seed of the turn, which the body may not have.
            episode_id: Requests of one episode share a prefix.
            tokens: What it may cost, for the limit of tokens per minute.
            repeats: Counts the repeats by reason.
            draft: Takes the reply while it is written, where replies are streamed.

        Raises:
            PolicyError: The server refused it, failed or did not come back.
        """
        body = self._options.without_omitted(request)
        if self._cache is None:
            reply, _ = await self._send(path, body, read, episode_id, tokens, repeats, draft)
            return Asked(reply, from_cache=False)
        key = request_key(path, body, seed)
        kept = await self._cache.get(key)
        if kept is not None:
            self.counts.from_cache += 1
            return Asked(read(kept), from_cache=True)
        reply, answer = await self._send(path, body, read, episode_id, tokens, repeats, draft)
        await self._cache.put(key, answer)
        return Asked(reply, from_cache=False)

    async def _send(
        self,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], T],
        episode_id: str,
        tokens: int,
        repeats: Counter[str],
        draft: Draft | None,
    ) -> tuple[T, Mapping[str, Any]]:
        sent = with_prompt_cache(body, self._options.prompt_cache, episode_id)

        async def attempt() -> tuple[T, Mapping[str, Any]]:
            stream = self._options.stream
            answer = await (
                self._streamed(path, sent, draft) if stream else self._endpoint.post(path, sent)
            )
            return read(answer), answer

        return await self._sender.send(attempt, tokens=tokens, repeats=repeats)

    async def _streamed(
        self, path: str, body: Mapping[str, Any], draft: Draft | None
    ) -> Mapping[str, Any]:
        """Return a streamed answer as one that is not. Raises PolicyError."""
        reply = StreamedChat()
        sent = self._options.without_omitted({**body, **_STREAMED})
        async with aclosing(self._endpoint.stream(path, sent)) as events:
            async for event in events:
                reply.add(event)
                if draft is not None and draft.wanted:
                    draft.write(reply.text)
        if not reply.ended:
            raise PolicyLost(f"{self.address}: the stream broke off", trouble=Trouble.BROKEN)
        return reply.answer()

    def cost(self, usage: Usage, *, from_cache: bool) -> float | None:
        """US dollars of a reply; None where a price or a count is unknown."""
        cost = price(usage, self._options)
        return 0.0 if from_cache and cost is not None else cost

    @property
    def pricing(self) -> Pricing:
        """Whether the user said what replies cost."""
        prices = (self._options.usd_per_million_input, self._options.usd_per_million_output)
        return Pricing.UNKNOWN if None in prices else Pricing.PRICED

    async def model_card(self, model: str) -> Mapping[str, Any]:
        """Return what the server says of a model that it serves; raises PolicyError."""
        listed: object = (await self._endpoint.get("/models", timeout=_CONTROL_TIMEOUT)).get("data")
        entries = cast("list[object]", listed) if isinstance(listed, list) else []
        cards = [cast("dict[str, Any]", card) for card in entries if isinstance(card, dict)]
        for card in cards:
            if card.get("id") == model:
                return card
        names = ", ".join(str(card.get("id")) for card in cards) or "none that it names"
        raise PolicyMisconfigured(f"{self.address} does not serve {model!r}; its models: {names}")

    async def tokenize(self, model: str, text: str) -> list[int] | None:
        """Return the ids of a text, in which special tokens count as such; None = it cannot say.

        Raises PolicyError.
        """
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        try:
            tokens = (await self._control.post("/tokenize", body)).get("tokens")
        except PolicyRejected:
            return None
        return cast("list[int]", tokens) if isinstance(tokens, list) else None


def price(usage: Usage, options: OpenAIOptions) -> float | None:
    """Return US dollars by the user's prices; None where a price or a count is unknown."""
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
