"""The sampler contract, by torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

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
