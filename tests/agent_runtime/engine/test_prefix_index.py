"""The index finds what a comparison with every slot finds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runtime.engine.generation import GenerationRequest
from agent_runtime.engine.prefix_index import MIN_SHARED_PREFIX, PrefixIndex, common_prefix
from agent_runtime.engine.scheduling import CacheSlot, Generation


def scan(slots: list[CacheSlot], ids: list[int], salt: str) -> tuple[CacheSlot | None, int, int]:
    """Compare with every slot."""
    best, shared, coming = None, MIN_SHARED_PREFIX - 1, 0
    for slot in slots:
        if slot.cache_salt == salt:
            common = common_prefix(slot.ids, ids, len(ids) - 1)
            if slot.generation is not None and common >= MIN_SHARED_PREFIX:
                coming = max(coming, common)
            if min(common, slot.cached) > shared:
                best, shared = slot, min(common, slot.cached)
    return best, shared if best else 0, coming


# Beginnings that many have in common, of all lengths around those that the index files by.
CONTEXTS = st.builds(
    lambda first, count, tail: [first] * count + tail,
    st.integers(0, 1),
    st.integers(0, 40),
    st.lists(st.integers(0, 1), min_size=1, max_size=12),
)
SALTS = st.sampled_from(["", "other"])


@settings(deadline=None)
@given(data=st.data())
def test_the_index_equals_the_scan(data: st.DataObject) -> None:
    index, slots = PrefixIndex[CacheSlot](), [CacheSlot(number) for number in range(8)]
    for _ in range(data.draw(st.integers(1, 30))):
        slot = data.draw(st.sampled_from(slots))
        move = data.draw(st.sampled_from(["put", "put", "clear", "grow", "compute", "end"]))
        if move == "put":
            slot.cache_salt = data.draw(SALTS)
            slot.generation = Generation(GenerationRequest(prompt=data.draw(CONTEXTS)))
            slot.ids = slot.generation.ids
            slot.cached = data.draw(st.integers(0, len(slot.ids) - 1))
            index.put(slot)
        elif move == "clear":
            slot.generation = None
            slot.clear()
            index.drop(slot)
        elif move == "grow" and slot.generation is not None:
            slot.generation.append(data.draw(st.integers(0, 1)), -1.0, 0.5, "v")
        elif move == "compute":
            slot.cached = len(slot.ids)
        elif move == "end":
            slot.generation = None
        asked, salt = data.draw(CONTEXTS), data.draw(SALTS)
        assert index.find(asked, salt) == scan(slots, asked, salt)


def test_a_slot_that_was_filed_while_short_is_found_once_it_has_grown() -> None:
    index, slot = PrefixIndex[CacheSlot](), CacheSlot(0)
    slot.generation = Generation(GenerationRequest(prompt=[1, 2, 3]))
    slot.ids = slot.generation.ids
    index.put(slot)
    slot.generation.ids.extend(range(30))
    slot.cached = 32
    assert index.find([1, 2, 3, *range(30), 7], "") == (slot, 32, 33)
