"""From logits to tokens: what every backend's sampler does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from agent_runtime.engine.generation import SampledTokens
from agent_runtime.policies import Sampling

LOGITS = [0.5, 2.0, -1.0, 1.5, 0.0, -30.0]
ROWS = 4000


def softmax(values: dict[int, float]) -> dict[int, float]:
    total = sum(math.exp(value) for value in values.values())
    return {token: math.exp(value) / total for token, value in values.items()}


class SamplerContract:
    """Inherit, and say how the backend samples."""

    def sample(
        self, logits: Any, settings: Sequence[Sampling], uniforms: Sequence[float]
    ) -> SampledTokens:
        """Sample of rows of logits, given as lists or an array."""
        raise NotImplementedError

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
    def test_tokens_are_drawn_in_their_proportion(
        self, settings: Sampling, tokens: list[int]
    ) -> None:
        uniforms = [(row + 0.5) / ROWS for row in range(ROWS)]
        ids, _, _ = self.sample([LOGITS] * ROWS, [settings] * ROWS, uniforms)
        shares = {token: count / ROWS for token, count in Counter(ids).items()}
        expected = softmax({token: LOGITS[token] / settings.temperature for token in tokens})
        assert shares == pytest.approx(expected, abs=2 / ROWS)

    def test_greedy_rows_take_the_likeliest(self) -> None:
        ids, logprobs, _ = self.sample([LOGITS], [Sampling(temperature=0)], [0.999])
        assert ids == [1]
        assert logprobs == pytest.approx([math.log(softmax(dict(enumerate(LOGITS)))[1])])

    def test_logprobs_are_of_the_whole_distribution_at_the_temperature(self) -> None:
        ids, logprobs, _ = self.sample([LOGITS], [Sampling(temperature=0.5, top_k=2)], [0.99])
        whole = softmax({token: value / 0.5 for token, value in enumerate(LOGITS)})
        assert ids == [3]
        assert logprobs == pytest.approx([math.log(whole[3])])

    def test_a_row_is_sampled_alike_in_any_company(self) -> None:
        kinds = [
            Sampling(),
            Sampling(temperature=0),
            Sampling(temperature=0.7),
            Sampling(top_k=2),
            Sampling(temperature=0.7, top_p=0.9),
            Sampling(temperature=1.3, top_p=0.6),
            Sampling(temperature=1.3, top_k=3),
        ]
        logits = np.random.default_rng(3).standard_normal((len(kinds), 50)).astype(np.float32)
        uniforms = [0.1, 0.9, 0.2, 0.7, 0.83, 0.4, 0.97]
        ids, logprobs, entropies = self.sample(logits, kinds, uniforms)
        for row, kind in enumerate(kinds):
            alone = self.sample(logits[[row]], [kind], [uniforms[row]])
            assert alone.ids == [ids[row]]
            assert alone.logprobs == pytest.approx([logprobs[row]], abs=1e-6)
            assert alone.entropies == pytest.approx([entropies[row]], abs=1e-5)

    @pytest.mark.parametrize(
        "settings",
        [Sampling(), Sampling(temperature=0), Sampling(temperature=2.0), Sampling(top_k=1)],
    )
    def test_entropies_are_of_the_whole_distribution_at_the_temperature(
        self, settings: Sampling
    ) -> None:
        scaled = {token: it / (settings.temperature or 1) for token, it in enumerate(LOGITS)}
        expected = -sum(p * math.log(p) for p in softmax(scaled).values())
        assert self.sample([LOGITS], [settings], [0.5]).entropies == pytest.approx([expected])

    @pytest.mark.parametrize("number", [0.0, 1 - 2**-48])
    @pytest.mark.parametrize("settings", [Sampling(), Sampling(top_k=2)])
    def test_extreme_numbers_never_draw_what_cannot_be(
        self, number: float, settings: Sampling
    ) -> None:
        logits = [[-math.inf, 1.0, 1.0, -math.inf]]
        (token,), (logprob,), (entropy,) = self.sample(logits, [settings], [number])
        assert token in (1, 2)
        assert logprob == pytest.approx(math.log(0.5))
        assert entropy == pytest.approx(math.log(2))

    @pytest.mark.parametrize("settings", [Sampling(), Sampling(temperature=0), Sampling(top_p=0.5)])
    def test_logits_that_are_no_numbers_give_no_logprob(self, settings: Sampling) -> None:
        logits = [[0.0, math.nan, 1.0], [0.0, 1.0, 2.0]]
        ids, (bad, good), _ = self.sample(logits, [settings] * 2, [0.4, 0.4])
        assert not math.isfinite(bad)
        assert math.isfinite(good)
        assert settings.temperature or ids[1] == 2
