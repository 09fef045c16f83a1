"""Records of groups as workers of a cluster told them, until a step has read them.

What workers record grows on other machines, where SQLite may be read by nobody else meanwhile. It
is durable there before it is told; kept here is a second copy, which dies with this process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentgym.episode.v1 import episode_pb2
from orchestrator.records import EpisodeKey, decode

__all__ = ["ToldRecords"]


class ToldRecords:
    """Records as stores keep them, by the number of their group."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[EpisodeKey, bytes]] = {}

    def note(self, number: int, key: EpisodeKey, record: bytes) -> None:
        """Keep an episode of a group; once for each key."""
        self._groups.setdefault(number, {})[key] = record

    def take(self, numbers: Sequence[int]) -> list[episode_pb2.Episode]:
        """Return the episodes of groups in the order of their numbers and keys, and forget them."""
        groups = (self._groups.pop(number, {}) for number in numbers)
        return [decode(group[key]) for group in groups for key in sorted(group)]

    def forget(self, numbers: Collection[int]) -> None:
        """Drop groups that nobody will read."""
        for number in self._groups.keys() & set(numbers):
            del self._groups[number]
