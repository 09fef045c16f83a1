"""From logits to tokens, without torch."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from agent_runtime.engine.sampler_numpy import sample
from agent_runtime.policies import Sampling

LOGITS = [0.5, 2.0, -1.0, 1.5, 0.0, -30.0]
ROWS = 4000


def shares(settings: Sampling) -> dict[int, float]:
    """How often each token is drawn over evenly spread numbers."""
    uniforms = [(row + 0.5) / ROWS for row in range(ROWS)]
    ids, _ = sample(np.array([LOGITS] * ROWS, np.float32), [settings] * ROWS, uniforms)
    return {token: count / ROWS for token, count in Counter(ids).items()}


def softmax(values: dict[int, float]) -> dict[int, float]:
    total = sum(math.exp(value) for value in values.values())
    return {token: math.exp(value) / total for token, value in values.items()}


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        (Sampling(), [0, 1, 2, 3, 4]),
        (Sampling(temperature=0.5), [0, 1, 2, 3, 4]),
        (Sampling(temperature=2.0), [0, 1, 2, 3, 4]),
        (Sampling(top_k=2), [1, 3]),
        (Sampling(top_k=1), [1]),
        (Sampling(top_k=100), [0, 1, 2, 3, 4]),
        (Sampling(top_p=0.4), [1]),
        (Sampling(top_p=0.7), [1, 3]),
        (Sampling(top_k=3, top_p=0.85), [1, 3]),
        (Sampling(top_p=1e-9), [1]),
    ],
)
def test_tokens_are_drawn_in_their_proportion(settings: Sampling, tokens: list[int]) -> None:
    expected = softmax({token: LOGITS[token] / settings.temperature for token in tokens})
    assert shares(settings) == pytest.approx(expected, abs=2 / ROWS)


def test_a_row_is_sampled_alike_in_any_company() -> None:
    settings = [
        Sampling(temperature=0),
        Sampling(temperature=0.7),
        Sampling(top_k=2),
        Sampling(top_p=0.6, temperature=1.3),
    ]
    draw = np.random.default_rng(3)
    logits = draw.standard_normal((4, 50)).astype(np.float32)
    uniforms = [0.9, 0.2, 0.7, 0.4]
    together = sample(logits, settings, uniforms)
    for row in range(4):
        ids, logprobs = sample(logits[[row]], [settings[row]], [uniforms[row]])
        assert ids == together[0][row : row + 1]
        assert logprobs == pytest.approx(together[1][row : row + 1], abs=1e-6)


def test_logprobs_are_of_the_whole_distribution_at_the_temperature() -> None:
    logits = np.array([LOGITS], np.float32)
    ids, logprobs = sample(logits, [Sampling(temperature=0.5, top_k=2)], [0.99])
    whole = softmax({token: value / 0.5 for token, value in enumerate(LOGITS)})
    assert ids == [3]
    assert logprobs == pytest.approx([math.log(whole[3])], abs=1e-5)


def test_rows_without_numbers_give_a_logprob_that_is_none() -> None:
    logits = np.array([[0.0, math.nan], [0.0, 1.0]], np.float32)
    ids, logprobs = sample(logits, [Sampling(temperature=0)] * 2, [0, 0])
    assert not math.isfinite(logprobs[0])
    assert ids[1] == 1
    assert math.isfinite(logprobs[1])
