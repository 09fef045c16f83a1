"""The inference engine: a backend, its cache and a scheduler, advanced step by step.

Each step copies shared prefixes, computes the planned tokens, samples, and ends what is finished.
Invariant: every sampled token carries the version of the weights that gave it; weights change
between steps only. Handles no tensors itself: see `backend`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agent_runtime.engine.backend import Backend, make_backend
from agent_runtime.engine.checkpoint import read_architecture, weights_digest
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.engine.grouping import group_chunks
from agent_runtime.engine.layout import make_layout
from agent_runtime.engine.randomness import uniforms
from agent_runtime.engine.scheduling import BatchScheduler, Chunk, Generation, StepPlan
from agent_runtime.errors import (
    ContextOverflow,
    MemoryTooSmall,
    PolicyMisbehaved,
    PolicyMisconfigured,
)
from agent_runtime.sampling import FinishReason

__all__ = [
    "FinishedGeneration",
    "InferenceEngine",
    "Totals",
    "derive_slots",
    "engine_context",
    "load_engine",
]

_LONGEST_DEFAULT: Final = 8192
"""Context length unless one is set: with a model's 100,000 tokens few slots would fit."""
_SCORED_AT_ONCE: Final = 256
"""Positions whose distributions over the whole vocabulary are in memory at once."""


@dataclass(frozen=True, slots=True)
class FinishedGeneration:
    """A generation that ended: with a result, or with the error that ended it."""

    generation: Generation
    outcome: GenerationResult | PolicyMisbehaved


@dataclass(slots=True)
class Totals:
    """What the engine has done since its start; all but `steps` are tokens."""

    steps: int = 0
    prefilled: int = 0
    sampled: int = 0
    prompts: int = 0
    """Of all prompts."""
    cached: int = 0
    """Of the prompts' tokens, those that were in the cache already."""


