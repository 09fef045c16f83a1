"""A model in this process as a policy: no server, on a CPU or a GPU.

The engine works in a thread of its own and keeps each episode's keys and values from turn to turn;
the ledger is the same as that of a served model. Tokens, logprobs and versions are the engine's:
what it cannot give is an error. torch or NumPy is imported when the policy starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_runtime.conversation import Message
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.generation import GenerationRequest
from agent_runtime.engine.worker import start_engine
from agent_runtime.errors import ContextOverflow, PolicyMisconfigured
from agent_runtime.huggingface import check_vocabulary, load_renderer
from agent_runtime.logs import get_logger
from agent_runtime.policies.base import (
    Completion,
    EpisodeContext,
    PolicySession,
    TrainablePolicy,
)
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.rendering import ChatRenderer
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import FinishReason, Sampling
from agent_runtime.spending import Pricing
from agent_runtime.tokenized_conversation import TokenizedConversation
from agent_runtime.weights import Interrupt, Weights
from agentgym.episode.v1 import episode_pb2

if TYPE_CHECKING:
    from agent_runtime.engine.worker import EngineThread

__all__ = ["EmbeddedPolicy"]

log = get_logger(__name__)


class EmbeddedPolicy(TrainablePolicy):
    """The checkpoint in a folder: `config.json`, safetensors, tokenizer and chat template."""

    pricing = Pricing.FREE

    def __init__(
        self, folder: str | Path, config: PolicyConfig, renderer: ChatRenderer | None = None
    ) -> None:
        """Prepare the policy; nothing is loaded before `start`.

        Args:
            folder: A checkpoint in the Hugging Face layout.
            config: Sampling, and the engine's own settings.
            renderer: Takes the place of the one made from the folder.

        Raises:
            PolicyMisconfigured: There is no such folder.
        """
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise PolicyMisconfigured(
                f"{folder} is not a folder; embedded:PATH takes one with config.json, "
                "*.safetensors, tokenizer.json and a chat template"
            )
        # As on the command line: a run finds its records by this name when it resumes.
        self.name = f"embedded:{folder}"
        self._config = config
        self._renderer = renderer
        self._engine: EngineThread | None = None
        self._limit = 0
        self._identity: dict[str, str] = {}

    async def start(self) -> None:
        """Load tokenizer and weights. Raises PolicyError."""
        if self._engine is not None:
            return
        if self._renderer is None:
            self._renderer = await asyncio.to_thread(
                _load_renderer, self._folder, self._config.embedded
            )
        decode = self._renderer.decode
        self._engine = await start_engine(self._folder, self._config.embedded, decode)
        engine = await self._engine.ready()
        self._limit = engine.context_length
        self._identity = {"backend": engine.backend.name, "weights": engine.version}

    def identity(self) -> Mapping[str, str]:
        """The backend, and the version of the weights that it started with."""
        return self._identity

    def open(self, context: EpisodeContext) -> PolicySession:
        """Open a session with a ledger of its own; raises RuntimeError before `start`."""
        if self._renderer is None or self._engine is None:
            raise RuntimeError("the policy is not started")
        return _EmbeddedSession(self, self._engine, self._renderer, context.episode_id)

    async def close(self) -> None:
        """Stop the engine; requests under way fail with PolicyUnavailable."""
        if self._engine is not None:
            await self._engine.close()
            self._engine = None

    @property
    def config(self) -> PolicyConfig:
        """The configuration that the policy was made with."""
        return self._config

    @property
    def context_limit(self) -> int:
        """Longest prompt plus reply in tokens; 0 before `start`."""
        return self._limit

    @property
    def engine(self) -> EngineThread:
        """The engine at work: pause, resume, abort. Raises RuntimeError before `start`."""
        if self._engine is None:
            raise RuntimeError("the policy is not started")
        return self._engine

    async def update_weights(
        self, weights: Weights, *, version: str = "", interrupt: Interrupt | None = None
    ) -> str:
        """Swap the weights between two steps of the engine; see `TrainablePolicy`.

        A folder's default version is its digest, a state_dict needs one. By default replies that
        are being sampled go on after their cache was recomputed ("retract"); "in_place" goes on
        using keys and values of the old weights, also for later turns.
        """
        if interrupt == "finish":
            raise PolicyMisconfigured(
                "the embedded engine does not wait for replies that are being sampled: interrupt "
                "is in_place, retract or abort"
            )
        started = time.monotonic()
        version = await self.engine.update_weights(
            weights,
            version=version,
            keep_cache=interrupt == "in_place",
            abort=interrupt == "abort",
        )
        log.info(
            "weights updated",
            version=version,
            interrupt=interrupt or "retract",
            seconds=round(time.monotonic() - started, 3),
        )
        return version

    async def score(self, ids: Sequence[int]) -> list[float | None]:
        """Compute the logprob of each id given those before it; see `TrainablePolicy`."""
        prompt = list(ids)
        return [None, *await self.engine.call(lambda engine: engine.score(prompt))]


class _EmbeddedSession(PolicySession):
    def __init__(
        self, policy: EmbeddedPolicy, engine: EngineThread, renderer: ChatRenderer, episode: str
    ) -> None:
        self._policy = policy
        self._engine = engine
        self._stop_ids = frozenset(renderer.stop_ids)
        self._conversation = TokenizedConversation(renderer)
        self._episode = episode

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """Generate a reply; a full context gives an empty one with CONTEXT.

        Raises ContextOverflow where the context cannot hold the first observation.
        """
        prompt = self._conversation.prompt(messages)
        limit = self._policy.context_limit
        if len(prompt) >= limit:
            if turn == 0:
                raise ContextOverflow(
                    f"the first observation makes a prompt of {len(prompt)} tokens, which the "
                    f"context of {limit} cannot hold: raise --embedded.context-length"
                )
            finish = FinishReason.CONTEXT
            return Completion(text="", finish_reason=finish, prompt_tokens=len(prompt))
        sampled = await self._sample(prompt, seed)
        self._conversation.append_reply(
            sampled.ids, sampled.logprobs, generation=turn, versions=sampled.versions
        )
        return Completion(
            text=self._conversation.reply_text(sampled.ids, self._policy.config.sampling.stop),
            finish_reason=sampled.finish,
            prompt_tokens=len(prompt),
            completion_tokens=len(sampled.ids),
            cached_tokens=sampled.cached,
            policy_version=sampled.versions[-1].version,
        )

    def token_segments(self) -> list[episode_pb2.TokenSegment]:
        return self._conversation.ledger.to_protos()

    async def close(self) -> None:
        self._engine.release(self._episode)

    async def _sample(self, prompt: list[int], seed: int) -> SampledReply:
        """Sample a whole reply: what the engine gives back half-done goes on from its end."""
        whole = await self._part(prompt, self._policy.config.sampling, seed)
        while whole.finish is FinishReason.ABORT:
            sampling = self._policy.config.sampling
            rest = replace(sampling, max_new_tokens=sampling.max_new_tokens - len(whole.ids))
            whole = whole.followed_by(await self._part(prompt + whole.ids, rest, seed))
        return whole

    async def _part(self, prompt: list[int], sampling: Sampling, seed: int) -> SampledReply:
        request = GenerationRequest(
            prompt=prompt,
            sampling=sampling,
            seed=seed,
            stop_ids=self._stop_ids,
            episode_id=self._episode,
        )
        timeout = self._policy.config.request_timeout
        part = await self._engine.generate(request, timeout=timeout)
        return SampledReply(
            part.ids, list(part.logprobs), part.versions, part.finish, part.cached_tokens
        )


def _load_renderer(folder: Path, options: EmbeddedOptions) -> ChatRenderer:
    """Load the folder's tokenizer and chat template.

    Raises:
        PolicyMisconfigured: They cannot be read, or the model does not know all of the ids.
    """
    renderer = load_renderer(folder, options.chat_template, options.template_date)
    if (folder / "config.json").is_file():
        check_vocabulary(folder)
    return renderer
