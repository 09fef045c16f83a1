"""Which chunks of a step are attended to together, and over which cache slots.

Linear layers take all tokens of a step as one long list; attention needs rectangles. A group is one
rectangle: a row per slot, `width` tokens in each row, attending to `length` cached positions. Rows
of neighbouring slots are a view of the cache; other rows have to be copied out of it, so a few
unused rows between them are cheaper than a copy. Invariant: every chunk is in exactly one group.

Episodes of one environment begin with the same instruction, which each slot holds a copy of. A
group whose rows begin alike may read that beginning from one slot for all of them, once.

Pure: no tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from agent_runtime.engine.scheduling import Chunk, common_prefix

__all__ = ["Group", "SharedPrefix", "group_chunks"]

_GATHER_COST: Final = 3
"""Cost of copying a row out of the cache and reading the copy, relative to reading it in place."""
_LENGTH_MULTIPLE: Final = 16
"""Lengths are rounded up to a multiple of this: aligned rows, fewer different shapes."""
_LEAST_SHARED: Final = 64
"""Positions; reading a shorter beginning once for all rows costs more calls than it saves."""
_BY_SLOT: Final = attrgetter("slot")


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A beginning that all contexts of a group have in common."""

    slot: int
    """A slot that holds it, as all of the group do."""
    count: int
    """Its positions, all before the first token of every chunk."""


@dataclass(frozen=True, slots=True)
class Group:
    """One rectangle of attention."""

    slots: Sequence[int]
    """Cache slot of each row; a `range` where the rows are neighbours in the cache."""
    rows: list[Chunk | None]
    """Chunk of each row; None = an unused row, computed and thrown away."""
    width: int
    """Tokens of the longest chunk."""
    length: int
    """Cached positions that the longest context needs, rounded up."""
    prefix: SharedPrefix | None = None


def group_chunks(
    chunks: Sequence[Chunk], capacity: int, *, share_prefixes: bool = False
) -> list[Group]:
    """Arrange all chunks of a step in groups.

    Args:
        chunks: What the step computes.
        capacity: Positions of a cache slot.
        share_prefixes: Make groups of contexts that begin alike. Equal ids under one salt have to
            have equal keys and values then.
    """
    groups: list[Group] = []
    for cluster, prefix in _cluster(chunks) if share_prefixes else [(chunks, None)]:
        groups += _group_cluster(cluster, capacity, prefix)
    return groups


def _cluster(chunks: Sequence[Chunk]) -> list[tuple[Sequence[Chunk], SharedPrefix | None]]:
    """Part chunks by how their contexts begin."""
    alone: list[Chunk] = []
    by_beginning: dict[tuple[str, tuple[int, ...]], list[Chunk]] = {}
    for chunk in chunks:
        generation = chunk.generation
        if chunk.start < _LEAST_SHARED:
            alone.append(chunk)
            continue
        beginning = (generation.request.cache_salt, tuple(generation.ids[:_LEAST_SHARED]))
        by_beginning.setdefault(beginning, []).append(chunk)
    clusters: list[tuple[Sequence[Chunk], SharedPrefix | None]] = []
    for cluster in by_beginning.values():
        if len(cluster) == 1:
            alone += cluster
            continue
        first = cluster[0]
        ids = first.generation.ids
        count = min([chunk.start for chunk in cluster])
        beginning = ids[:count]
        for chunk in cluster[1:]:
            # Nearly all of a cluster begin alike, and comparing is much faster than searching.
            if chunk.generation.ids[:count] != beginning:
                count = common_prefix(ids, chunk.generation.ids, count)
                beginning = ids[:count]
        count -= count % _LENGTH_MULTIPLE
        clusters.append((cluster, SharedPrefix(first.slot, count)))
    return [*clusters, (alone, None)] if alone else clusters


def _group_cluster(
    chunks: Sequence[Chunk], capacity: int, prefix: SharedPrefix | None
) -> list[Group]:
    chunks = sorted(chunks, key=_BY_SLOT)
    decoding = [chunk for chunk in chunks if chunk.count == 1]
    groups = _group_decoding(decoding, capacity, prefix) if decoding else []
    if len(decoding) == len(chunks):
        return groups
    prefilling = [chunk for chunk in chunks if chunk.count > 1]
    prefilling.sort(key=lambda chunk: -chunk.count)
    first = 0
    for index in range(1, len(prefilling) + 1):
        # Chunks come longest first: a new group where padding would more than double a row.
        if index == len(prefilling) or 2 * prefilling[index].count < prefilling[first].count:
            rows = sorted(prefilling[first:index], key=_BY_SLOT)
            groups.append(_make_group(rows, capacity, prefix))
            first = index
    return groups


def _group_decoding(
    chunks: Sequence[Chunk], capacity: int, prefix: SharedPrefix | None
) -> list[Group]:
    """Return the cheaper of two ways to decode chunks, which come in the order of their slots.

    Either all slots from the first to the last in place, or copies of rows, bucketed by length.
    """
    shared = prefix.count if prefix else 0
    slots = range(chunks[0].slot, chunks[-1].slot + 1)
    ends = [chunk.end for chunk in chunks]
    length = _round_up(max(ends), capacity)
    sizes = [(end - shared).bit_length() for end in ends]
    if min(sizes) != max(sizes) or len(slots) != len(chunks):
        buckets: dict[int, list[Chunk]] = {size: [] for size in sizes}
        for size, chunk in zip(sizes, chunks, strict=True):
            buckets[size].append(chunk)
        bucketed = [_make_group(bucket, capacity, prefix) for bucket in buckets.values()]
        cost = sum(
            len(group.rows)
            * (group.length - shared)
            * (1 if isinstance(group.slots, range) else _GATHER_COST)
            for group in bucketed
        )
        if len(slots) * (length - shared) > cost:
            return bucketed
    rows: list[Chunk | None] = [None] * len(slots)
    for chunk in chunks:
        rows[chunk.slot - slots.start] = chunk
    return [Group(slots, rows, 1, length, prefix)]


def _make_group(chunks: Sequence[Chunk], capacity: int, prefix: SharedPrefix | None) -> Group:
    """Make one group of chunks, which come in the order of their slots."""
    slots: Sequence[int] = range(chunks[0].slot, chunks[-1].slot + 1)
    if len(slots) != len(chunks):
        slots = [chunk.slot for chunk in chunks]
    width = max([chunk.count for chunk in chunks])
    length = _round_up(max([chunk.end for chunk in chunks]), capacity)
    return Group(slots, list(chunks), width, length, prefix)


def _round_up(length: int, capacity: int) -> int:
    return min(-(-length // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE, capacity)