class InferenceEngine:
    """Continuous batching over one model. Not thread-safe: see `worker.EngineThread`."""

    def __init__(
        self,
        backend: Backend,
        *,
        slots: int,
        capacity: int,
        version: str,
        prefill_tokens: int = 2048,
        decode: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        """Allocate the cache.

        Args:
            backend: With its weights loaded.
            slots: Contexts that the cache holds at once.
            capacity: Tokens of each.
            version: Of the backend's weights.
            prefill_tokens: Most prompt tokens computed in one step.
            decode: Gives the text of ids; needed for stop strings.

        Raises:
            ValueError: Sizes with which nothing could be generated.
        """
        self.backend = backend
        self.version = version
        self._cached_versions = {version}
        """Versions whose keys and values the cache may hold."""
        self.totals = Totals()
        self.decode = decode
        self._cache = backend.make_cache(slots, capacity)
        self._scheduler = BatchScheduler(slots, capacity, prefill_tokens=prefill_tokens)
        self._active: set[Generation] = set()

    @property
    def context_length(self) -> int:
        """Longest prompt plus reply, in tokens."""
        return self._scheduler.capacity

    @property
    def slots(self) -> int:
        """Contexts that the cache holds at once."""
        return len(self._scheduler.slots)

    @property
    def cache_usage(self) -> float:
        """Share of the cache that running generations take, 0 to 1."""
        return self._scheduler.cache_usage

    @property
    def running(self) -> int:
        """Generations that have a slot."""
        return self._scheduler.running

    @property
    def waiting(self) -> int:
        """Generations that wait for a slot."""
        return self._scheduler.waiting

    def submit(self, request: GenerationRequest) -> Generation:
        """Queue a request; it runs with the next steps.

        Raises:
            ContextOverflow: The prompt leaves no room for a reply.
            PolicyMisconfigured: The prompt has ids that the model does not know, or the request has
                stop strings and there is no tokenizer.
        """
        if len(request.prompt) >= self.context_length:
            raise ContextOverflow(f"{len(request.prompt)} tokens of {self.context_length}")
        self._check_ids(request.prompt)
        if request.sampling.stop and self.decode is None:
            raise PolicyMisconfigured("stop strings need a tokenizer")
        generation = Generation(request)
        self._scheduler.submit(generation)
        self._active.add(generation)
        return generation

    def abort(self, generation: Generation) -> GenerationResult | None:
        """End a generation now with the tokens that it has; None = it had ended already."""
        if generation not in self._active:
            return None
        self._end(generation)
        return generation.result(FinishReason.ABORT)

    def release(self, episode_id: str) -> None:
        """Note that the episode is over: its slot may be evicted."""
        self._scheduler.release(episode_id)

    def flush_cache(self) -> None:
        """Empty the cache; running generations are computed anew."""
        self._scheduler.invalidate()
        self._cached_versions = {self.version}

    def update_weights(
        self, weights: Mapping[str, Any], version: str, *, keep_cache: bool = False
    ) -> None:
        """Replace the weights in place; running generations continue with the new ones.

        Tokens sampled so far keep their version.

        Args:
            weights: Tensors of the backend by name.
            version: What tokens carry from now on.
            keep_cache: Go on using keys and values of the old weights; otherwise all contexts are
                computed anew.

        Raises:
            PolicyMisconfigured: Weights of another model, no version, or a version under which the
                cache may hold what other weights computed; nothing has changed then.
        """
        if not version:
            raise PolicyMisconfigured("weights need a version")
        if keep_cache and version != self.version and version in self._cached_versions:
            raise PolicyMisconfigured(
                f"weights called {version!r} were served before, and the cache that is kept may "
                "hold their keys and values: give these another name, or flush the cache"
            )
        self.backend.load_weights(weights)
        self.version = version
        self._cached_versions.add(version)
        if not keep_cache:
            self.flush_cache()

    def close(self) -> None:
        """Free the memory of weights and cache; nothing can be computed afterwards."""
        self.backend.free(self._cache)

    def score(self, ids: Sequence[int]) -> list[float]:
        """Return the logprobs at temperature 1 of all ids but the first, each given those before.

        Uses a cache of its own: running generations are not affected.

        Raises:
            ContextOverflow: More ids than the engine's context length.
            PolicyMisconfigured: Ids that the model does not know.
        """
        if len(ids) > self.context_length:
            raise ContextOverflow(f"{len(ids)} tokens of {self.context_length}")
        self._check_ids(ids)
        cache = self.backend.make_cache(1, len(ids))
        generation = Generation(GenerationRequest(prompt=list(ids)))
        logprobs: list[float] = []
        for start in range(0, len(ids) - 1, _SCORED_AT_ONCE):
            part = list(ids[start : min(start + _SCORED_AT_ONCE, len(ids) - 1)])
            chunk = Chunk(generation, 0, start, part, samples=False)
            layout = make_layout(group_chunks([chunk], len(ids)))
            layout = replace(layout, logit_indices=list(range(len(part))))
            logits = self.backend.forward(layout, cache)
            logprobs += self.backend.score(logits, ids[start + 1 : start + 1 + len(part)])
        return logprobs

    def step(self) -> list[FinishedGeneration]:
        """Compute and sample one step; return the generations that it ended."""
        plan = self._scheduler.plan()
        if plan is None:
            return []
        for copy in plan.copies:
            self._cache.copy(copy.source, copy.target, copy.count)
        # A kept cache may hold different keys and values for the same ids.
        share = self.backend.shares_prefixes and len(self._cached_versions) == 1
        groups = group_chunks(plan.chunks, self.context_length, share_prefixes=share)
        rows = (chunk for group in groups for chunk in group.rows)
        # In the order of the layout's logit_indices.
        sampling = [chunk for chunk in rows if chunk is not None and chunk.samples]
        logits = self.backend.forward(make_layout(groups), self._cache)
        self._scheduler.mark_computed(plan)
        self._count(plan, sampling)
        return list(self._sample(sampling, logits)) if sampling else []

    def _check_ids(self, ids: Sequence[int]) -> None:
        vocab_size = self.backend.architecture.vocab_size
        if not ids or not 0 <= min(ids) <= max(ids) < vocab_size:
            raise PolicyMisconfigured(
                f"a prompt needs ids from 0 to {vocab_size - 1}: are the tokenizer and the weights "
                "of the same model?"
            )

    def _sample(self, chunks: Sequence[Chunk], logits: Any) -> Iterable[FinishedGeneration]:
        requests = [chunk.generation.request for chunk in chunks]
        sampled = self.backend.sample(
            logits,
            [request.sampling for request in requests],
            # Indexed by position in the context, so that a reply that was aborted and continues
            # in a new request draws the same numbers.
            uniforms(
                [chunk.generation.stream for chunk in chunks], [chunk.end for chunk in chunks]
            ),
        )
        limit, decode, version = self.context_length, self.decode, self.version
        for chunk, token, logprob, entropy in zip(chunks, *sampled, strict=True):
            generation = chunk.generation
            if not math.isfinite(logprob):
                yield self._fail(chunk, logprob)
                continue
            generation.append(token, logprob, entropy, version)
            finish = generation.finish_reason(limit, decode)
            if finish is not None:
                self._end(generation)
                yield FinishedGeneration(generation, generation.result(finish))

    def _fail(self, chunk: Chunk, logprob: float) -> FinishedGeneration:
        self._end(chunk.generation, keep=False)
        # Zeros, for a masked NaN is still NaN: it would spread to the slot's next context.
        self._cache.wipe(chunk.slot)
        problem = f"weights {self.version!r} give logprob {logprob} at token {chunk.end}"
        return FinishedGeneration(chunk.generation, PolicyMisbehaved(problem))

    def _end(self, generation: Generation, *, keep: bool = True) -> None:
        self._active.discard(generation)
        self._scheduler.finish(generation, keep=keep)

    def _count(self, plan: StepPlan, sampling: Sequence[Chunk]) -> None:
        totals = self.totals
        totals.steps += 1
        totals.sampled += len(sampling)
        totals.prefilled += sum(chunk.count for chunk in plan.chunks if chunk.count > 1)
        for generation in [chunk.generation for chunk in sampling]:
            if not generation.logprobs:
                totals.prompts += len(generation.request.prompt)
                totals.cached += generation.cached_tokens


def load_engine(
    folder: Path,
    options: EmbeddedOptions,
    decode: Callable[[Sequence[int]], str] | None = None,
) -> InferenceEngine:
    """Load a checkpoint folder into an engine, sized for this machine; takes seconds.

    Call it in the thread that will step: the backend's number of threads is set for the calling
    thread.

    Args:
        folder: `config.json` and safetensors files.
        options: Backend, device and sizes.
        decode: Gives the text of ids; needed for stop strings.

    Raises:
        PolicyMisconfigured: A folder, device or size that cannot work, or a missing extra.
    """
    architecture = read_architecture(folder)
    capacity = engine_context(folder, options)
    backend = make_backend(options, architecture, capacity)
    backend.load_weights(backend.read_weights(folder))
    return InferenceEngine(
        backend,
        slots=derive_slots(options, backend, capacity),
        capacity=capacity,
        version=options.version or weights_digest(folder),
        prefill_tokens=options.prefill_tokens,
        decode=decode,
    )


def engine_context(folder: Path, options: EmbeddedOptions) -> int:
    """Return the longest prompt plus reply of an engine for a checkpoint, in tokens.

    Raises:
        PolicyMisconfigured: No such checkpoint, or a context that it was not made for.
    """
    positions = read_architecture(folder).positions
    capacity = options.context_length or min(positions, _LONGEST_DEFAULT)
    if capacity > positions:
        raise PolicyMisconfigured(
            f"a context of {capacity} tokens; the model was made for {positions}"
        )
    return capacity


def derive_slots(options: EmbeddedOptions, backend: Backend, capacity: int) -> int:
    """Return how many slots fit into the memory for the cache, `max_slots` at most.

    Raises:
        MemoryTooSmall: Not even one of `capacity` tokens fits.
    """
    gib = options.cache_gib
    memory = backend.free_memory() if gib is None else gib * 2**30
    slot_bytes = capacity * backend.bytes_per_token
    slots = min(int(memory // slot_bytes), options.max_slots)
    if slots < 1:
        raise MemoryTooSmall(
            f"a context of {capacity} tokens takes {slot_bytes / 2**30:.2f} GiB, there are "
            f"{memory / 2**30:.2f}: lower --embedded.context-length"
        )
    return slots
