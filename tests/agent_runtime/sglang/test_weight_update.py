"""What a weight update may say, before any engine is asked."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.endpoint import Endpoint
from agent_runtime.errors import PolicyMisconfigured, PolicyRejected
from agent_runtime.sglang.engines import EngineGroup, WeightUpdate
from agent_runtime.sglang.fronts import Fronts
from agent_runtime.sglang.health import EngineInfo, GroupHealth
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
    front = Endpoint("http://192.0.2.1:30000", timeout=1.0)
    group = EngineGroup(Fronts(front.base_url, lambda _: front), lambda _: front, recovery=0.0)
    group._clients = {front.base_url: front}  # type: ignore[reportPrivateUsage]  # what discovery finds
    with pytest.raises(PolicyMisconfigured, match="another one"):
        await group.update(WeightUpdate(version="v1", tensors=_tensors()))


async def test_an_engine_gets_one_update_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recovery's retry of a bad update does not meet the good one that comes after it."""
    front = Endpoint("http://192.0.2.1:30000", timeout=1.0)
    group = EngineGroup(Fronts(front.base_url, lambda _: front), lambda _: front, recovery=60.0)
    addresses = (front.base_url,)
    group._clients = {front.base_url: front}  # type: ignore[reportPrivateUsage]  # what discovery finds
    group._updating = {front.base_url: asyncio.Lock()}  # type: ignore[reportPrivateUsage]
    group.health = GroupHealth(addresses)
    running = most = 0

    async def replace(_: Endpoint, update: WeightUpdate) -> EngineInfo:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        if update.path == "/no/such":
            raise PolicyRejected("there is no such folder")
        return EngineInfo("boot", update.version)

    async def probe() -> None:
        return

    monkeypatch.setattr(group, "_replace_weights", replace)
    monkeypatch.setattr(group, "probe", probe)
    await group.update(WeightUpdate(version="v0", path="/checkpoint"))
    with pytest.raises(PolicyRejected):
        await group.update(WeightUpdate(version="v1", path="/no/such"))
    await asyncio.sleep(0.02)  # the recovery is at it
    await group.update(WeightUpdate(version="v2", path="/checkpoint"))
    assert (most, group.health.versions) == (1, {"v2"})
    await group.close()
