"""One interface for weights and probabilities, whatever computes."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies import PolicyConfig, TrainablePolicy, make_policy
from agent_runtime.policies.embedded import EmbeddedPolicy
from agent_runtime.policies.sglang import SGLangPolicy
from tests.agent_runtime.tiny_arrays import save_chat_model


@pytest.mark.parametrize("kind", [EmbeddedPolicy, SGLangPolicy])
@pytest.mark.parametrize("method", ["update_weights", "score"])
def test_the_signatures_are_the_same(kind: type[TrainablePolicy], method: str) -> None:
    expected = inspect.signature(getattr(TrainablePolicy, method))
    assert inspect.signature(getattr(kind, method)) == expected


def test_scripted_policies_are_not_trainable() -> None:
    assert not isinstance(make_policy("expert", PolicyConfig()), TrainablePolicy)


async def test_the_embedded_engine_refuses_to_wait_for_replies(tmp_path: Path) -> None:
    folder = save_chat_model(tmp_path / "model")
    policy = make_policy(f"embedded:{folder}", PolicyConfig())
    assert isinstance(policy, TrainablePolicy)
    with pytest.raises(PolicyMisconfigured, match="in_place, retract or abort"):
        await policy.update_weights(folder, version="v1", interrupt="finish")
