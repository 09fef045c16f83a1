"""Continuous batching: which tokens the next step computes, in which slots of the key-value cache.

Invariants: a slot's keys and values are those of `slot.ids[:slot.cached]`; a running generation's
slot holds a prefix of its ids; every step computes, for each running generation, tokens that follow
that prefix, and samples where it reaches the end. Decoding is the case of one token left, so a cold
prompt, a new observation, a diverged context and swapped weights are all the same thing: tokens
that the slot does not hold yet.

An episode keeps its slot for its next turn. When slots run out, the least recently used idle one is
evicted; its episode is prefilled again when it comes back, from the longest prefix in any slot.

Pure: no tensors, no clock but its own count of steps, no threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.engine.prefix_index import MIN_SHARED_PREFIX, PrefixIndex, common_prefix
from agent_runtime.engine.randomness import random_stream
from agent_runtime.ledger import VersionSpan
from agent_runtime.sampling import FinishReason

__all__ = [
    "BatchScheduler",
    "CacheSlot",
    "Chunk",
    "Copy",
    "Generation",
    "StepPlan",
    "common_prefix",
]

_LOOKAHEAD: Final = 64
"""How many waiting requests behind the first may be admitted before it."""


class CacheSlot:
    """Room in the cache for the keys and values of one context."""

    __slots__ = (
        "cache_salt",
        "cached",
        "episode_id",
        "generation",
        "ids",
        "index",
        "used_at",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.ids: Sequence[int] = ()
        self.cached = 0
        """How many of `ids`, from the first, are in the cache."""
        self.episode_id = ""
        """The episode for whose next turn it is kept; empty = none."""
        self.cache_salt = ""
        """Only requests with this salt may use its content."""
        self.generation: Generation | None = None
        self.used_at = 0
        """The scheduler's step in which it was last used; 0 = never."""

    def clear(self) -> None:
        """Drop its content and the episode that it is kept for."""
        self.ids, self.cached, self.episode_id, self.cache_salt, self.used_at = (), 0, "", "", 0

    def shared_prefix(self, generation: Generation, limit: int) -> int:
        """Return how many leading ids a generation may reuse from it, `limit` at most."""
        if self.cache_salt != generation.request.cache_salt:
            return 0
        return common_prefix(self.ids, generation.ids, limit)


class Generation:
    """A request being answered: prompt and reply in one growing list of ids."""

    __slots__ = (
        *("_spans", "_version", "cached_tokens", "entropies", "ids", "logprobs", "request"),
        *("slot", "stream"),
    )

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request
        self.ids = list(request.prompt)
        self.logprobs: list[float] = []
        self.entropies: list[float] = []
        self.slot: CacheSlot | None = None
        self.cached_tokens = 0
        self.stream = random_stream(request.seed)
        """Where its random numbers come from."""
        self._version: str | None = None
        """Of the newest token."""
        self._spans: list[tuple[int, str]] = []
        """Of each run of tokens with one version, the first token and the version."""

    @property
    def length(self) -> int:
        """Tokens sampled so far."""
        return len(self.logprobs)

    def append(self, token: int, logprob: float, entropy: float, version: str) -> None:
        """Add one sampled token."""
        if version != self._version:
            self._version = version
            self._spans.append((len(self.logprobs), version))
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.entropies.append(entropy)

    def finish_reason(
        self, limit: int, decode: Callable[[Sequence[int]], str] | None
    ) -> FinishReason | None:
        """Return why it ends after its newest token; None = it goes on.

        Args:
            limit: Most tokens of prompt and reply together.
            decode: Gives the text of ids; without it, stop strings are not looked for.
        """
        request, ids = self.request, self.ids
        if ids[-1] in request.stop_ids:
            return FinishReason.STOP
        sampling = request.sampling
        if sampling.stop and decode is not None and self._ends_with_stop_string(decode):
            return FinishReason.STOP
        if len(self.logprobs) >= sampling.max_new_tokens:
            return FinishReason.LENGTH
        return FinishReason.CONTEXT if len(ids) >= limit else None

    def _ends_with_stop_string(self, decode: Callable[[Sequence[int]], str]) -> bool:
        stops = self.request.sampling.stop
        # Each token gives a byte or more (control tokens none, hence the margin), each character
        # takes four at most: a stop string that just ended lies in the text of this tail.
        tail = 4 * max(len(stop) for stop in stops) + 8
        text = decode(self.ids[max(len(self.request.prompt), len(self.ids) - tail) :])
        return any(stop and stop in text for stop in stops)

    def result(self, finish: FinishReason) -> GenerationResult:
        """Return its result, as if it ended now."""
        prompt = len(self.request.prompt)
        return GenerationResult(
            ids=self.ids[prompt:],
            logprobs=list(self.logprobs),
            entropies=list(self.entropies),
            versions=self._version_spans(),
            finish=finish,
            prompt_tokens=prompt,
            cached_tokens=self.cached_tokens,
        )

    def _version_spans(self) -> list[VersionSpan]:
        ends = [*(start for start, _ in self._spans[1:]), len(self.logprobs)]
        # Not strict: who was aborted before a token has no span, and this one end.
        return [
            VersionSpan(start, end, version)
            for (start, version), end in zip(self._spans, ends, strict=False)
        ]


