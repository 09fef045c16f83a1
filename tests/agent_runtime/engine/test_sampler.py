"""The sampler contract, by torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from agent_runtime.engine import sampler  # noqa: E402
from agent_runtime.engine.generation import SampledTokens  # noqa: E402
from agent_runtime.engine.sampler import sample  # noqa: E402
from agent_runtime.policies import Sampling  # noqa: E402
from tests.agent_runtime.engine.sampler_contract import SamplerContract  # noqa: E402

pytestmark = pytest.mark.torch


class TestTorch(SamplerContract):
    def sample(
        self, logits: Any, settings: Sequence[Sampling], uniforms: Sequence[float]
    ) -> SampledTokens:
        return sample(torch.tensor(logits), settings, uniforms)


def test_running_sums_of_a_large_batch_are_made_in_parts_and_draw_the_same(monkeypatch) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(37, 500, generator=generator)
    settings = [Sampling(temperature=1.0, top_p=0.9 if row % 3 else 1.0) for row in range(37)]
    uniforms = torch.rand(37, generator=generator).tolist()
    whole = sample(logits, settings, uniforms)
    largest, original = [0], torch.Tensor.cumsum

    def measure(tensor, *arguments, dtype=None):
        largest[0] = max(largest[0], tensor.numel())
        return original(tensor, *arguments, dtype=dtype)

    monkeypatch.setattr(torch.Tensor, "cumsum", measure)
    monkeypatch.setattr(sampler, "_SUMS_AT_ONCE", 2000)
    assert sample(logits, settings, uniforms) == whole
    assert largest[0] == 2000
