"""Which sequences meet in which step and micro-batch: a pure function of lengths and a seed.

Invariants: every sequence occurs exactly once per epoch; a step depends on the seed, the epoch and
the lengths alone, so a resumed run continues with the very next step; the number of processes
decides who computes a micro-batch, not which sequences a step holds.

A micro-batch is a list of whole sequences laid end to end without padding. Attention stays within
each (`trainer.attention`), so sequences that are packed together do not see each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchConfig", "EpochPlan", "MicroBatch", "Step", "local_micro_batches", "plan_epoch"]

Indices = NDArray[np.int64]
MicroBatch = tuple[int, ...]
"""Indices of the sequences that are laid end to end."""
Step = tuple[MicroBatch, ...]
"""The micro-batches whose gradients are summed before the weights change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """How an epoch is cut into steps, and a step into micro-batches."""

    sequences: int = 32
    """Sequences per step over all processes; 0 = steps are counted in tokens."""
    tokens: int = 0
    """Tokens per step over all processes, at most; used where `sequences` is 0."""
    micro_tokens: int = 0
    """Most tokens computed at once on one device, or the longest sequence's where that is more;
    0 = `data.context`. Decides memory, and never the result where `sequences` is set."""
    packing: bool = True
    """Several sequences in one micro-batch; false = one each."""
    length_window: int = 0
    """Sort by length within this many steps, so that the sequences of a step are of similar
    length; 0 = off. The order of steps stays random."""
    shuffle: bool = True

    def __post_init__(self) -> None:
        if (self.sequences > 0) == (self.tokens > 0):
            raise ValueError("set either sequences or tokens, and the other to 0")
        if min(self.sequences, self.tokens, self.micro_tokens, self.length_window) < 0:
            raise ValueError("sequences, tokens, micro_tokens and length_window are at least 0")


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The steps of one epoch."""

    steps: tuple[Step, ...]

    def __len__(self) -> int:
        return len(self.steps)


def plan_epoch(
    lengths: NDArray[np.int32], config: BatchConfig, *, capacity: int, seed: int, epoch: int
) -> EpochPlan:
    """Plan the steps of an epoch.

    Args:
        lengths: Tokens of each sequence; none is longer than `capacity`.
        config: How the epoch is cut.
        capacity: Tokens of a micro-batch.
        seed: Of the order.
        epoch: Counted from 0; each has an order of its own.
    """
    generator = np.random.Generator(np.random.Philox(key=[seed % 2**64, epoch]))
    count = len(lengths)
    order: Indices = generator.permutation(count) if config.shuffle else np.arange(count)
    if config.tokens:
        return EpochPlan(_steps_by_tokens(order, lengths, config, capacity, generator))
    if config.length_window:
        order = _sort_windows(order, lengths, config.sequences * config.length_window)
    size = config.sequences
    steps: list[Indices] = [order[start : start + size] for start in range(0, count, size)]
    if config.length_window and config.shuffle:
        steps = [steps[index] for index in generator.permutation(len(steps))]
    return EpochPlan(tuple(_pack(step, lengths, capacity, config.packing) for step in steps))


def _sort_windows(order: Indices, lengths: NDArray[np.int32], window: int) -> Indices:
    parts = [order[start : start + window] for start in range(0, len(order), window)]
    return np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])


def _steps_by_tokens(
    order: Indices,
    lengths: NDArray[np.int32],
    config: BatchConfig,
    capacity: int,
    generator: np.random.Generator,
) -> tuple[Step, ...]:
    """Fill micro-batches from windows of the shuffled order, then cut these into steps."""
    per_step = max(1, config.tokens // capacity)
    # Packing needs sequences to choose from; of a whole epoch at once it would sort all the long
    # ones to the front.
    window = max(256, 8 * per_step)
    micro_batches: list[MicroBatch] = []
    for start in range(0, len(order), window):
        micro_batches += _pack(order[start : start + window], lengths, capacity, config.packing)
    if config.shuffle:
        micro_batches = [
            micro_batches[index] for index in generator.permutation(len(micro_batches))
        ]
    return tuple(
        tuple(micro_batches[start : start + per_step])
        for start in range(0, len(micro_batches), per_step)
    )


def _pack(order: Indices, lengths: NDArray[np.int32], capacity: int, packing: bool) -> Step:
    """Pack by best fit, longest first: each sequence goes where the least room stays free."""
    indices = [int(index) for index in order]
    if not packing:
        return tuple((index,) for index in indices)
    micro_batches: list[list[int]] = []
    room = np.zeros(len(indices), np.int64)
    full = np.iinfo(np.int64).max
    for index in sorted(indices, key=lambda index: -int(lengths[index])):
        length = int(lengths[index])
        open_room = room[: len(micro_batches)]
        fitting = np.where(open_room >= length, open_room, full)
        best = int(fitting.argmin()) if micro_batches else 0
        if not micro_batches or fitting[best] == full:
            room[len(micro_batches)] = capacity
            micro_batches.append([])
            best = len(micro_batches) - 1
        micro_batches[best].append(index)
        room[best] -= length
    return tuple(map(tuple, micro_batches))


def local_micro_batches(
    step: Step, rank: int, world_size: int, lengths: NDArray[np.int32]
) -> list[MicroBatch]:
    """Return the micro-batches of one process: all get equally many, the last ones may be empty.

    Long ones are dealt first, in turns of alternating direction, so that processes finish together.
    """
    costs = [sum(int(lengths[index]) for index in micro_batch) for micro_batch in step]
    by_cost = sorted(range(len(step)), key=lambda number: -costs[number])
    local: list[MicroBatch] = []
    for turn in range(-(-len(step) // world_size)):
        dealt = by_cost[turn * world_size : (turn + 1) * world_size]
        seat = rank if turn % 2 == 0 else world_size - 1 - rank
        local.append(step[dealt[seat]] if seat < len(dealt) else ())
    return local
