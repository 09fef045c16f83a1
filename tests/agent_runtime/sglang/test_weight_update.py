"""What a weight update may say, before any engine is asked."""

from __future__ import annotations

import pytest

from agent_runtime.endpoint import Endpoint
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.sglang.engines import EngineGroup, WeightUpdate
from agent_runtime.sglang.tensors import WeightTensors


class _Handle:
    """Stands where a tensor would; nobody may look at it."""


def _tensors() -> WeightTensors:
    return WeightTensors({"lm_head.weight": _Handle()})  # type: ignore[dict-item]


def test_weights_come_from_one_place() -> None:
    with pytest.raises(ValueError, match="one of them"):
        WeightUpdate(version="v1")
    with pytest.raises(ValueError, match="one of them"):
        WeightUpdate(version="v1", path="/checkpoint", tensors=_tensors())


def test_no_tensors_are_no_weights() -> None:
    with pytest.raises(ValueError, match="state_dict"):
        WeightTensors({})


async def test_tensors_are_not_handed_to_another_machine() -> None:
    front = Endpoint("http://192.0.2.1:30000", timeout=1.0, concurrency=1)
    group = EngineGroup(front, lambda url: front, recovery=0.0)
    group._clients = {front.base_url: front}  # type: ignore[reportPrivateUsage]  # what discovery finds
    with pytest.raises(PolicyMisconfigured, match="another one"):
        await group.update(WeightUpdate(version="v1", tensors=_tensors()))
