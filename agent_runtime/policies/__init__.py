"""Policies: what they are, how they are set up, and which there are.

Importing this package loads no HTTP client and no tokenizer; `make_policy` loads what the chosen
policy needs.
"""

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.policies.base import (
    Completion,
    EpisodeContext,
    LiveEpisode,
    Policy,
    PolicySession,
    TrainablePolicy,
)
from agent_runtime.policies.config import (
    OpenAIOptions,
    PolicyConfig,
    SGLangOptions,
)
from agent_runtime.policies.registry import (
    POLICY_FORMS,
    PolicySpec,
    make_policy,
    policy_code,
)
from agent_runtime.request_retry import RequestRetry
from agent_runtime.sampling import FinishReason, Sampling
from agent_runtime.spending import Pricing

__all__ = [
    "POLICY_FORMS",
    "Completion",
    "EmbeddedOptions",
    "EpisodeContext",
    "FinishReason",
    "LiveEpisode",
    "OpenAIOptions",
    "Policy",
    "PolicyConfig",
    "PolicySession",
    "PolicySpec",
    "Pricing",
    "RequestRetry",
    "SGLangOptions",
    "Sampling",
    "TrainablePolicy",
    "make_policy",
    "policy_code",
]
