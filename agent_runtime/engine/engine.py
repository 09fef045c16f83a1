# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""The engine: one step after the other, for whoever calls from one thread.

Owns a model, its cache and a scheduler. Each step copies shared prefixes, computes the planned
tokens, samples, and ends what is done. Invariant: every sampled token names the weights that gave
it; weights change between steps only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from agent_runtime.engine.checkpoint import Architecture, digest, read_architecture, read_weights
from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.engine.grouping import group_chunks
from agent_runtime.engine.llama import KeyValueCache, Llama, make_batch
from agent_runtime.engine.randomness import uniform
from agent_runtime.engine.sampler import sample
from agent_runtime.engine.scheduling import Chunk, Generation, Scheduler, StepPlan
from agent_runtime.errors import ContextOverflow, PolicyMisbehaved, PolicyMisconfigured
from agent_runtime.policies.base import FinishReason
from agent_runtime.policies.config import EmbeddedOptions

__all__ = ["Ended", "Engine", "Totals", "load_engine"]

_LONGEST_DEFAULT: Final = 8192
"""Context length where nobody sets one: models that allow 100,000 tokens would get few slots."""
_SCORED_AT_ONCE: Final = 256
"""Positions whose whole distributions are in memory at once."""
_SHARE_OF_MEMORY: Final = {"cpu": 0.5, "cuda": 0.8}


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
        model: Llama,
        *,
        slots: int,
        capacity: int,
        version: str,
        prefill_tokens: int = 2048,
        decode: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        """`slots` contexts of `capacity` tokens; `decode` = text of ids, needed for stop strings.

        `version` names the model's weights. Raises ValueError for impossible sizes.
        """
        self.model = model
        self.version = version
        self.totals = Totals()
        self.decode = decode
        self._cache = KeyValueCache(model.architecture, slots, capacity, model.device, model.dtype)
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
        self, weights: Mapping[str, torch.Tensor], version: str, *, keep_cache: bool = False
    ) -> None:
        """Swap the weights in place; running generations go on with the new ones.

        What they sampled keeps its version; what comes carries `version`. With `keep_cache`, keys
        and values of the old weights stay in use for contexts that hold them; without, all are
        computed anew. Raises PolicyMisconfigured, having changed nothing, for another model's
        weights.
        """
        if not version:
            raise PolicyMisconfigured("weights need a version")
        self.model.load(weights)
        self.version = version
        if not keep_cache:
            self._scheduler.invalidate()

    def close(self) -> None:
        """Give the memory back to the device, for whoever works there next in this process.

        Nothing can be computed afterwards.
        """
        self._cache.free()
        self.model.free()
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()

    def score(self, ids: Sequence[int]) -> list[float]:
        """Logprobs at temperature 1 of all ids but the first, each given those before it.

        Uses and changes no slot. Raises PolicyMisconfigured for ids that the model does not know,
        ContextOverflow for more than it has positions.
        """
        if len(ids) > self.context_length:
            raise ContextOverflow(f"{len(ids)} tokens of {self.context_length}")
        self._check_ids(ids)
        model = self.model
        cache = KeyValueCache(model.architecture, 1, len(ids), model.device, model.dtype)
        scored = Generation(GenerationRequest(prompt=list(ids)))
        found: list[float] = []
        for start in range(0, len(ids) - 1, _SCORED_AT_ONCE):
            part = list(ids[start : min(start + _SCORED_AT_ONCE, len(ids) - 1)])
            groups = group_chunks([Chunk(scored, 0, start, part, False)], len(ids))
            batch = make_batch(groups, model.device, model.dtype)
            batch = replace(batch, last=torch.arange(len(part), device=model.device))
            logprobs = torch.log_softmax(model.forward(batch, cache), -1)
            following = torch.tensor(ids[start + 1 : start + 1 + len(part)], device=model.device)
            found += logprobs.gather(1, following[:, None])[:, 0].tolist()
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
        batch = make_batch(groups, self.model.device, self.model.dtype)
        logits = self.model.forward(batch, self._cache)
        self._scheduler.computed(plan)
        self._count(plan, sampling)
        return list(self._sample(sampling, logits)) if sampling else []

    def _check_ids(self, ids: Sequence[int]) -> None:
        known = self.model.architecture.vocab_size
        if not ids or not 0 <= min(ids) <= max(ids) < known:
            raise PolicyMisconfigured(
                f"a prompt is to have ids from 0 to {known - 1}: are the tokenizer and the weights "
                "of the same model?"
            )

    def _sample(self, chunks: Sequence[Chunk], logits: torch.Tensor) -> Iterable[Ended]:
        requests = [chunk.generation.request for chunk in chunks]
        ids, logprobs = sample(
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

    Call it in the thread that will step: torch's number of threads is the calling thread's. Raises
    PolicyMisconfigured for a folder, device or size that cannot work.
    """
    architecture = read_architecture(folder)
    device = _device(options)
    dtype = _dtype(options, architecture, device)
    if device.type == "cpu":
        torch.set_num_threads(options.threads or default_threads())
    capacity = options.context_length or min(architecture.positions, _LONGEST_DEFAULT)
    if capacity > architecture.positions:
        raise PolicyMisconfigured(
            f"a context of {capacity} tokens; the model was made for {architecture.positions}"
        )
    model = Llama(architecture, capacity=capacity, device=device, dtype=dtype)
    model.load(read_weights(folder))
    return Engine(
        model,
        slots=_slots(options, architecture, device, dtype, capacity),
        capacity=capacity,
        version=options.version or digest(folder),
        prefill_tokens=options.prefill_tokens,
        decode=decode,
    )


def default_threads() -> int:
    """Cores that this process may use, one of them left to the orchestrator and its servers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) - 1)


def _device(options: EmbeddedOptions) -> torch.device:
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise PolicyMisconfigured(f"no device {name!r} here: {error}") from error
    return device


def _dtype(
    options: EmbeddedOptions, architecture: Architecture, device: torch.device
) -> torch.dtype:
    if options.dtype == "auto":
        return torch.float32 if device.type == "cpu" else architecture.dtype
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[
        options.dtype
    ]


def _slots(
    options: EmbeddedOptions,
    architecture: Architecture,
    device: torch.device,
    dtype: torch.dtype,
    capacity: int,
) -> int:
    """As many slots as fit into the memory for the cache, `max_slots` at most."""
    if options.cache_gib is not None:
        memory = options.cache_gib * 2**30
    elif device.type == "cuda":
        # What this process keeps for later allocations is free, too.
        torch.cuda.empty_cache()
        memory = torch.cuda.mem_get_info(device)[0] * _SHARE_OF_MEMORY["cuda"]
    else:
        memory = _free_memory() * _SHARE_OF_MEMORY["cpu"]
    each = capacity * KeyValueCache.bytes_per_token(architecture, dtype)
    slots = min(int(memory // each), options.max_slots)
    if slots < 1:
        raise PolicyMisconfigured(
            f"a context of {capacity} tokens takes {each / 2**30:.2f} GiB, there are "
            f"{memory / 2**30:.2f}: lower --embedded.context-length"
        )
    return slots


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30
