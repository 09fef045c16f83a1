"""Which sequences meet in which step and micro-batch: a pure function of lengths and a seed.

Owns the order of an epoch. Its invariants: every sequence occurs exactly once per epoch; a step
depends on the seed, the epoch and the lengths alone, so a resumed run goes on with the very next
step; the number of processes decides who computes a micro-batch, not which sequences a step holds.

A micro-batch is a list of whole sequences laid end to end without padding; attention stays within
each (`trainer.attention`), so what is packed together never meets. Knows no tokens and no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchConfig", "EpochPlan", "MicroBatch", "Step", "local_micro_batches", "plan_epoch"]

MicroBatch = tuple[int, ...]
"""Numbers of the sequences that are laid end to end."""
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
    """Tokens computed at once on one device, at most, or the longest sequence's where that is more;
    0 = `data.context`. Decides memory, and never the result where `sequences` is set."""
    packing: bool = True
    """Several sequences in one micro-batch; false = one each."""
    length_window: int = 0
    """Sort by length within so many steps, so that the sequences of a step are of similar length;
    0 = off. The order of steps stays random."""
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
    """The steps of an epoch. `capacity` = tokens of a micro-batch; no length may exceed it."""
    draw = np.random.Generator(np.random.Philox(key=[seed % 2**64, epoch]))
    count = len(lengths)
    order = draw.permutation(count) if config.shuffle else np.arange(count)
    if config.tokens:
        return EpochPlan(_by_tokens(order, lengths, config, capacity, draw))
    if config.length_window:
        order = _sorted_windows(order, lengths, config.sequences * config.length_window)
    size = config.sequences
    steps = [order[at : at + size] for at in range(0, count, size)]
    if config.length_window and config.shuffle:
        steps = [steps[at] for at in draw.permutation(len(steps))]
    return EpochPlan(tuple(_pack(step, lengths, capacity, config.packing) for step in steps))


def _sorted_windows(
    order: NDArray[np.int64], lengths: NDArray[np.int32], window: int
) -> NDArray[np.int64]:
    parts = [order[at : at + window] for at in range(0, len(order), window)]
    return np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])


def _by_tokens(
    order: NDArray[np.int64],
    lengths: NDArray[np.int32],
    config: BatchConfig,
    capacity: int,
    draw: np.random.Generator,
) -> tuple[Step, ...]:
    """Full micro-batches first, from windows of the shuffled order; then steps of so many."""
    per_step = max(1, config.tokens // capacity)
    window = max(256, 8 * per_step)
    rows: list[MicroBatch] = []
    for at in range(0, len(order), window):
        rows += _pack(order[at : at + window], lengths, capacity, config.packing)
    if config.shuffle:
        rows = [rows[at] for at in draw.permutation(len(rows))]
    return tuple(tuple(rows[at : at + per_step]) for at in range(0, len(rows), per_step))


def _pack(
    chosen: Sequence[int] | NDArray[np.int64],
    lengths: NDArray[np.int32],
    capacity: int,
    packing: bool,
) -> Step:
    """Best fit, longest first: each sequence goes where the least room stays free."""
    numbers = [int(it) for it in chosen]
    if not packing:
        return tuple((it,) for it in numbers)
    rows: list[list[int]] = []
    room = np.zeros(len(numbers), np.int64)
    for number in sorted(numbers, key=lambda it: -int(lengths[it])):
        need = int(lengths[number])
        open_room = room[: len(rows)]
        fitting = np.where(open_room >= need, open_room, np.iinfo(np.int64).max)
        best = int(fitting.argmin()) if len(rows) else 0
        if not rows or fitting[best] == np.iinfo(np.int64).max:
            room[len(rows)] = capacity
            rows.append([])
            best = len(rows) - 1
        rows[best].append(number)
        room[best] -= need
    return tuple(map(tuple, rows))


def local_micro_batches(
    step: Step, rank: int, world_size: int, lengths: NDArray[np.int32]
) -> list[MicroBatch]:
    """The micro-batches of one process: all get equally many, the last ones may be empty.

    Long ones are dealt first, forth and back, so that processes finish together.
    """
    costs = [sum(int(lengths[it]) for it in micro) for micro in step]
    ranked = sorted(range(len(step)), key=lambda at: -costs[at])
    rounds = -(-len(step) // world_size)
    mine: list[MicroBatch] = []
    for turn in range(rounds):
        dealt = ranked[turn * world_size : (turn + 1) * world_size]
        place = rank if turn % 2 == 0 else world_size - 1 - rank
        mine.append(step[dealt[place]] if place < len(dealt) else ())
    return mine
