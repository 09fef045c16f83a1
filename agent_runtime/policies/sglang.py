"""An SGLang server as a policy, by its native token-in token-out endpoint.

Owns the exchange of ids: each call sends the episode's ledger and gets back sampled ids, their
logprobs, and the weight versions that sampled them; nothing is tokenised twice and nothing that
the engine left out is filled in. Single-shot: an abandoned request is aborted on the server, a
failed one is never sent again.

Logprobs are those of the untruncated distribution at the given temperature as the engine reports
them: with top_p < 1 or top_k set, tokens were drawn from a truncated one. The sampling seed takes
effect on servers started with --enable-deterministic-inference; others ignore it.

Knows the server's HTTP interface (0.5.x), not its engine or router; a router forwards /generate
but not aborts, so those are best effort.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agent_runtime.conversation import Message
from agent_runtime.dialogue import TokenDialogue
from agent_runtime.errors import (
    ContextOverflow,
    PolicyError,
    PolicyMisbehaved,
    PolicyMisconfigured,
    PolicyRejected,
    PolicyUnavailable,
)
from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.ledger import VersionSpan
from agent_runtime.policies.base import (
    Completion,
    EpisodeContext,
    FinishReason,
    Policy,
    PolicySession,
)
from agent_runtime.policies.config import PolicyConfig, SGLangOptions
from agent_runtime.policies.endpoint import Endpoint
from agent_runtime.rendering import ChatRenderer
from agentgym.episode.v1 import episode_pb2

__all__ = ["SGLangPolicy"]

_SEED_MASK: Final = 2**63 - 1
"""The server takes signed 64-bit seeds."""
_START_TIMEOUT: Final = 30.0
_ABORT_TIMEOUT: Final = 5.0
_FINISH: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "abort": FinishReason.ABORT,
}


class SGLangPolicy(Policy):
    """The model that one server or router serves."""

    def __init__(
        self, url: str, config: PolicyConfig, renderer: ChatRenderer | None = None
    ) -> None:
        """`renderer` replaces the one made from the server's tokenizer.

        Raises PolicyMisconfigured for an address that is none or a key that is missing.
        """
        self.name = f"sglang:{url}"
        """After `start`: `sglang:` and the model's name as the server gives it."""
        self._config = config
        self._renderer = renderer
        self._endpoint = Endpoint(
            url,
            timeout=config.request_timeout,
            concurrency=config.max_requests,
            requests_per_minute=config.requests_per_minute,
            api_key=_api_key(config.sglang),
        )
        self._limit = config.sglang.context_length or 0
        self._aborts: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Check that the server is up and generates, and load its tokenizer. Raises PolicyError."""
        await self._endpoint.open()
        try:
            await self._endpoint.get("/health", timeout=_START_TIMEOUT)
            model = await self._endpoint.get("/model_info", timeout=_START_TIMEOUT)
            if model.get("is_generation") is False:
                raise PolicyMisconfigured(f"{self._endpoint.base_url} serves no generating model")
            self._limit = _context_limit(self._limit, await self._server_info())
            if self._renderer is None:
                self._renderer = await self._load_renderer(model)
        except BaseException:
            await self._endpoint.close()
            raise
        served = model.get("served_model_name") or model.get("model_path")
        self.name = f"sglang:{served}" if served else self.name

    def open(self, context: EpisodeContext) -> PolicySession:
        """A session with a ledger of its own; raises RuntimeError before `start`."""
        if self._renderer is None:
            raise RuntimeError("the policy is not started")
        return _SGLangSession(self, self._renderer, context.episode_id)

    async def close(self) -> None:
        """Finish aborts that are under way, then disconnect."""
        if self._aborts:
            await asyncio.wait(self._aborts)
        await self._endpoint.close()

    @property
    def config(self) -> PolicyConfig:
        """What the policy was made with."""
        return self._config

    @property
    def context_limit(self) -> int:
        """Longest prompt plus reply in tokens; 0 = unknown."""
        return self._limit

    async def generate(self, body: Mapping[str, Any], *, routing_key: str) -> dict[str, Any]:
        """One /generate request under a fresh id; aborted on the server when it is given up."""
        # The server aborts by id prefix: ids of one length, none a prefix of another.
        rid = uuid.uuid4().hex
        try:
            return await self._endpoint.post(
                "/generate", {**body, "rid": rid}, headers={"X-SMG-Routing-Key": routing_key}
            )
        except (asyncio.CancelledError, PolicyUnavailable):
            task = asyncio.create_task(self._abort(rid))
            self._aborts.add(task)
            task.add_done_callback(self._aborts.discard)
            raise

    async def _abort(self, rid: str) -> None:
        try:
            await self._endpoint.control("/abort_request", {"rid": rid}, timeout=_ABORT_TIMEOUT)
        except PolicyError:
            # Routers do not forward it, dead servers need none; the request has failed anyway.
            return

    async def _server_info(self) -> dict[str, Any]:
        try:
            return await self._endpoint.get("/server_info", timeout=_START_TIMEOUT)
        except PolicyRejected:
            return {}

    async def _load_renderer(self, model: Mapping[str, Any]) -> ChatRenderer:
        options = self._config.sglang
        source = options.tokenizer or model.get("tokenizer_path") or model.get("model_path")
        if not isinstance(source, str):
            raise PolicyMisconfigured("the server names no tokenizer: set --sglang.tokenizer")
        template, today = _template_options(options)
        return await asyncio.to_thread(
            HuggingFaceRenderer, source, chat_template=template, today=today
        )


class _SGLangSession(PolicySession):
    def __init__(self, policy: SGLangPolicy, renderer: ChatRenderer, episode_id: str) -> None:
        self._policy = policy
        self._stop_ids = list(renderer.stop_ids)
        self._dialogue = TokenDialogue(renderer)
        self._episode_id = episode_id

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """One generation; a full context gives an empty reply with CONTEXT and asks nobody."""
        prompt = self._dialogue.prompt(messages)
        wanted = self._policy.config.sampling.max_new_tokens
        limit = self._policy.context_limit
        budget = min(wanted, limit - len(prompt)) if limit else wanted
        exhausted = Completion(
            text="", finish_reason=FinishReason.CONTEXT, prompt_tokens=len(prompt)
        )
        if budget < 1:
            return exhausted
        body = self._body(prompt, budget, seed)
        try:
            answer = await self._policy.generate(body, routing_key=self._episode_id)
        except ContextOverflow:
            return exhausted
        generated = _Generated.read(answer, len(prompt))
        if generated.ids or generated.finish is not FinishReason.ABORT:
            self._dialogue.sampled(
                generated.ids, generated.logprobs, generation=turn, versions=generated.versions
            )
        cut = generated.finish is FinishReason.LENGTH and budget < wanted
        return Completion(
            text=self._dialogue.reply_text(generated.ids, self._policy.config.sampling.stop),
            finish_reason=FinishReason.CONTEXT if cut else generated.finish,
            prompt_tokens=len(prompt),
            completion_tokens=len(generated.ids),
            cached_tokens=generated.cached,
            policy_version=generated.versions[-1].version if generated.versions else "",
        )

    def token_segments(self) -> list[episode_pb2.TokenSegment]:
        return self._dialogue.ledger.to_protos()

    def _body(self, prompt: list[int], budget: int, seed: int) -> dict[str, Any]:
        sampling = self._policy.config.sampling
        params: dict[str, Any] = {
            "max_new_tokens": budget,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "stop_token_ids": self._stop_ids,
            "sampling_seed": seed & _SEED_MASK,
        }
        if sampling.stop:
            params["stop"] = list(sampling.stop)
        return {"input_ids": prompt, "sampling_params": params, "return_logprob": True}


@dataclass(frozen=True, slots=True)
class _Generated:
    """What one /generate reply says, checked for shape; the ledger checks the numbers."""

    ids: list[int]
    logprobs: list[float | None]
    versions: list[VersionSpan]
    finish: FinishReason
    cached: int

    @classmethod
    def read(cls, answer: Mapping[str, Any], prompt_tokens: int) -> _Generated:
        """Raises PolicyMisbehaved for a reply without the fields that make a record."""
        meta = cast("dict[str, Any]", _field(answer, "meta_info", dict))
        ids = cast("list[int]", _field(answer, "output_ids", list))
        rows = cast("list[Any]", _field(meta, "output_token_logprobs", list))
        finish = cast("dict[str, Any]", _field(meta, "finish_reason", dict))
        seen = meta.get("prompt_tokens", prompt_tokens)
        if seen != prompt_tokens:
            raise PolicyMisbehaved(f"the server read {seen} of {prompt_tokens} prompt tokens")
        pairs = [_logprob_and_id(row) for row in rows]
        if [token_id for _, token_id in pairs] != ids:
            raise PolicyMisbehaved("logprobs and output ids are of different tokens")
        reason = _FINISH.get(str(finish.get("type")))
        if reason is None:
            raise PolicyMisbehaved(f"unknown finish reason {finish.get('type')!r}")
        cached = meta.get("cached_tokens")
        return cls(
            ids=ids,
            logprobs=[logprob for logprob, _ in pairs],
            versions=_versions(meta, len(ids)),
            finish=reason,
            cached=cached if isinstance(cached, int) else 0,
        )


def _field(body: Mapping[str, Any], name: str, kind: type) -> object:
    value: object = body.get(name)
    if not isinstance(value, kind):
        raise PolicyMisbehaved(f"the server's reply has no {name}")
    return value


def _logprob_and_id(row: object) -> tuple[float | None, object]:
    """The first two of [logprob, id, text]."""
    if not isinstance(row, list) or len(cast("list[object]", row)) < 2:
        raise PolicyMisbehaved("the server's logprobs are not [logprob, id, text]")
    logprob, token_id = cast("list[Any]", row)[:2]
    return logprob, token_id


def _versions(meta: Mapping[str, Any], count: int) -> list[VersionSpan]:
    """Weight versions by span; older servers report one for the whole reply, or none."""
    spans = meta.get("weight_versions")
    if not isinstance(spans, list):
        version = meta.get("weight_version")
        return [VersionSpan(0, count, version)] if isinstance(version, str) and count else []
    try:
        return [
            VersionSpan(int(span["start"]), int(span["end"]), str(span["version"]))
            for span in cast("list[dict[str, Any]]", spans)
        ]
    except (KeyError, TypeError, ValueError):
        raise PolicyMisbehaved("the server's weight versions are not spans") from None


def _context_limit(wanted: int, server: Mapping[str, Any]) -> int:
    """The smallest of the limits that are known; 0 = none is.

    `max_req_input_len` is what the server's memory allows; it is counted as a limit of prompt and
    reply together, a few tokens less than could be used.
    """
    limits = (wanted, server.get("context_length"), server.get("max_req_input_len"))
    known = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    return min(known, default=0)


def _api_key(options: SGLangOptions) -> str:
    if options.api_key_env is None:
        return ""
    key = os.environ.get(options.api_key_env, "")
    if not key:
        raise PolicyMisconfigured(
            f"the server's key is missing: set the environment variable {options.api_key_env}"
        )
    return key


def _template_options(options: SGLangOptions) -> tuple[str | None, datetime.date | None]:
    """Chat template text and date that the user set. Raises PolicyMisconfigured."""
    try:
        path, day = options.chat_template, options.template_date
        template = path.read_text(encoding="utf-8") if path is not None else None
        return template, datetime.date.fromisoformat(day) if day is not None else None
    except (OSError, ValueError) as error:
        raise PolicyMisconfigured(f"chat template or its date: {error}") from error
