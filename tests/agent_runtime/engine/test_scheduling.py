"""Slots, prefixes and order of work, without a model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runtime.engine.generation import GenerationRequest
from agent_runtime.engine.grouping import SharedPrefix, group_chunks
from agent_runtime.engine.scheduling import (
    BatchScheduler,
    Chunk,
    Generation,
    StepPlan,
    common_prefix,
)
from agent_runtime.policies import FinishReason, Sampling

SHARED = list(range(100, 140))


def generation(
    prompt: list[int], episode_id: str = "", reply: int = 3, cache_salt: str = ""
) -> Generation:
    sampling = Sampling(max_new_tokens=reply)
    request = GenerationRequest(
        prompt=prompt, episode_id=episode_id, sampling=sampling, cache_salt=cache_salt
    )
    return Generation(request)


class Machine:
    """Carries out plans on lists of ids, as a model does on keys and values."""

    def __init__(self, scheduler: BatchScheduler) -> None:
        self.scheduler = scheduler
        self.cache: list[list[int]] = [[] for _ in scheduler.slots]
        self.prefilled = 0
        self.done: list[Generation] = []

    def step(self) -> StepPlan | None:
        plan = self.scheduler.plan()
        if plan is None:
            return None
        for copy in plan.copies:
            assert copy.source != copy.target
            assert copy.count <= len(self.cache[copy.source])
            self.cache[copy.target] = self.cache[copy.source][: copy.count]
        groups = group_chunks(plan.chunks, self.scheduler.capacity)
        grouped = [chunk for group in groups for chunk in group.rows if chunk is not None]
        assert sorted(map(id, grouped)) == sorted(map(id, plan.chunks))
        for chunk in plan.chunks:
            held = self.cache[chunk.slot]
            assert held[: chunk.start] == chunk.generation.ids[: chunk.start]
            assert len(held) >= chunk.start
            self.cache[chunk.slot] = held[: chunk.start] + list(chunk.ids)
            self.prefilled += len(chunk.ids) if len(chunk.ids) > 1 else 0
        self.scheduler.mark_computed(plan)
        for chunk in plan.chunks:
            if chunk.samples:
                self._sample(chunk.generation)
        return plan

    def _sample(self, it: Generation) -> None:
        # The next id depends on all ids before it, as a model's does.
        it.append(sum(it.ids) % 97, -1.0, 0.5, "v")
        if it.finish_reason(self.scheduler.capacity, None) is not None:
            self.scheduler.finish(it)
            self.done.append(it)

    def run(self) -> None:
        for _ in range(10_000):
            if self.step() is None:
                return
        raise AssertionError("the scheduler never ends")


def expected(prompt: list[int], reply: int, capacity: int) -> list[int]:
    ids = list(prompt)
    while len(ids) < min(capacity, len(prompt) + reply):
        ids.append(sum(ids) % 97)
    return ids


@given(left=st.lists(st.integers(0, 2)), right=st.lists(st.integers(0, 2)), limit=st.integers(0, 9))
def test_the_common_prefix_is_the_longest(left: list[int], right: list[int], limit: int) -> None:
    length = common_prefix(left, right, limit)
    assert left[:length] == right[:length]
    assert length <= limit
    if length < min(len(left), len(right), limit):
        assert left[length] != right[length]


def test_a_next_turn_computes_only_what_is_new() -> None:
    machine = Machine(BatchScheduler(2, 200))
    first = generation(SHARED, "a")
    machine.scheduler.submit(first)
    machine.run()
    second = generation([*first.ids, 1, 2, 3, 4], "a")
    machine.scheduler.submit(second)
    assert second.cached_tokens == len(first.ids) - 1  # the last sampled one was never computed
    before = machine.prefilled
    machine.run()
    assert machine.prefilled - before == 5


def test_a_context_that_diverges_is_computed_from_where_it_does() -> None:
    machine = Machine(BatchScheduler(2, 200))
    first = generation(SHARED, "a")
    machine.scheduler.submit(first)
    machine.run()
    second = generation([*SHARED[:30], 7, 7, 7], "a")
    machine.scheduler.submit(second)
    assert second.cached_tokens == 30
    machine.run()
    assert second.ids == expected([*SHARED[:30], 7, 7, 7], 3, 200)


def test_a_prompt_that_is_held_entirely_computes_its_last_token() -> None:
    machine = Machine(BatchScheduler(1, 200))
    for _ in range(2):
        again = generation(SHARED, "a")
        machine.scheduler.submit(again)
        machine.run()
    assert again.cached_tokens == len(SHARED) - 1
    assert again.ids == expected(SHARED, 3, 200)


def test_requests_with_one_start_compute_it_once() -> None:
    machine = Machine(BatchScheduler(8, 200))
    several = [generation([*SHARED, 200 + index, 5], f"e{index}") for index in range(8)]
    for each in several:
        machine.scheduler.submit(each)
    machine.run()
    assert machine.prefilled == len(SHARED) + 2 + 7 * 2
    assert [each.cached_tokens for each in several] == [0] + [len(SHARED)] * 7


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_spaces_share_nothing(slots: int) -> None:
    machine = Machine(BatchScheduler(slots, 200))
    first = generation(SHARED, "a", cache_salt="one")
    machine.scheduler.submit(first)
    machine.run()
    again = [generation([*first.ids, 1], "a", cache_salt=salt) for salt in ("two", "two", "one")]
    for each in again:
        machine.scheduler.submit(each)
        machine.run()
    assert [each.cached_tokens for each in again[:2]] == [0, len(first.ids)]
    assert again[2].cached_tokens == 0  # the episode's slot holds the other salt by then


def test_the_longest_unused_slot_is_given_away_and_its_episode_comes_back() -> None:
    machine = Machine(BatchScheduler(2, 200, linger=0))
    first = {name: generation([*SHARED[:10], at], name) for at, name in enumerate("abc")}
    for each in first.values():
        machine.scheduler.submit(each)
        machine.run()
    again = {name: generation([*first[name].ids, 9], name) for name in "ab"}
    for name in "ba":
        machine.scheduler.submit(again[name])
        machine.run()
    assert again["b"].cached_tokens == len(first["b"].ids) - 1
    assert again["a"].cached_tokens < len(first["a"].ids) - 1
    assert again["a"].ids == expected([*first["a"].ids, 9], 3, 200)


def test_a_slot_lingers_for_its_episode_while_others_work() -> None:
    machine = Machine(BatchScheduler(2, 200, linger=3))
    quick, long = generation([1], "quick", reply=1), generation([2], "long", reply=50)
    for each in (quick, long, generation([3], "next", reply=1)):
        machine.scheduler.submit(each)
    machine.step()
    assert machine.done == [quick]
    for waiting in (1, 1, 1, 0):
        machine.step()
        assert machine.scheduler.waiting == waiting


def test_a_released_slot_does_not_linger() -> None:
    machine = Machine(BatchScheduler(2, 200, linger=100))
    for each in (generation([1], "quick", reply=1), generation([2], "long", reply=50)):
        machine.scheduler.submit(each)
    machine.step()
    machine.scheduler.release("quick")
    machine.scheduler.submit(generation([3], "next", reply=1))
    machine.step()
    assert machine.scheduler.waiting == 0


def test_nobody_waits_for_lingering_slots_when_nothing_runs() -> None:
    machine = Machine(BatchScheduler(1, 200, linger=1000))
    for name in "abc":
        machine.scheduler.submit(generation([1, 2], name))
    machine.run()
    assert len(machine.done) == 3


def test_a_long_prompt_is_computed_in_pieces_beside_others() -> None:
    machine = Machine(BatchScheduler(2, 200, prefill_tokens=16))
    machine.scheduler.submit(generation([1, 2], "short", reply=9))
    machine.step()
    long = generation(SHARED, "long")
    machine.scheduler.submit(long)
    sizes = [
        [len(chunk.ids) for chunk in plan.chunks] for _ in range(3) if (plan := machine.step())
    ]
    assert sizes == [[1, 16], [1, 16], [1, 8]]
    assert long.length == 1


def test_after_invalidation_running_generations_are_computed_anew() -> None:
    machine = Machine(BatchScheduler(2, 200))
    running, idle = generation(SHARED, "a", reply=6), generation(SHARED[::-1], "b", reply=1)
    machine.scheduler.submit(running)
    machine.scheduler.submit(idle)
    machine.step()
    machine.step()
    machine.scheduler.invalidate()
    machine.cache = [[], []]
    plan = machine.step()
    assert plan is not None
    assert [(chunk.start, len(chunk.ids)) for chunk in plan.chunks] == [(0, len(SHARED) + 2)]
    machine.run()
    assert running.ids == expected(SHARED, 6, 200)
    following = generation([*idle.ids, 1], "b")
    machine.scheduler.submit(following)
    machine.run()
    assert following.cached_tokens == 0


def test_a_generation_ends_while_it_waits_or_runs() -> None:
    machine = Machine(BatchScheduler(1, 200))
    running, waiting = generation(SHARED, "a"), generation(SHARED, "b")
    machine.scheduler.submit(running)
    machine.scheduler.submit(waiting)
    machine.step()
    machine.scheduler.finish(waiting)
    machine.scheduler.finish(running)
    assert machine.step() is None
    assert running.result(FinishReason.ABORT).ids == running.ids[len(SHARED) :]


def test_a_slot_that_is_not_kept_holds_nothing() -> None:
    machine = Machine(BatchScheduler(1, 200))
    first = generation(SHARED, "a")
    machine.scheduler.submit(first)
    machine.step()
    machine.scheduler.finish(first, keep=False)
    again = generation(SHARED, "a")
    machine.scheduler.submit(again)
    machine.run()
    assert again.cached_tokens == 0


def test_versions_tile_the_reply() -> None:
    it = generation([1])
    for version in ("a", "a", "b", "a"):
        it.append(5, -1.0, 0.5, version)
    spans = it.result(FinishReason.LENGTH).versions
    assert [tuple(span) for span in spans] == [(0, 2, "a"), (2, 3, "b"), (3, 4, "a")]


def test_a_full_context_ends_a_reply() -> None:
    machine = Machine(BatchScheduler(1, 10))
    it = generation([1] * 8, reply=50)
    machine.scheduler.submit(it)
    machine.run()
    assert len(it.ids) == 10
    assert it.finish_reason(10, None) is FinishReason.CONTEXT


def test_a_stop_string_is_found_where_it_ends() -> None:
    letters = "ab\nObservation:cd"
    sampling = Sampling(max_new_tokens=100, stop=("\nObservation:",))
    it = Generation(GenerationRequest(prompt=[1], sampling=sampling))
    ends = list[FinishReason | None]()
    for position in range(len(letters)):
        it.append(position, -1.0, 0.5, "v")
        ends.append(it.finish_reason(200, lambda ids: "".join(letters[token] for token in ids)))
    assert ends.index(FinishReason.STOP) == letters.index(":")


@pytest.mark.parametrize("prompt", [[], [1] * 10, [1] * 11])
def test_an_impossible_prompt_is_refused(prompt: list[int]) -> None:
    with pytest.raises(ValueError):
        BatchScheduler(1, 10).submit(generation(prompt))


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_whatever_comes_every_context_is_computed_right(data: st.DataObject) -> None:
    scheduler = BatchScheduler(
        data.draw(st.integers(1, 4)),
        80,
        prefill_tokens=data.draw(st.integers(1, 60)),
        linger=data.draw(st.integers(0, 3)),
    )
    machine = Machine(scheduler)
    contexts: dict[str, list[int]] = {}
    open_now: dict[str, Generation] = {}
    prompts: dict[Generation, list[int]] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        move = data.draw(st.sampled_from(["submit", "step", "release", "abort", "invalidate"]))
        name = data.draw(st.sampled_from("abcdef"))
        if move == "submit" and name not in open_now:
            start = contexts.get(name) or SHARED[: data.draw(st.integers(1, 40))]
            prompt = [*start, *data.draw(st.lists(st.integers(0, 9), max_size=5))]
            if len(prompt) < scheduler.capacity:
                open_now[name] = generation(prompt, name)
                prompts[open_now[name]] = prompt
                scheduler.submit(open_now[name])
        elif move == "release" and name not in open_now:
            scheduler.release(name)
        elif move == "abort" and name in open_now:
            scheduler.finish(open_now.pop(name))
        elif move == "invalidate":
            scheduler.invalidate()
            machine.cache = [[] for _ in scheduler.slots]
        else:
            machine.step()
        for key, it in list(open_now.items()):
            if it in machine.done:
                contexts[key] = open_now.pop(key).ids
    machine.run()
    for it in machine.done:
        assert it.ids == expected(prompts[it], 3, scheduler.capacity)
    assert not scheduler.running
    assert not scheduler.waiting
    assert all(slot.generation is None for slot in scheduler.slots)


def chunk(slot: int, start: int, count: int) -> Chunk:
    ids = [1] * (start + count)
    return Chunk(generation(ids), slot, start, ids[start:], True)


def test_neighbouring_rows_are_read_in_place() -> None:
    (group,) = group_chunks([chunk(slot, 20, 1) for slot in (4, 2, 3)], 100)
    assert group.slots == range(2, 5)
    assert (group.width, group.length) == (1, 32)


def test_a_few_rows_of_nobody_are_cheaper_than_copies() -> None:
    (group,) = group_chunks([chunk(slot, 20, 1) for slot in (0, 1, 3)], 100)
    assert group.slots == range(4)
    assert group.rows[2] is None


def test_rows_far_apart_are_copied() -> None:
    (group,) = group_chunks([chunk(slot, 20, 1) for slot in (0, 90)], 100)
    assert list(group.slots) == [0, 90]
    assert None not in group.rows


def test_one_long_context_does_not_widen_all() -> None:
    chunks = [*(chunk(slot, 20, 1) for slot in range(40)), chunk(40, 4000, 1)]
    assert sorted(group.length for group in group_chunks(chunks, 8192)) == [32, 4016]


def test_prompts_of_very_different_lengths_are_not_padded_to_one() -> None:
    groups = group_chunks([chunk(0, 0, 100), chunk(1, 0, 60), chunk(2, 0, 10)], 128)
    assert [(group.width, len(group.rows)) for group in groups] == [(100, 2), (10, 1)]


def test_contexts_that_begin_alike_share_what_they_begin_with() -> None:
    def begins(slot: int, first: int, own: int, salt: str = "") -> Chunk:
        ids = [first] * 100 + [own] * 30
        request = GenerationRequest(prompt=ids, cache_salt=salt)
        return Chunk(Generation(request), slot, 129, ids[129:], True)

    alike = [begins(slot, 1, slot + 10) for slot in range(3)]
    chunks = [*alike, begins(3, 2, 9), begins(4, 1, 10, salt="other"), chunk(5, 20, 1)]
    shared, *others = group_chunks(chunks, 200, share_prefixes=True)
    assert shared.rows == alike
    assert shared.prefix == SharedPrefix(slot=0, count=96)
    assert all(group.prefix is None for group in others)
    assert {row.slot for group in others for row in group.rows if row} == {3, 4, 5}
    (group,) = group_chunks(alike, 200)
    assert group.prefix is None


@given(
    held=st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 2), max_size=20))),
    asked=st.tuples(st.integers(0, 40), st.lists(st.integers(0, 2), max_size=20)),
)
def test_a_cold_prompt_takes_the_longest_prefix_that_any_slot_holds(
    held: list[tuple[int, list[int]]], asked: tuple[int, list[int]]
) -> None:
    machine = Machine(BatchScheduler(len(held) + 1, 200))
    contexts: list[list[int]] = []
    for number, (count, tail) in enumerate(held):
        first = generation([*SHARED[:count], *tail, 90 + number % 3], str(number), reply=1)
        machine.scheduler.submit(first)
        machine.run()
        contexts.append(first.ids[:-1])  # what was sampled last was never computed
    newest = generation([*SHARED[: asked[0]], *asked[1], 99], "new", reply=1)
    machine.scheduler.submit(newest)
    machine.run()
    longest = max(
        (common_prefix(it, newest.ids, len(newest.request.prompt) - 1) for it in contexts),
        default=0,
    )
    assert newest.cached_tokens == (longest if longest >= 16 else 0)
