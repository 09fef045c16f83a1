"""An SGLang server as a policy, by its native token-in token-out endpoint.

Each call sends the ids of the episode's ledger and gets back sampled ids, their logprobs, and the
weight versions that sampled them; nothing is tokenised twice and nothing that the engine left out
is filled in. A reply that the engine gave back half-done (its weights were being replaced) goes on
from its last token; a request that was cut off because its engine went away is sent again when the
engine is back. An abandoned request is aborted on the server.

Logprobs are those of the untruncated distribution at the given temperature as the engine reports
them: with top_p < 1 or top_k set, tokens were drawn from a truncated one. The sampling seed takes
effect on servers started with --enable-deterministic-inference; others ignore it.

What engines are asked besides /generate is in `agent_runtime.sglang.engines`.
"""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from agent_runtime.concurrency import ConcurrencyController, ConcurrencyRules
from agent_runtime.conversation import Message, Role
from agent_runtime.endpoint import Endpoint
from agent_runtime.errors import (
    PolicyLost,
    PolicyMisconfigured,
    PolicyStale,
    PolicyUnavailable,
    Trouble,
)
from agent_runtime.huggingface import load_renderer
from agent_runtime.logs import get_logger
from agent_runtime.policies.base import (
    EpisodeContext,
    PolicySession,
    TrainablePolicy,
)
from agent_runtime.policies.config import PolicyConfig, SGLangOptions
from agent_runtime.policies.token_session import TokenSession
from agent_runtime.rendering import ChatRenderer
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.request_sender import RequestSender
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import FinishReason
from agent_runtime.sglang.engines import EngineGroup, WeightUpdate
from agent_runtime.sglang.fronts import Fronts
from agent_runtime.sglang.groups import GroupSettings
from agent_runtime.sglang.tensors import WeightTensors
from agent_runtime.sglang.wire import Streamed, generate_body, read_reply, read_scores
from agent_runtime.supervision import Supervisor, cancel_tasks, supervise
from agent_runtime.weights import AdapterWeights, BroadcastWeights, Interrupt, Weights

__all__ = ["SGLangPolicy"]

_LOAD_SECONDS: Final = 0.5
"""Seconds between two questions for the engines' load."""
_MAX_STALLED: Final = 4
"""Resumptions in a row that sampled nothing: an engine that gives everything back at once, because
somebody keeps aborting, must not be asked for ever."""
_SCORED_TOGETHER: Final = 256
"""Ids that scored texts begin with alike are scored by one engine, which has them cached."""
_STALL_PAUSE: Final = 0.2
"""Seconds by which each of them waits longer than the one before."""
_PROBE: Final = [Message(Role.USER, "Which tokens is this, and <which> are 12.5% of them?")]

log = get_logger(__name__)

StopRule = Callable[[Sequence[int]], bool]
Listener = Callable[[Sequence[int]], None]


