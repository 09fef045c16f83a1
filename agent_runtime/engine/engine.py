"""The engine: one step after the other, for whoever calls from one thread.

Owns a backend, its cache and a scheduler. Each step copies shared prefixes, has the planned tokens
computed, samples, and ends what is done. Invariant: every sampled token names the weights that gave
it; weights change between steps only. Knows no tensors: see `backend`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agent_runtime.engine.backend import Backend, make_backend
from agent_runtime.engine.checkpoint import digest, read_architecture
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.engine.grouping import group_chunks
from agent_runtime.engine.layout import lay_out
from agent_runtime.engine.randomness import uniform
from agent_runtime.engine.scheduling import Chunk, Generation, Scheduler, StepPlan
from agent_runtime.errors import ContextOverflow, PolicyMisbehaved, PolicyMisconfigured
from agent_runtime.sampling import FinishReason

__all__ = ["Ended", "Engine", "Totals", "load_engine"]

_LONGEST_DEFAULT: Final = 8192
"""Context length where nobody sets one: models that allow 100,000 tokens would get few slots."""
_SCORED_AT_ONCE: Final = 256
"""Positions whose whole distributions are in memory at once."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A generation that is over: a result, or the error that ended it."""

    generation: Generation
    outcome: GenerationResult | PolicyMisbehaved


@dataclass(slots=True)
class Totals:
    """What the engine has done since its start, in tokens unless named otherwise."""

    steps: int = 0
    prefilled: int = 0
    sampled: int = 0
    prompts: int = 0
    cached: int = 0
    """Of the prompts' tokens, those that were in the cache already."""


