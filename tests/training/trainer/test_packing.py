from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.trainer.packing import BatchConfig, local_micro_batches, plan_epoch

LENGTHS = st.lists(st.integers(1, 100), min_size=1, max_size=60).map(
    lambda it: np.array(it, np.int32)
)
CONFIGS = st.one_of(
    st.builds(
        BatchConfig,
        sequences=st.integers(1, 12),
        packing=st.booleans(),
        length_window=st.integers(0, 3),
        shuffle=st.booleans(),
    ),
    st.builds(BatchConfig, sequences=st.just(0), tokens=st.integers(1, 500)),
)


def plan(lengths, config, *, seed=1, epoch=0, capacity=100):
    return plan_epoch(lengths, config, capacity=capacity, seed=seed, epoch=epoch)


@given(LENGTHS, CONFIGS)
@settings(max_examples=80, deadline=None)
def test_every_sequence_is_met_once_and_no_micro_batch_overflows(lengths, config) -> None:
    steps = plan(lengths, config).steps
    met = Counter(number for step in steps for micro in step for number in micro)
    assert met == Counter(range(len(lengths)))
    for step in steps:
        for micro in step:
            assert micro and (lengths[list(micro)].sum() <= 100 or len(micro) == 1)


@given(LENGTHS, st.integers(1, 12), st.integers(100, 400))
@settings(max_examples=40, deadline=None)
def test_the_micro_batch_size_never_changes_what_a_step_holds(lengths, size, capacity) -> None:
    config = BatchConfig(sequences=size)
    small, large = plan(lengths, config), plan(lengths, config, capacity=capacity)
    for one, other in zip(small.steps, large.steps, strict=True):
        assert sorted(it for micro in one for it in micro) == sorted(
            it for micro in other for it in micro
        )


@given(LENGTHS, CONFIGS, st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_processes_share_a_step_without_loss_and_in_equal_numbers(
    lengths, config, world_size
) -> None:
    for step in plan(lengths, config).steps:
        parts = [local_micro_batches(step, rank, world_size, lengths) for rank in range(world_size)]
        assert len({len(part) for part in parts}) == 1
        assert Counter(micro for part in parts for micro in part if micro) == Counter(step)


def test_the_order_follows_from_seed_and_epoch() -> None:
    lengths, config = np.arange(1, 65, dtype=np.int32), BatchConfig(sequences=8)
    assert plan(lengths, config) == plan(lengths, config)
    assert plan(lengths, config) != plan(lengths, config, seed=2)
    assert plan(lengths, config) != plan(lengths, config, epoch=1)


def test_length_windows_bring_similar_lengths_together() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 256).astype(np.int32)

    def spread(window: int) -> float:
        steps = plan(lengths, BatchConfig(sequences=8, length_window=window)).steps
        return float(np.mean([np.ptp([lengths[it] for m in step for it in m]) for step in steps]))

    assert spread(8) < spread(0) / 3


def test_token_steps_are_filled_well() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 1000).astype(np.int32)
    steps = plan(lengths, BatchConfig(sequences=0, tokens=800), capacity=200).steps
    rows = [lengths[list(micro)].sum() for step in steps for micro in step]
    assert all(len(step) == 4 for step in steps[:-1])
    assert sum(rows) / (200 * len(rows)) > 0.97


@pytest.mark.parametrize("values", [{"sequences": 0}, {"sequences": 2, "tokens": 5}])
def test_a_step_is_counted_in_one_unit(values: dict) -> None:
    with pytest.raises(ValueError, match="either sequences or tokens"):
        BatchConfig(**values)
