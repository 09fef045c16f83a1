"""Pairs of episodes of the same instruction, one better than the other.

Owns which records meet: those of one item whose rewards lie far enough apart, the better one being
good enough. A record may have several sequences (where a template rewrote history); it counts as a
whole or not at all. Equal datasets give equal pairs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from training.data.dataset import TokenDataset
from training.errors import NothingToTrainOn

__all__ = ["Pair", "PairConfig", "find_pairs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConfig:
    """What makes a pair. The defaults are those of the original's DPO script."""

    min_gap: float = 0.1
    """Least difference of the two rewards."""
    min_best: float = 0.9
    """Least reward of the better one."""
    reward_scale: dict[str, float] = field(default_factory=dict[str, float])
    """Environment -> the reward that counts as 1, before the two bounds; default 1."""
    per_item: Literal["extremes", "all"] = "extremes"
    """extremes: the best and the worst record of an item; all: every pair that meets the bounds."""

    def __post_init__(self) -> None:
        if self.min_gap <= 0:
            raise ValueError("min_gap is above 0")
        if any(scale <= 0 for scale in self.reward_scale.values()):
            raise ValueError("reward_scale is above 0")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two records of an item, as numbers of sequences in the dataset."""

    environment: str
    item_id: str
    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    gap: float
    """Difference of the scaled rewards."""


@dataclass(slots=True)
class _Record:
    reward: float
    sequences: list[int]


def find_pairs(dataset: TokenDataset, config: PairConfig) -> list[Pair]:
    """Return the pairs of a dataset, in the order of their items' first records.

    Raises:
        NothingToTrainOn: There is no pair.
    """
    incomplete = {entry["name"] for entry in dataset.left_out()}
    items: dict[tuple[str, str], dict[tuple[str, str], _Record]] = defaultdict(dict)
    for number, origin in enumerate(dataset.origins()):
        if origin.reward is None or origin.name in incomplete:
            continue
        scaled = origin.reward / config.reward_scale.get(origin.environment, 1.0)
        records = items[origin.environment, origin.item_id]
        record = records.setdefault((origin.source, origin.name), _Record(scaled, []))
        record.sequences.append(number)
    pairs = [
        Pair(environment, item, tuple(best.sequences), tuple(worst.sequences), gap)
        for (environment, item), records in items.items()
        for best, worst, gap in _pair_records(list(records.values()), config)
    ]
    if not pairs:
        several = sum(len(records) > 1 for records in items.values())
        raise NothingToTrainOn(
            f"no two records of an item are far enough apart ({len(items)} items with a reward, "
            f"{several} with several records): sample more per item, or lower pairs.min_gap or "
            "pairs.min_best",
            field="pairs",
        )
    return pairs


def _pair_records(
    records: list[_Record], config: PairConfig
) -> list[tuple[_Record, _Record, float]]:
    """Return better, worse and the gap. Among equals the earlier record stands for all."""
    best = max(records, key=attrgetter("reward"))
    worst = min(records, key=attrgetter("reward"))
    choices = (
        [(best, worst)]
        if config.per_item == "extremes"
        else [(one, other) for one in records for other in records]
    )
    return [
        (one, other, one.reward - other.reward)
        for one, other in choices
        if one.reward - other.reward >= config.min_gap and one.reward >= config.min_best
    ]
