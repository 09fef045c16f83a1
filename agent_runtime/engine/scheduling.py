"""Which tokens the next step computes, in which slots of the key-value cache.

Owns the slots' bookkeeping. Invariants: a slot's keys and values are those of `slot.ids[:count]`;
a running generation's slot holds a prefix of its ids; every step computes, for each running
generation, tokens that follow that prefix, and samples where it reaches the end. Decoding is the
case of one token left, so a cold prompt, a new observation, a diverged context and swapped weights
are all the same thing: tokens that the slot does not hold yet.

An episode's slot waits for its next turn. When slots run out, the least recently used one of those
that nobody generates in is given away; its episode is prefilled again when it comes back, from the
longest prefix that any slot holds.

Pure: no tensors, no clock but its own count of steps, no threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.ledger import VersionSpan
from agent_runtime.sampling import FinishReason

__all__ = ["Chunk", "Copy", "Generation", "Scheduler", "Slot", "StepPlan", "common_prefix"]

_WORTH_SHARING: Final = 16
"""A prefix of fewer tokens is computed sooner than it is waited for or copied."""
_LOOKAHEAD: Final = 64
"""How many waiting requests behind the first may be admitted before it."""


class Slot:
    """A place in the cache for the keys and values of one context."""

    __slots__ = ("count", "episode", "generation", "ids", "index", "space", "used_at")

    def __init__(self, index: int) -> None:
        self.index = index
        self.ids: Sequence[int] = ()
        self.count = 0
        """How many of `ids`, from the first, are in the cache."""
        self.episode = ""
        """Whose next turn it is kept for; empty = nobody's."""
        self.space = ""
        """Who may use what it holds: requests of this space."""
        self.generation: Generation | None = None
        self.used_at = 0

    def clear(self) -> None:
        """Forget what it holds and whom it is kept for."""
        self.ids, self.count, self.episode, self.space, self.used_at = (), 0, "", "", 0

    def shares(self, generation: Generation, limit: int) -> int:
        """How many leading ids it has in common with a generation that may use them."""
        if self.space != generation.request.space:
            return 0
        return common_prefix(self.ids, generation.ids, limit)