class SGLangPolicy(TrainablePolicy):
    """The model that one server or router serves, or several servers."""

    def __init__(
        self, url: str, config: PolicyConfig, renderer: ChatRenderer | None = None
    ) -> None:
        """Prepare the policy; nothing is connected before `start`.

        Args:
            url: Address of an engine or a router, http(s)://HOST:PORT; of several, with `+` between
                them.
            config: Sampling, limits and SGLang's own settings.
            renderer: Takes the place of the one made from the server's tokenizer.

        Raises:
            PolicyMisconfigured: The address is not one, or the server's key is missing.
        """
        self.name = f"sglang:{url}"
        """After `start`: `sglang:` and the model's name as the server gives it."""
        self._config = config
        self._renderer = renderer
        self._key = _api_key(config.sglang)
        self._fronts = Fronts(url, self._connect)
        self._concurrency = ConcurrencyController(ConcurrencyRules().within(config.max_requests))
        self._sender = RequestSender(
            self._fronts.base_url,
            config.request_retry,
            self._concurrency,
            requests_per_minute=config.requests_per_minute,
            watch=False,
        )
        self.engines = EngineGroup(self._fronts, self._connect, recovery=config.sglang.recovery)
        """The engines behind the addresses: health, load, weights."""
        self._limit = config.sglang.context_length or 0
        self._stream = config.sglang.stream or bool(config.sglang.early_stop)
        self._aborts = Supervisor()
        self._load_watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Check that the server is up and generates, and load its tokenizer. Raises PolicyError."""
        await self._fronts.open()
        try:
            model = await self.engines.start()
            if model.get("is_generation") is False:
                raise PolicyMisconfigured(f"{self._fronts.base_url} serves no generating model")
            self._limit = _context_limit(self._limit, await self.engines.server_info())
            if self._renderer is None:
                self._renderer = await self._load_renderer(model)
            await self._check_tokenizer(self._renderer)
        except BaseException:
            await self.engines.close()
            await self._fronts.close()
            raise
        served = model.get("served_model_name") or model.get("model_path")
        self.name = f"sglang:{served}" if served else self.name
        # Where the watch dies the limit stays as it is: requests go on, and the log says why.
        self._load_watch = supervise(self._watch_load(), "watch the engines' load")
        log.info(
            "policy ready", policy=self.name, engines=self.engines.addresses, context=self._limit
        )

    @property
    def renderer(self) -> ChatRenderer:
        """Its chat template and tokenizer; raises RuntimeError before `start`."""
        if self._renderer is None:
            raise RuntimeError("the policy is not started")
        return self._renderer

    def open(self, context: EpisodeContext) -> PolicySession:
        """Open a session with a ledger of its own; raises RuntimeError before `start`."""
        return _SGLangSession(self, self.renderer, context)

    async def close(self) -> None:
        """Finish aborts that are under way, then disconnect."""
        await cancel_tasks(self._load_watch)
        await self._aborts.finish()
        await self.engines.close()
        await self._fronts.close()

    @property
    def config(self) -> PolicyConfig:
        """The configuration that the policy was made with."""
        return self._config

    @property
    def streams(self) -> bool:
        """Whether replies are read token by token."""
        return self._stream

    @property
    def context_limit(self) -> int:
        """Longest prompt plus reply in tokens; 0 = unknown."""
        return self._limit

    @property
    def concurrency_limit(self) -> int:
        """Requests that may be in flight now."""
        return self._sender.concurrency_limit

    @property
    def resent(self) -> int:
        """Requests that were sent again."""
        return self._sender.counts.resent.total()

    def outage(self) -> Outage | None:
        return self.engines.outage()

    def request_counts(self) -> RequestCounts:
        return self._sender.counts

    async def update_weights(
        self, weights: Weights, *, version: str = "", interrupt: Interrupt | None = None
    ) -> str:
        """Give all engines new weights; see `TrainablePolicy`.

        A `Path` is made absolute; a string is sent as it is, for engines on other machines. A
        state_dict is handed to engines on this machine without a disk, or sent as
        `BroadcastWeights`; an engine that restarts afterwards is stale until the next update.
        Replies go on "in_place" by default.

        An adapter's folder is loaded beside the weights, under its version; requests name it from
        then on. Replies that were begun go on with the adapter that they began with.
        """
        if isinstance(weights, AdapterWeights):
            await self._load_adapter(weights, version, interrupt)
            return version
        path, tensors, group = "", None, None
        if isinstance(weights, BroadcastWeights):
            tensors = WeightTensors(weights.tensors)
            group = GroupSettings(backend=weights.backend, address=weights.address)
        elif isinstance(weights, Mapping):
            tensors = WeightTensors(weights)
        else:
            # Engines have working directories of their own.
            local = isinstance(weights, Path)
            path = str(await asyncio.to_thread(weights.resolve)) if local else weights
        update = WeightUpdate(
            version=version,
            path=path,
            tensors=tensors,
            group=group,
            interrupt=interrupt or "in_place",
        )
        await self.engines.update(update)
        return version

    def follow(self, version: str) -> None:
        self.engines.follow(version)

    async def _load_adapter(
        self, weights: AdapterWeights, version: str, interrupt: Interrupt | None
    ) -> None:
        if interrupt is not None:
            raise PolicyMisconfigured(
                "replies go on with the adapter that they began with: leave out interrupt"
            )
        if isinstance(weights.adapter, Mapping):
            raise PolicyMisconfigured("SGLang takes an adapter's folder, not its tensors")
        path = str(await asyncio.to_thread(Path(weights.adapter).resolve))
        await self.engines.load_adapter(version, path)

    async def score(self, ids: Sequence[int]) -> list[float | None]:
        """Ask an engine for the logprob of each id; see `TrainablePolicy`."""
        sampling = {"max_new_tokens": 1, "temperature": 1.0}
        body: dict[str, Any] = {
            "input_ids": list(ids),
            "sampling_params": sampling,
            "return_logprob": True,
        }
        body["logprob_start_len"] = 0

        async def ask() -> list[float | None]:
            named = _named_weights(self.engines.health.versions, self.engines.adapter)
            endpoint = self.engines.front(f"{ids[:_SCORED_TOGETHER]}")
            return read_scores(await endpoint.post("/generate", {**body, **named}), ids)

        return await self._sender.send(ask, before=self.engines.wait_ready)

    async def generate(
        self,
        body: Mapping[str, Any],
        *,
        routing_key: str,
        stop_at: StopRule | None = None,
        on_ids: Listener | None = None,
        repeats: Counter[str] | None = None,
    ) -> SampledReply:
        """Sample one reply or a part of one; it is aborted on the server when it is given up.

        A request that failed is sent again, when the engines are ready, under a fresh id.

        Args:
            body: The request; see `generate_body`.
            routing_key: Requests of one key go to one engine, which has their prefixes cached.
            stop_at: Ends a streamed reply at the first ids for which it holds.
            on_ids: Is told the ids of a streamed reply so far, again and again.
            repeats: Counts the repeats by reason.

        Raises:
            PolicyError: The engines refused it, failed or did not come back.
        """

        async def attempt() -> SampledReply:
            versions, adapter = self.engines.health.versions, self.engines.adapter
            request = {**body, **_named_weights(versions, adapter)}
            try:
                reply = await self._attempt(request, versions, routing_key, stop_at, on_ids)
            except PolicyLost as error:
                self.engines.report_failure(str(error))
                if self._config.sglang.recovery == 0:
                    error.trouble = None
                raise
            used = {span.version for span in reply.versions if span.end > span.start}
            if not await self.engines.are_current(used, versions):
                text = f"{self._fronts.base_url}: sampled by stale weights {sorted(used)}"
                raise PolicyStale(text, trouble=Trouble.STALE)
            # Engines report the weights below an adapter. It is one for a whole reply: they refuse
            # a name that they do not have, and keep an adapter until its replies have ended.
            return reply if not adapter else reply.sampled_by(adapter)

        return await self._sender.send(attempt, before=self.engines.wait_ready, repeats=repeats)

    async def _attempt(
        self,
        body: Mapping[str, Any],
        versions: Collection[str],
        routing_key: str,
        stop_at: StopRule | None,
        on_ids: Listener | None,
    ) -> SampledReply:
        """Send a request once, under a fresh id; engines serve these versions of weights."""
        # The server aborts by id prefix: ids of one length, none a prefix of another.
        rid = uuid.uuid4().hex
        request, headers = {**body, "rid": rid}, {"X-SMG-Routing-Key": routing_key}
        endpoint = self.engines.front(routing_key)
        try:
            if self._stream:
                answer, enough = await self._streamed(
                    endpoint, request, headers, rid, stop_at, on_ids
                )
            else:
                answer, enough = await endpoint.post("/generate", request, headers=headers), None
        except (asyncio.CancelledError, PolicyUnavailable):
            self._abort_later(rid)
            raise
        whole = read_reply(answer, len(body["input_ids"]), versions)
        return whole if enough is None else whole.cut(enough, FinishReason.STOP)

    async def _streamed(
        self,
        endpoint: Endpoint,
        request: Mapping[str, Any],
        headers: Mapping[str, str],
        rid: str,
        stop_at: StopRule | None,
        on_ids: Listener | None,
    ) -> tuple[dict[str, Any], int | None]:
        """Return the whole answer, and how many of its tokens count where a rule ended it."""
        reply = Streamed(stop_at)
        aborted = False
        events = endpoint.stream("/generate", {**request, "stream": True}, headers=headers)
        async with aclosing(events):
            async for event in events:
                reply.add(event)
                if on_ids is not None:
                    on_ids(reply.ids)
                if reply.enough is not None and not aborted:
                    # The last event, which the abort brings, has the versions of all tokens.
                    aborted = True
                    self._abort_later(rid)
        if not reply.ended:
            text = f"{endpoint.base_url}: the stream broke off"
            raise PolicyLost(text, trouble=Trouble.BROKEN)
        return reply.answer(), reply.enough

    def _abort_later(self, rid: str) -> None:
        # In a task of its own: whoever gave the request up may be cancelled and cannot wait.
        self._aborts.start(self.engines.abort(rid), "abort a request")

    async def _watch_load(self) -> None:
        """Adapt the number of requests in flight to what the engines report."""
        while True:
            await asyncio.sleep(_LOAD_SECONDS)
            if not self._sender.in_flight:
                continue
            load = await self.engines.loads()
            if load is not None:
                self._sender.observe(load)
            elif self.engines.health.may_serve:
                self._sender.set_limit(self._concurrency.rules.ceiling)
                log.info("engines report no load", limit=self._sender.concurrency_limit)
                return

    def _connect(self, url: str) -> Endpoint:
        return Endpoint(url, timeout=self._config.request_timeout, api_key=self._key)

    async def _load_renderer(self, model: Mapping[str, Any]) -> ChatRenderer:
        options = self._config.sglang
        source = options.tokenizer or model.get("tokenizer_path") or model.get("model_path")
        if not isinstance(source, str):
            raise PolicyMisconfigured("the server names no tokenizer: set --sglang.tokenizer")
        return await asyncio.to_thread(
            load_renderer, source, options.chat_template, options.template_date
        )

    async def _check_tokenizer(self, renderer: ChatRenderer) -> None:
        """Raise PolicyMisconfigured where the engine's tokenizer is another one.

        Ids of another vocabulary would be nonsense to the model, and ids beyond it end the engine.
        """
        rendered = renderer.begin(_PROBE)
        theirs = await self.engines.tokenize(rendered.text)
        if theirs is not None and theirs != rendered.ids:
            raise PolicyMisconfigured(
                f"{self._fronts.base_url} serves a model with another tokenizer than the one "
                "used here: leave out --sglang.tokenizer, or serve the model that belongs to it"
            )


class _SGLangSession(TokenSession):
    def __init__(
        self, policy: SGLangPolicy, renderer: ChatRenderer, context: EpisodeContext
    ) -> None:
        super().__init__(renderer, policy.config.sampling, policy.context_limit)
        self.streams = policy.streams
        self._policy = policy
        self._episode_id = context.episode_id
        self._draft = context.draft
        pattern = policy.config.sglang.early_stop
        self._early_stop = re.compile(pattern) if pattern else None

    async def sample(self, prompt: list[int], budget: int, seed: int) -> SampledReply:
        """A whole reply: what an engine gives back half-done goes on from its last token."""
        whole = await self._part(prompt, [], budget, seed)
        stalled = 0
        while (
            whole.finish is FinishReason.ABORT
            and len(whole.ids) < budget
            and stalled < _MAX_STALLED
            and self._policy.config.sglang.recovery > 0
        ):
            before = len(whole.ids)
            if stalled:
                await asyncio.sleep(_STALL_PAUSE * stalled)
            part = await self._part(prompt, whole.ids, budget - before, seed)
            whole = whole.followed_by(part)
            stalled = 0 if len(whole.ids) > before else stalled + 1
        return whole

    async def _part(
        self, prompt: list[int], sampled: list[int], budget: int, seed: int
    ) -> SampledReply:
        body = generate_body(
            prompt + sampled,
            self._policy.config.sampling,
            budget=budget,
            seed=seed,
            stop_ids=self.stop_ids,
        )
        stop_at = self._stop_rule(sampled) if self._early_stop is not None else None

        def on_ids(ids: Sequence[int]) -> None:
            if self._draft.wanted:
                self.write_draft(self._draft, [*sampled, *ids])

        return await self._policy.generate(
            body,
            routing_key=self._episode_id,
            stop_at=stop_at,
            on_ids=on_ids,
            repeats=self.repeats,
        )

    def _stop_rule(self, sampled: Sequence[int]) -> StopRule:
        pattern = self._early_stop
        assert pattern is not None

        def matches(ids: Sequence[int]) -> bool:
            return pattern.search(self.text([*sampled, *ids])) is not None

        return matches


def _named_weights(versions: frozenset[str], adapter: str) -> dict[str, str]:
    """Return what a request says of the weights that are to sample it.

    They are the name space of cached prefixes, too: what others computed must not be sampled from.
    """
    key = "weights:" + ",".join(sorted({*versions, adapter} - {""}))
    return {"extra_key": key, **({"lora_path": adapter} if adapter else {})}


def _context_limit(option: int, server: Mapping[str, Any]) -> int:
    """The smallest of the limits that are known; 0 = none is.

    `max_req_input_len` is what the server's memory allows; it is counted as a limit of prompt and
    reply together, a few tokens less than could be used.
    """
    limits = (option, server.get("context_length"), server.get("max_req_input_len"))
    return min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=0)


def _api_key(options: SGLangOptions) -> str:
    if options.api_key_env is None:
        return ""
    key = os.environ.get(options.api_key_env, "")
    if not key:
        raise PolicyMisconfigured(
            f"the server's key is missing: set the environment variable {options.api_key_env}"
        )
    return key