@dataclass(frozen=True, slots=True)
class Copy:
    """An instruction to copy the first `count` positions of one slot into another."""

    source: int
    target: int
    count: int


class Chunk:
    """Consecutive tokens of one generation that a step computes; never changed.

    A plain class: a step makes a thousand of them, and making a frozen dataclass takes thrice as
    long.
    """

    __slots__ = ("count", "end", "generation", "ids", "samples", "slot", "start")

    def __init__(
        self, generation: Generation, slot: int, start: int, ids: Sequence[int], samples: bool
    ) -> None:
        self.generation = generation
        self.slot = slot
        self.start = start
        """Position of the first token; all before it are in the slot."""
        self.ids = ids
        self.samples = samples
        """Whether they reach the end of the context, so that the next token is sampled."""
        self.count = count = len(ids)
        self.end = start + count
        """Position after the last token: the length of the slot's context afterwards."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: copies in this order, then all chunks at once."""

    copies: list[Copy]
    chunks: list[Chunk]


class BatchScheduler:
    """Assigns cache slots to generations and plans what each step computes."""

    def __init__(
        self, slots: int, capacity: int, *, prefill_tokens: int = 2048, linger: int = 4
    ) -> None:
        """Make a scheduler of empty slots.

        Args:
            slots: Contexts that the cache holds at once.
            capacity: Tokens of each.
            prefill_tokens: Most tokens that a step prefills beside what it decodes.
            linger: Steps for which a slot is kept for its episode's next turn even while others
                wait for slots: the next observation usually takes a few steps to come.
        """
        if slots < 1 or capacity < 2 or prefill_tokens < 1 or linger < 0:
            raise ValueError("a scheduler needs a slot of two tokens and a token a step")
        self.capacity = capacity
        self.slots = [CacheSlot(index) for index in range(slots)]
        self._prefill_tokens = prefill_tokens
        self._linger = linger
        self._waiting: deque[Generation] = deque()
        self._running: dict[Generation, CacheSlot] = {}
        self._slot_by_episode: dict[str, CacheSlot] = {}
        self._prefixes = PrefixIndex[CacheSlot]()
        self._clock = 0

    @property
    def waiting(self) -> int:
        """Generations without a slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Generations with a slot."""
        return len(self._running)

    @property
    def cache_usage(self) -> float:
        """Share of all positions that contexts of running generations take, 0 to 1."""
        used = sum(len(generation.ids) for generation in self._running)
        return used / (self.capacity * len(self.slots))

    def submit(self, generation: Generation) -> None:
        """Queue a generation; one whose episode still has its slot runs from the next step on.

        Raises ValueError where the prompt is empty or leaves no room for a reply.
        """
        if not 0 < len(generation.ids) < self.capacity:
            raise ValueError(f"a prompt has 1 to {self.capacity - 1} tokens")
        slot = self._slot_by_episode.get(generation.request.episode_id)
        if slot is not None and slot.generation is None:
            self._assign(generation, slot, slot.shared_prefix(generation, slot.cached))
        else:
            self._waiting.append(generation)

    def plan(self) -> StepPlan | None:
        """The next step; None = nothing to do. To be passed to `mark_computed` afterwards."""
        self._clock += 1
        copies = list(self._admit())
        if not self._running:
            return None
        chunks: list[Chunk] = []
        budget = self._prefill_tokens
        for generation, slot in self._running.items():
            start, ids = slot.cached, generation.ids
            total = len(ids)
            if start == total - 1:
                chunks.append(Chunk(generation, slot.index, start, ids[start:], True))
            elif budget > 0:
                end = min(total, start + budget)
                budget -= end - start
                ids = ids[start:end]
                chunks.append(Chunk(generation, slot.index, start, ids, end == total))
        return StepPlan(copies, chunks)

    def mark_computed(self, plan: StepPlan) -> None:
        """Note that the plan's keys and values are in the cache now."""
        slots, clock = self.slots, self._clock
        for chunk in plan.chunks:
            slot = slots[chunk.slot]
            slot.cached = chunk.end
            slot.used_at = clock

    def finish(self, generation: Generation, *, keep: bool = True) -> None:
        """End a generation that waits or runs; `keep` = its slot's content may be reused."""
        slot = self._running.pop(generation, None)
        if slot is None:
            self._waiting.remove(generation)
            return
        slot.generation = generation.slot = None
        if not keep:
            self._evict(slot)

    def release(self, episode_id: str) -> None:
        """Note that the episode has no next turn: its slot is among the first to be evicted."""
        slot = self._slot_by_episode.pop(episode_id, None)
        if slot is not None:
            slot.episode_id = ""

    def invalidate(self) -> None:
        """Drop everything in the cache; running generations are computed anew."""
        for slot in self.slots:
            slot.cached = 0
            if slot.generation is None:
                self._evict(slot)

    def _admit(self) -> Iterator[Copy]:
        """Assign slots to waiting generations, oldest first.

        One whose prefix another generation is computing right now lets others go first: a step
        later it copies that prefix instead of computing it again.
        """
        postponed: list[Generation] = []
        slot = None
        while self._waiting and len(postponed) <= _LOOKAHEAD:
            slot = slot or self._evictable_slot()
            if slot is None:
                break
            generation = self._waiting.popleft()
            salt = generation.request.cache_salt
            source, shared, coming = self._prefixes.find(generation.ids, salt)
            if coming >= shared + MIN_SHARED_PREFIX:
                postponed.append(generation)
                continue
            self._evict(slot, content=slot is not source)
            self._assign(generation, slot, shared)
            if source is not None and source is not slot:
                yield Copy(source.index, slot.index, slot.cached)
            slot = None
        self._waiting.extendleft(reversed(postponed))

    def _evictable_slot(self) -> CacheSlot | None:
        """Return the idle slot to evict next: of no episode first, then the least recently used."""
        best, best_rank = None, (True, 0, 0)
        for slot in [slot for slot in self.slots if slot.generation is None]:
            rank = (bool(slot.episode_id), slot.used_at, slot.index)
            if best is None or rank < best_rank:
                best, best_rank = slot, rank
                if rank[:2] == (False, 0):
                    break  # never used: nothing ranks before it
        if best is None:
            return None
        lingers = best.episode_id and best.used_at + self._linger >= self._clock
        return None if lingers and self._running else best

    def _assign(self, generation: Generation, slot: CacheSlot, shared: int) -> None:
        slot.generation, generation.slot = generation, slot
        slot.ids, slot.cache_salt = generation.ids, generation.request.cache_salt
        slot.cached = generation.cached_tokens = min(shared, len(generation.ids) - 1)
        self._prefixes.put(slot)
        slot.used_at = self._clock
        episode_id = generation.request.episode_id
        if episode_id and episode_id not in self._slot_by_episode:
            slot.episode_id = episode_id
            self._slot_by_episode[episode_id] = slot
        self._running[generation] = slot

    def _evict(self, slot: CacheSlot, *, content: bool = True) -> None:
        """Take a slot from its episode; `content` = drop its keys and values, too."""
        self._slot_by_episode.pop(slot.episode_id, None)
        slot.episode_id = ""
        if content:
            slot.clear()
            self._prefixes.drop(slot)
