"""Which record stands for a key that more than one store of a run has a record of.

A key is played once, but who holds it may die, or only seem to: another worker plays it then, and
both may have stored what they played. `Candidate` says which of them counts; here it is kept in
mind, as stores grow and come, for which keys that has to be asked. A record that another one stands
before never counts again: what failed gives way to what came later, in its own store, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from orchestrator.records import EpisodeKey
from orchestrator.store_reader import Candidate, StoreReader

__all__ = ["DoubledKeys"]


class DoubledKeys:
    """The keys that more than one store of a run has."""

    def __init__(self) -> None:
        self.candidates: dict[EpisodeKey, dict[str, Candidate]] = {}
        """Of the keys that two stores or more have a record of: by store."""
        self.beaten: list[tuple[str, str]] = []
        """Store and episode id of the records that another store's stands before, each once, in
        the order in which that was found."""
        self._beaten: defaultdict[str, set[str]] = defaultdict(set)
        # Hashes in place of keys: a tenth of the memory. Two keys of one hash cost a look, no more.
        self._seen: set[int] = set()
        self._read: dict[str, tuple[int, Any]] = {}
        """By store the newest row that was seen, and its key."""

    def update(self, stores: Mapping[str, StoreReader]) -> dict[str, int]:
        """Look at what is new; returns the newest row of each store that was looked at."""
        bounds = {name: store.last_row() for name, store in stores.items()}
        for name, store in stores.items():
            first, known = self._read.get(name, (1, None))
            # The newest row once more: where it failed, a later attempt may have its number.
            for row, *columns in store.keys(first, bounds[name]):
                key = tuple(columns)
                if row == first and key == known:
                    if key in self.candidates:
                        self._compare(EpisodeKey(*columns), stores, bounds)
                    continue
                before = len(self._seen)
                self._seen.add(hash(key))
                if len(self._seen) == before:
                    self._compare(EpisodeKey(*columns), stores, bounds)
                if row == bounds[name]:
                    known = key
            self._read[name] = (bounds[name], known)
        return bounds

    def _compare(
        self, key: EpisodeKey, stores: Mapping[str, StoreReader], bounds: Mapping[str, int]
    ) -> None:
        found = {
            name: candidate
            for name, store in stores.items()
            if (candidate := store.candidate(key, bounds[name])) is not None
        }
        if len(found) < 2:
            return
        self.candidates[key] = found
        best = self.standing(key)
        for name, candidate in found.items():
            if name != best and candidate.episode_id not in self._beaten[name]:
                self._beaten[name].add(candidate.episode_id)
                self.beaten.append((name, candidate.episode_id))

    def standing(self, key: EpisodeKey) -> str:
        """Return the store whose record stands for a doubled key."""
        found = self.candidates[key]
        return min(found, key=lambda name: (found[name], name))

    def stands(self, key: EpisodeKey, episode_id: str) -> bool:
        """Tell whether an attempt is the record of a doubled key."""
        found = self.candidates.get(key)
        return found is not None and found[self.standing(key)].episode_id == episode_id

    def beaten_in(self, store: str) -> frozenset[str]:
        """Return the ids of a store's records that another store's stands before, as of now."""
        return frozenset(self._beaten[store])

    def surplus(self) -> int:
        """Return how many records there are more than keys."""
        return sum(len(found) - 1 for found in self.candidates.values())
