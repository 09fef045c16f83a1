"""Weights through a process group with a fake engine, over gloo: what NCCL does between GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="weights are sent by torch")

from agent_runtime.errors import PolicyError, PolicyMisconfigured  # noqa: E402
from agent_runtime.policies import PolicyConfig, Sampling  # noqa: E402
from agent_runtime.policies.sglang import SGLangPolicy  # noqa: E402
from agent_runtime.sglang import groups  # noqa: E402
from agent_runtime.sglang.engines import WeightUpdate  # noqa: E402
from agent_runtime.sglang.groups import GroupSettings  # noqa: E402
from agent_runtime.sglang.tensors import WeightTensors  # noqa: E402
from agent_runtime.weights import BroadcastWeights  # noqa: E402
from tests.agent_runtime.policies.engine_contract import ledger_of, play  # noqa: E402
from tests.agent_runtime.policies.live_episode import episode_context  # noqa: E402
from tests.agent_runtime.serving.tiny_model import CONTEXT, tiny_llama, tiny_weights  # noqa: E402
from tests.kit import fake_sglang  # noqa: E402
from tests.kit.fake_sglang import FakeModel, FakeSGLang  # noqa: E402
from tests.kit.fake_weight_groups import FakeGroupSGLang  # noqa: E402

pytestmark = pytest.mark.torch

Weights = dict[str, "torch.Tensor"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> FakeModel:
    folder: Path = tiny_llama(tmp_path_factory.mktemp("model") / "one", seed=1)
    return FakeModel(
        model_path=str(folder), step_seconds=0.002, reply_tokens=100_000, context_length=CONTEXT
    )


def weights(seed: int) -> Weights:
    return {name: torch.from_numpy(it).bfloat16() for name, it in tiny_weights(seed).items()}


@asynccontextmanager
async def policy_on(engine: FakeSGLang) -> AsyncIterator[SGLangPolicy]:
    async with fake_sglang.serving(engine) as address:
        config = PolicyConfig(sampling=Sampling(max_new_tokens=1600))
        policy = SGLangPolicy(address, config)
        await policy.start()
        try:
            yield policy
        finally:
            await policy.close()


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


async def test_live_episodes_go_on_with_weights_that_came_in_buckets(model: FakeModel) -> None:
    engine = FakeGroupSGLang(model)
    async with policy_on(engine) as policy:
        session = policy.open(episode_context())
        playing = asyncio.create_task(play(session, 1))
        await engine.request_seen.wait()
        for number in (1, 2):
            await asyncio.sleep(0.1)
            tensors = WeightTensors(weights(number), bucket_bytes=1 << 16)
            settings = GroupSettings()
            await policy.engines.update(
                WeightUpdate(tensors=tensors, group=settings, version=f"v{number}")
            )
            assert same(engine.weights, weights(number))
        await playing
    versions = [span.version for span in ledger_of(session).segments[0].version_spans]
    assert versions == ["default", "v1", "v2"]
    assert len(engine.buckets) > 4 and len(engine.joined) == 1 and not engine.groups


async def test_an_engine_that_was_restarted_gets_a_group_of_its_own(model: FakeModel) -> None:
    engine = FakeGroupSGLang(model)
    async with policy_on(engine) as policy:
        await policy.update_weights(BroadcastWeights(tensors=weights(1)), version="v1")
        engine._startup += 1
        await policy.update_weights(BroadcastWeights(tensors=weights(2)), version="v2")
    assert len(engine.joined) == 2 and same(engine.weights, weights(2))


async def test_a_server_that_is_not_told_of_an_update_is_sent_the_weights_alone(
    model: FakeModel,
) -> None:
    engine = FakeGroupSGLang(model, framed=False)
    async with policy_on(engine) as policy:
        await policy.update_weights(BroadcastWeights(tensors=weights(1)), version="v1")
        assert policy.engines.health.versions == {"v1"}
    assert same(engine.weights, weights(1))


async def test_refused_weights_leave_the_engine_stale_until_the_next(model: FakeModel) -> None:
    engine = FakeGroupSGLang(model)
    async with policy_on(engine) as policy:
        engine.refuses = True
        with pytest.raises(PolicyError, match="Refused"):
            await policy.update_weights(BroadcastWeights(tensors=weights(1)), version="v1")
        assert policy.engines.health.stale
        engine.refuses = False
        await policy.update_weights(BroadcastWeights(tensors=weights(2)), version="v2")
        assert not policy.engines.health.stale
    assert same(engine.weights, weights(2))


async def test_a_server_without_groups_is_told_from_one_that_refuses(model: FakeModel) -> None:
    async with policy_on(FakeSGLang(model)) as policy:
        with pytest.raises(PolicyMisconfigured, match=r'rollout\.push = "disk"'):
            await policy.update_weights(BroadcastWeights(tensors=weights(1)), version="v1")


async def test_an_engine_that_does_not_come_is_named_with_the_address(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Absent(FakeGroupSGLang):
        async def _join(self, http):
            return fake_sglang.web.json_response({"success": True})

    monkeypatch.setattr(groups, "_JOIN_TIMEOUT", groups.timedelta(seconds=1))
    async with policy_on(Absent(model)) as policy:
        with pytest.raises(PolicyMisconfigured, match=r"did not come to 127\.0\.0\.1:\d+ \(gloo\)"):
            await policy.update_weights(BroadcastWeights(tensors=weights(1)), version="v1")


def test_a_group_needs_tensors() -> None:
    with pytest.raises(ValueError, match="give them"):
        WeightUpdate(version="v1", path="/checkpoint", group=GroupSettings())


@pytest.mark.parametrize(
    ("device", "gpus", "url", "backend"),
    [
        ("cpu", 8, "http://127.0.0.1:1", "gloo"),
        ("cuda", 0, "http://127.0.0.1:1", "gloo"),
        ("cuda", 1, "http://127.0.0.1:1", "gloo"),  # NCCL joins no GPU to itself
        ("cuda", 8, "http://127.0.0.1:1", "nccl"),
        ("cuda", 1, "http://192.0.2.1:1", "nccl"),
    ],
)
def test_nccl_is_for_gpus_of_their_own(
    device: str, gpus: int, url: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert groups._backend("auto", {"device": device}, url) == backend
    assert groups._backend("gloo", {"device": device}, url) == "gloo"
