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
from typing import TYPE_CHECKING, Any

from agent_runtime.engine.adapters import merge_adapter
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.generation import GenerationRequest
from agent_runtime.engine.worker import start_engine
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import check_vocabulary, load_renderer
from agent_runtime.logs import get_logger
from agent_runtime.models import KNOWN_MODELS, resolve_model
from agent_runtime.policies.base import (
    EpisodeContext,
    PolicySession,
    TrainablePolicy,
)
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.token_session import TokenSession
from agent_runtime.rendering import ChatRenderer
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import FinishReason
from agent_runtime.spending import Pricing
from agent_runtime.weights import AdapterWeights, BroadcastWeights, Interrupt, Weights

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
            folder: A checkpoint in the Hugging Face layout; as text also the name of a known model.
            config: Sampling, and the engine's own settings.
            renderer: Takes the place of the one made from the folder.

        Raises:
            PolicyMisconfigured: There is no such folder.
        """
        self._folder = Path(resolve_model(folder) if isinstance(folder, str) else folder)
        if not self._folder.is_dir():
            raise PolicyMisconfigured(
                f"{folder} is not a folder; embedded:PATH takes one with config.json, "
                "*.safetensors, tokenizer.json and a chat template, or the name of a model that "
                f"`python -m agent_runtime.models` makes: {', '.join(KNOWN_MODELS)}"
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
        return _EmbeddedSession(self, self._engine, self._renderer, context)

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

        A folder's default version is its digest, a state_dict needs one. An adapter is put into the
        weights of the folder that the policy was made of. By default replies that
        are being sampled go on after their cache was recomputed ("retract"); "in_place" goes on
        using keys and values of the old weights, also for later turns.
        """
        if interrupt == "finish":
            raise PolicyMisconfigured(
                "the embedded engine does not wait for replies that are being sampled: interrupt "
                "is in_place, retract or abort"
            )
        if isinstance(weights, BroadcastWeights):
            weights = weights.tensors  # they are in this process
        if isinstance(weights, AdapterWeights):
            weights = await self._merge(weights)
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

    async def _merge(self, adapter: AdapterWeights) -> Mapping[str, Any]:
        """Return all weights with an adapter in them."""
        backend = (await self.engine.ready()).backend
        if backend.name != "torch":
            raise PolicyMisconfigured(
                "adapters are put into weights by torch: --embedded.backend torch"
            )
        # Read again each time: what is on the disk costs no memory, and no sum goes into another.
        base = await asyncio.to_thread(backend.read_weights, self._folder)
        return await asyncio.to_thread(merge_adapter, base, adapter)

    async def score(self, ids: Sequence[int]) -> list[float | None]:
        """Compute the logprob of each id given those before it; see `TrainablePolicy`."""
        prompt = list(ids)
        return [None, *await self.engine.call(lambda engine: engine.score(prompt))]


class _EmbeddedSession(TokenSession):
    streams = True

    def __init__(
        self,
        policy: EmbeddedPolicy,
        engine: EngineThread,
        renderer: ChatRenderer,
        context: EpisodeContext,
    ) -> None:
        super().__init__(
            renderer,
            policy.config.sampling,
            policy.context_limit,
            remedy="raise --embedded.context-length, as far as the model was made for it",
        )
        self._config = policy.config
        self._engine = engine
        self._episode = context.episode_id
        self._draft = context.draft

    async def close(self) -> None:
        self._engine.release(self._episode)

    async def sample(self, prompt: list[int], budget: int, seed: int) -> SampledReply:
        """Sample a whole reply: what the engine gives back half-done goes on from its end."""
        whole = await self._part(prompt, [], budget, seed)
        while whole.finish is FinishReason.ABORT:
            part = await self._part(prompt, whole.ids, budget - len(whole.ids), seed)
            whole = whole.followed_by(part)
        return whole

    async def _part(
        self, prompt: list[int], sampled: list[int], budget: int, seed: int
    ) -> SampledReply:
        request = GenerationRequest(
            prompt=prompt + sampled,
            sampling=replace(self._config.sampling, max_new_tokens=budget),
            seed=seed,
            stop_ids=frozenset(self.stop_ids),
            episode_id=self._episode,
        )
        part = await self._engine.generate(
            request,
            timeout=self._config.request_timeout,
            progress=lambda so_far: self.write_draft(self._draft, sampled + so_far.ids),
            wanted=lambda: self._draft.wanted,
        )
        return SampledReply(
            ids=part.ids,
            logprobs=list(part.logprobs),
            versions=part.versions,
            finish=part.finish,
            cached=part.cached_tokens,
            entropies=part.entropies,
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
