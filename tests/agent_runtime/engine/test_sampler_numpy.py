"""The sampler contract, by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agent_runtime.engine.generation import SampledTokens
from agent_runtime.engine.sampler_numpy import sample
from agent_runtime.policies import Sampling
from tests.agent_runtime.engine.sampler_contract import SamplerContract


class TestNumpy(SamplerContract):
    def sample(
        self, logits: Any, settings: Sequence[Sampling], uniforms: Sequence[float]
    ) -> SampledTokens:
        return sample(np.array(logits, np.float32), settings, uniforms)
