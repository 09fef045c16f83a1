"""The numbers that sampling draws."""

from __future__ import annotations

from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.engine.randomness import random_stream, uniform, uniforms


@given(seed=st.integers(-(2**70), 2**70), index=st.integers(0, 10**6))
def test_numbers_are_below_one_and_repeat(seed: int, index: int) -> None:
    number = uniform(seed, index)
    assert 0 <= number < 1
    assert number == uniform(seed, index)
    assert number * 3.0 < 3.0


@given(drawn=st.lists(st.tuples(st.integers(-(2**70), 2**70), st.integers(0, 10**6))))
def test_many_numbers_are_those_of_each(drawn: list[tuple[int, int]]) -> None:
    pytest.importorskip("numpy")
    streams = [random_stream(seed) for seed, _ in drawn]
    assert uniforms(streams, [index for _, index in drawn]) == [uniform(*each) for each in drawn]


def test_numbers_are_those_of_earlier_releases() -> None:
    assert [uniform(7, index).hex() for index in range(2)] == [
        "0x1.7169852efd560p-1",
        "0x1.3f45640f3de00p-3",
    ]


def test_neighbouring_seeds_and_indices_are_unrelated() -> None:
    by_seed = [uniform(seed, 0) for seed in range(2000)]
    by_index = [uniform(0, index) for index in range(2000)]
    for numbers in (by_seed, by_index):
        assert abs(mean(numbers) - 0.5) < 0.02
        lagged = mean((a - 0.5) * (b - 0.5) for a, b in zip(numbers, numbers[1:], strict=False))
        assert abs(lagged) < 0.01
    # (seed, index + 1) is not (seed + 1, index).
    assert not set(by_seed) & set(by_index[1:])