class Generation:
    """A request on its way: prompt and reply in one growing list of ids."""

    __slots__ = ("_spans", "cached_tokens", "ids", "logprobs", "request", "slot")

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request
        self.ids = list(request.prompt)
        self.logprobs: list[float] = []
        self.slot: Slot | None = None
        self.cached_tokens = 0
        self._spans: list[VersionSpan] = []

    @property
    def length(self) -> int:
        """Tokens sampled so far."""
        return len(self.logprobs)

    def append(self, token: int, logprob: float, version: str) -> None:
        """One sampled token."""
        at, spans = len(self.logprobs), self._spans
        self.ids.append(token)
        self.logprobs.append(logprob)
        start = at
        if spans and spans[-1].version == version:
            start = spans.pop().start
        spans.append(VersionSpan(start, at + 1, version))

    def ending(
        self, limit: int, decode: Callable[[Sequence[int]], str] | None
    ) -> FinishReason | None:
        """Why it ends after its newest token; None = it goes on. `limit` is of prompt and reply."""
        if self.ids[-1] in self.request.stop_ids:
            return FinishReason.STOP
        if decode is not None and self._said_stop(decode):
            return FinishReason.STOP
        if self.length >= self.request.sampling.max_new_tokens:
            return FinishReason.LENGTH
        return FinishReason.CONTEXT if len(self.ids) >= limit else None

    def _said_stop(self, decode: Callable[[Sequence[int]], str]) -> bool:
        stops = self.request.sampling.stop
        if not stops:
            return False
        # Each token gives a byte or more (control tokens none, hence the margin), each character
        # takes four at most: a stop string that just ended lies in the text of this tail.
        tail = 4 * max(len(stop) for stop in stops) + 8
        text = decode(self.ids[max(len(self.request.prompt), len(self.ids) - tail) :])
        return any(stop and stop in text for stop in stops)

    def result(self, finish: FinishReason) -> GenerationResult:
        """What is given back if it ends now."""
        prompt = len(self.request.prompt)
        return GenerationResult(
            ids=self.ids[prompt:],
            logprobs=list(self.logprobs),
            versions=list(self._spans),
            finish=finish,
            prompt_tokens=prompt,
            cached_tokens=self.cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class Copy:
    """The first `count` positions of one slot are to be copied into another."""

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive tokens of one generation that a step computes."""

    generation: Generation
    slot: int
    start: int
    """Position of the first one; all before it are in the slot."""
    ids: Sequence[int]
    samples: bool
    """Whether the last of them is the newest, so that the next token is sampled from it."""

    @property
    def end(self) -> int:
        """Position after the last token: how long the slot's context is then."""
        return self.start + len(self.ids)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: copies in their order, then all chunks at once."""

    copies: list[Copy]
    chunks: list[Chunk]


class Scheduler:
    """Slots, who is in them, and who waits for one."""

    def __init__(
        self, slots: int, capacity: int, *, prefill_tokens: int = 2048, linger: int = 4
    ) -> None:
        """`slots` contexts of `capacity` tokens each.

        A step prefills at most `prefill_tokens` tokens beside what it decodes. For `linger` steps
        a slot is kept for an episode's next turn even when others wait for slots.
        """
        if slots < 1 or capacity < 2 or prefill_tokens < 1 or linger < 0:
            raise ValueError("a scheduler needs a slot of two tokens and a token a step")
        self.capacity = capacity
        self.slots = [Slot(index) for index in range(slots)]
        self._prefill_tokens = prefill_tokens
        self._linger = linger
        self._waiting: deque[Generation] = deque()
        self._running: dict[Generation, Slot] = {}
        self._kept: dict[str, Slot] = {}
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
    def used(self) -> float:
        """Share of all positions that contexts of running generations take."""
        held = sum(len(generation.ids) for generation in self._running)
        return held / (self.capacity * len(self.slots))

    def submit(self, generation: Generation) -> None:
        """Take a generation; one whose episode still has its slot runs from the next step on.

        Raises ValueError where the prompt is empty or leaves no room for a reply.
        """
        if not 0 < len(generation.ids) < self.capacity:
            raise ValueError(f"a prompt has 1 to {self.capacity - 1} tokens")
        slot = self._kept.get(generation.request.episode)
        if slot is not None and slot.generation is None:
            self._seat(generation, slot, slot.shares(generation, slot.count))
        else:
            self._waiting.append(generation)

    def plan(self) -> StepPlan | None:
        """The next step; None = nothing to do. Its chunks are to be given to `computed`."""
        self._clock += 1
        copies = list(self._admit())
        if not self._running:
            return None
        chunks: list[Chunk] = []
        budget = self._prefill_tokens
        for generation, slot in self._running.items():
            start, total = slot.count, len(generation.ids)
            if start == total - 1:
                chunks.append(Chunk(generation, slot.index, start, generation.ids[start:], True))
            elif budget > 0:
                end = min(total, start + budget)
                budget -= end - start
                ids = generation.ids[start:end]
                chunks.append(Chunk(generation, slot.index, start, ids, end == total))
        return StepPlan(copies, chunks)

    def computed(self, plan: StepPlan) -> None:
        """The plan's keys and values are in the cache now."""
        for chunk in plan.chunks:
            slot = self.slots[chunk.slot]
            slot.count = chunk.end
            slot.used_at = self._clock

    def finish(self, generation: Generation, *, keep: bool = True) -> None:
        """End a generation that waits or runs; `keep` = its slot's content is good for reuse."""
        slot = self._running.pop(generation, None)
        if slot is None:
            self._waiting.remove(generation)
            return
        slot.generation = generation.slot = None
        if not keep:
            self._forget(slot)

    def release(self, episode: str) -> None:
        """The episode has no next turn: its slot is the first to be given away."""
        slot = self._kept.pop(episode, None)
        if slot is not None:
            slot.episode = ""

    def invalidate(self) -> None:
        """Nothing in the cache is valid any more; running generations are computed anew."""
        for slot in self.slots:
            slot.count = 0
            if slot.generation is None:
                self._forget(slot)

    def _admit(self) -> Iterator[Copy]:
        """Give slots to waiting generations, oldest first.

        One that shares a prefix with another that is still computing it lets others go first: a
        step later it copies what it would have computed.
        """
        passed: list[Generation] = []
        while self._waiting and len(passed) <= _LOOKAHEAD:
            slot = self._available()
            if slot is None:
                break
            generation = self._waiting.popleft()
            source, shared, coming = self._best_prefix(generation)
            if coming >= shared + _WORTH_SHARING:
                passed.append(generation)
                continue
            self._forget(slot, content=slot is not source)
            self._seat(generation, slot, shared)
            if source is not None and source is not slot:
                yield Copy(source.index, slot.index, slot.count)
        self._waiting.extendleft(reversed(passed))

    def _available(self) -> Slot | None:
        """The slot to give away next: never used, of no episode, then the longest unused."""
        slot, least = None, (True, 0, 0)
        for each in self.slots:
            if each.generation is not None:
                continue
            rank = (bool(each.episode), each.used_at, each.index)
            if slot is None or rank < least:
                slot, least = each, rank
                if rank[:2] == (False, 0):
                    break  # nothing ranks before it
        if slot is None:
            return None
        lingers = slot.episode and slot.used_at + self._linger >= self._clock
        return None if lingers and self._running else slot

    def _best_prefix(self, generation: Generation) -> tuple[Slot | None, int, int]:
        """The slot that shares the longest prefix, its length, and the longest that is coming.

        The last token of a context is always computed, since the next is sampled from it.
        """
        best, shared, coming = None, _WORTH_SHARING - 1, 0
        ids, space = generation.ids, generation.request.space
        limit = len(ids) - 1
        for slot in self.slots:
            if slot.space != space:
                continue
            held, size = slot.ids, min(len(slot.ids), limit)
            # A longer prefix has the id after the best one so far in common: of a thousand slots
            # with one instruction, most are passed by here.
            longer = shared < min(size, slot.count) and held[shared] == ids[shared]
            sooner = slot.generation and coming < size and held[coming] == ids[coming]
            if not longer and not sooner:
                continue
            common = common_prefix(held, ids, limit)
            coming = max(coming, common if slot.generation else 0)
            if min(common, slot.count) > shared:
                best, shared = slot, min(common, slot.count)
        return best, shared if best else 0, coming

    def _seat(self, generation: Generation, slot: Slot, shared: int) -> None:
        slot.generation, generation.slot = generation, slot
        slot.ids, slot.space = generation.ids, generation.request.space
        slot.count = generation.cached_tokens = min(shared, len(generation.ids) - 1)
        slot.used_at = self._clock
        episode = generation.request.episode
        if episode and episode not in self._kept:
            slot.episode = episode
            self._kept[episode] = slot
        self._running[generation] = slot

    def _forget(self, slot: Slot, *, content: bool = True) -> None:
        self._kept.pop(slot.episode, None)
        slot.episode = ""
        if content:
            slot.clear()


def common_prefix(left: Sequence[int], right: Sequence[int], limit: int) -> int:
    """How many leading ids two lists have in common, `limit` at most."""
    high = min(len(left), len(right), limit)
    if high <= 0 or left[0] != right[0]:
        return 0
    if left[:high] == right[:high]:
        return high
    low = 1
    while high - low > 1:  # the first `low` are equal, the first `high` are not
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low
