"""Which cache slot holds the longest beginning of a new context.

Invariant: `find` gives what a comparison with every slot would give, of equally long ones the first
slot. Slots are filed under their first ids, so that a context is compared with those of its own
instruction only. Pure: knows lists of ids, no tensors.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["MIN_SHARED_PREFIX", "HeldContext", "PrefixIndex", "common_prefix"]

MIN_SHARED_PREFIX: Final = 16
"""Tokens; computing a shorter prefix is cheaper than waiting for it or copying it."""
_NO_ID: Final = -1
"""Equals no token's id."""

Key = tuple[str, tuple[int, ...]]


class HeldContext(Protocol):
    """What the index needs to know of a `scheduling.CacheSlot`."""

    @property
    def index(self) -> int: ...
    @property
    def ids(self) -> Sequence[int]: ...
    @property
    def cached(self) -> int: ...
    @property
    def cache_salt(self) -> str: ...
    @property
    def generation(self) -> object | None: ...


Slot = TypeVar("Slot", bound=HeldContext)


class PrefixIndex(Generic[Slot]):
    """The contexts of all slots that hold one, by salt and first ids."""

    def __init__(self) -> None:
        self._slots: dict[Key, list[Slot]] = {}
        """In the order of their indices."""
        self._key_by_slot: dict[Slot, Key] = {}

    def put(self, slot: Slot) -> None:
        """File a slot under its present ids; these may grow afterwards."""
        key = _key(slot.cache_salt, slot.ids)
        if self._key_by_slot.get(slot) == key:
            return
        self.drop(slot)
        insort(self._slots.setdefault(key, []), slot, key=attrgetter("index"))
        self._key_by_slot[slot] = key

    def drop(self, slot: Slot) -> None:
        """Forget a slot, if it was filed."""
        key = self._key_by_slot.pop(slot, None)
        if key is None:
            return
        slots = self._slots[key]
        slots.remove(slot)
        if not slots:
            del self._slots[key]

    def find(self, ids: Sequence[int], cache_salt: str) -> tuple[Slot | None, int, int]:
        """Return the slot with the longest cached prefix, and how long cached prefixes are.

        The first length is that slot's, the second that of the longest prefix that a running
        generation is going to have cached; prefixes below `MIN_SHARED_PREFIX` count as none. The
        last token of a context is always computed, since the next is sampled from it.
        """
        limit = len(ids) - 1
        best: Slot | None = None
        shared, coming = MIN_SHARED_PREFIX - 1, MIN_SHARED_PREFIX - 1
        if limit <= shared:
            return None, 0, 0
        after_shared = after_coming = ids[shared]
        for slot in self._candidates(ids, cache_salt):
            slot_ids, runs = slot.ids, slot.generation is not None
            # A longer prefix must agree on the id right after the best one so far: this one
            # comparison skips most of hundreds of slots that hold the same instruction.
            longer = slot.cached > shared and slot_ids[shared] == after_shared
            sooner = runs and len(slot_ids) > coming and slot_ids[coming] == after_coming
            if not longer and not sooner:
                continue
            common = common_prefix(slot_ids, ids, limit)
            if runs and common > coming:
                coming = common
                after_coming = ids[coming] if coming < limit else _NO_ID
            if min(common, slot.cached) > shared:
                best, shared = slot, min(common, slot.cached)
                after_shared = ids[shared] if shared < limit else _NO_ID
        return best, shared if best else 0, coming if coming >= MIN_SHARED_PREFIX else 0

    def _candidates(self, ids: Sequence[int], cache_salt: str) -> Sequence[Slot]:
        found = self._slots.get(_key(cache_salt, ids), [])
        # What was too short for a whole key when it was filed may have grown since.
        short = self._slots.get((cache_salt, ()))
        return sorted([*found, *short], key=attrgetter("index")) if short else found


def _key(cache_salt: str, ids: Sequence[int]) -> Key:
    whole = len(ids) >= MIN_SHARED_PREFIX
    return cache_salt, tuple(ids[:MIN_SHARED_PREFIX]) if whole else ()


def common_prefix(left: Sequence[int], right: Sequence[int], limit: int) -> int:
    """Return how many leading ids two lists have in common, `limit` at most."""
    high = min(len(left), len(right), limit)
    if high <= 0 or left[0] != right[0]:
        return 0
    if left[:high] == right[:high]:
        return high
    # Bisection by comparing slices: much faster than a loop over ids in Python.
    low = 1
    while high - low > 1:  # the first `low` ids are equal, the first `high` are not
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low