class Engine:
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
        """`slots` contexts of `capacity` tokens; `decode` = text of ids, needed for stop strings.

        `version` names the backend's weights. Raises ValueError for impossible sizes.
        """
        self.backend = backend
        self.version = version
        self.totals = Totals()
        self.decode = decode
        self._cache = backend.make_cache(slots, capacity)
        self._scheduler = Scheduler(slots, capacity, prefill_tokens=prefill_tokens)
        self._live: set[Generation] = set()

    @property
    def context_length(self) -> int:
        """Longest prompt plus reply, in tokens."""
        return self._scheduler.capacity

    @property
    def slots(self) -> int:
        """Contexts that the cache holds at once."""
        return len(self._scheduler.slots)

    @property
    def used(self) -> float:
        """Share of the cache that running generations take."""
        return self._scheduler.used

    @property
    def running(self) -> int:
        """Generations that have a slot."""
        return self._scheduler.running

    @property
    def waiting(self) -> int:
        """Generations that wait for a slot."""
        return self._scheduler.waiting

    def submit(self, request: GenerationRequest) -> Generation:
        """Take a request; it runs with the next steps.

        Raises ContextOverflow where the prompt leaves no room for a reply, PolicyMisconfigured
        where it has ids that the model does not know.
        """
        if len(request.prompt) >= self.context_length:
            raise ContextOverflow(f"{len(request.prompt)} tokens of {self.context_length}")
        self._check_ids(request.prompt)
        if request.sampling.stop and self.decode is None:
            raise PolicyMisconfigured("stop strings need a tokenizer")
        generation = Generation(request)
        self._scheduler.submit(generation)
        self._live.add(generation)
        return generation

    def abort(self, generation: Generation) -> GenerationResult | None:
        """End a generation now with the tokens that it has; None = it was over already."""
        if generation not in self._live:
            return None
        self._end(generation)
        return generation.result(FinishReason.ABORT)

    def release(self, episode: str) -> None:
        """The episode is over: its slot may be given away."""
        self._scheduler.release(episode)

    def forget(self) -> None:
        """Empty the cache; running generations are computed anew."""
        self._scheduler.invalidate()

    def update_weights(
        self, weights: Mapping[str, Any], version: str, *, keep_cache: bool = False
    ) -> None:
        """Swap the weights in place; running generations go on with the new ones.

        What they sampled keeps its version; what comes carries `version`. With `keep_cache`, keys
        and values of the old weights stay in use for contexts that hold them; without, all are
        computed anew. Raises PolicyMisconfigured, having changed nothing, for another model's
        weights.
        """
        if not version:
            raise PolicyMisconfigured("weights need a version")
        self.backend.load(weights)
        self.version = version
        if not keep_cache:
            self._scheduler.invalidate()

    def close(self) -> None:
        """Give the memory back to the device, for whoever works there next in this process.

        Nothing can be computed afterwards.
        """
        self.backend.free(self._cache)

    def score(self, ids: Sequence[int]) -> list[float]:
        """Logprobs at temperature 1 of all ids but the first, each given those before it.

        Uses and changes no slot. Raises PolicyMisconfigured for ids that the model does not know,
        ContextOverflow for more than it has positions.
        """
        if len(ids) > self.context_length:
            raise ContextOverflow(f"{len(ids)} tokens of {self.context_length}")
        self._check_ids(ids)
        cache = self.backend.make_cache(1, len(ids))
        scored = Generation(GenerationRequest(prompt=list(ids)))
        found: list[float] = []
        for start in range(0, len(ids) - 1, _SCORED_AT_ONCE):
            part = list(ids[start : min(start + _SCORED_AT_ONCE, len(ids) - 1)])
            layout = lay_out(group_chunks([Chunk(scored, 0, start, part, False)], len(ids)))
            layout = replace(layout, last=list(range(len(part))))
            logits = self.backend.forward(layout, cache)
            found += self.backend.score(logits, ids[start + 1 : start + 1 + len(part)])
        return found

    def step(self) -> list[Ended]:
        """Compute and sample one step; returns what ended with it. Idle = an empty list."""
        plan = self._scheduler.plan()
        if plan is None:
            return []
        for copy in plan.copies:
            self._cache.copy(copy.source, copy.target, copy.count)
        groups = group_chunks(plan.chunks, self.context_length)
        sampling = [it for group in groups for it in group.rows if it is not None and it.samples]
        logits = self.backend.forward(lay_out(groups), self._cache)
        self._scheduler.computed(plan)
        self._count(plan, sampling)
        return list(self._sample(sampling, logits)) if sampling else []

    def _check_ids(self, ids: Sequence[int]) -> None:
        known = self.backend.architecture.vocab_size
        if not ids or not 0 <= min(ids) <= max(ids) < known:
            raise PolicyMisconfigured(
                f"a prompt is to have ids from 0 to {known - 1}: are the tokenizer and the weights "
                "of the same model?"
            )

    def _sample(self, chunks: Sequence[Chunk], logits: Any) -> Iterable[Ended]:
        requests = [chunk.generation.request for chunk in chunks]
        ids, logprobs = self.backend.sample(
            logits,
            [request.sampling for request in requests],
            # By place in the context, so that a reply that goes on in a new request draws alike.
            [uniform(chunk.generation.request.seed, chunk.end) for chunk in chunks],
        )
        for chunk, token, logprob in zip(chunks, ids, logprobs, strict=True):
            generation = chunk.generation
            if not math.isfinite(logprob):
                yield self._fail(chunk, logprob)
                continue
            generation.append(token, logprob, self.version)
            finish = generation.ending(self.context_length, self.decode)
            if finish is not None:
                self._end(generation)
                yield Ended(generation, generation.result(finish))

    def _fail(self, chunk: Chunk, logprob: float) -> Ended:
        self._end(chunk.generation, keep=False)
        # NaN keys would reach the slot's next context, masked or not.
        self._cache.wipe(chunk.slot)
        problem = f"weights {self.version!r} give logprob {logprob} at token {chunk.end}"
        return Ended(chunk.generation, PolicyMisbehaved(problem))

    def _end(self, generation: Generation, *, keep: bool = True) -> None:
        self._live.discard(generation)
        self._scheduler.finish(generation, keep=keep)

    def _count(self, plan: StepPlan, sampling: Sequence[Chunk]) -> None:
        totals = self.totals
        totals.steps += 1
        totals.sampled += len(sampling)
        for chunk in plan.chunks:
            totals.prefilled += len(chunk.ids) if len(chunk.ids) > 1 else 0
        for chunk in sampling:
            if not chunk.generation.length:
                totals.prompts += len(chunk.generation.request.prompt)
                totals.cached += chunk.generation.cached_tokens


def load_engine(
    folder: Path,
    options: EmbeddedOptions,
    decode: Callable[[Sequence[int]], str] | None = None,
) -> Engine:
    """An engine for a checkpoint folder, sized for this machine; takes seconds.

    Call it in the thread that will step: the backend's number of threads is the calling thread's.
    Raises PolicyMisconfigured for a folder, device or size that cannot work, and where the extra of
    the backend is missing.
    """
    architecture = read_architecture(folder)
    capacity = options.context_length or min(architecture.positions, _LONGEST_DEFAULT)
    if capacity > architecture.positions:
        raise PolicyMisconfigured(
            f"a context of {capacity} tokens; the model was made for {architecture.positions}"
        )
    backend = make_backend(options, architecture, capacity)
    backend.load(backend.read(folder))
    return Engine(
        backend,
        slots=_slots(options, backend, capacity),
        capacity=capacity,
        version=options.version or digest(folder),
        prefill_tokens=options.prefill_tokens,
        decode=decode,
    )


def _slots(options: EmbeddedOptions, backend: Backend, capacity: int) -> int:
    """As many slots as fit into the memory for the cache, `max_slots` at most."""
    given = options.cache_gib
    memory = backend.free_memory() if given is None else given * 2**30
    each = capacity * backend.bytes_per_token
    slots = min(int(memory // each), options.max_slots)
    if slots < 1:
        raise PolicyMisconfigured(
            f"a context of {capacity} tokens takes {each / 2**30:.2f} GiB, there are "
            f"{memory / 2**30:.2f}: lower --embedded.context-length"
        )
    return slots
