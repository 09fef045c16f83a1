"""The engine contract, against the fake and against real SGLang servers on this machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies import Sampling
from agent_runtime.serving import ServeConfig, Served, serving
from agent_runtime.serving.config import RouterPolicy
from agent_runtime.serving.installation import find_python
from agent_runtime.sglang.engines import WeightUpdate
from agent_runtime.sglang.groups import GroupSettings
from agent_runtime.sglang.tensors import WeightTensors
from agent_runtime.weights import BroadcastWeights
from tests.agent_runtime.policies.engine_contract import (
    EngineContract,
    Target,
    ledger_of,
    new_version,
    play,
)
from tests.agent_runtime.policies.live_episode import episode_context
from tests.agent_runtime.serving.tiny_model import CONTEXT, tiny_llama, tiny_weights
from tests.kit import fake_sglang
from tests.kit.fake_sglang import FakeModel, FakeSGLang


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return tiny_llama(root / "one", seed=1), tiny_llama(root / "two", seed=2)


class TestFakeSGLang(EngineContract):
    @pytest.fixture
    async def target(self, checkpoints: tuple[Path, Path]) -> AsyncIterator[Target]:
        model = FakeModel(
            model_path=str(checkpoints[0]),
            step_seconds=0.002,
            reply_tokens=100_000,
            context_length=CONTEXT,
        )
        async with fake_sglang.serving(FakeSGLang(model)) as address:
            yield Target(address, *checkpoints, exact=False)


class _Background:
    """Model servers that outlive a test's event loop."""

    def __init__(self, model: Path, config: ServeConfig) -> None:
        self._started: Future[Served] = Future()
        self._stop = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._run()])
        self._model, self._config = model, config

    async def _run(self) -> None:
        try:
            async with serving(str(self._model), self._config) as served:
                self._started.set_result(served)
                await self._stop.wait()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    def __enter__(self) -> Served:
        self._thread.start()
        return self._started.result()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


@pytest.fixture(scope="session")
def sglang_python() -> Path:
    try:
        return find_python()
    except PolicyMisconfigured as error:
        pytest.skip(str(error))


def config_of(python: Path, **settings: Any) -> ServeConfig:
    return ServeConfig(python=python, device="cpu", ready_seconds=500, **settings)


@pytest.mark.sglang
@pytest.mark.timeout(900)
class TestSGLang(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def target(cls, checkpoints: tuple[Path, Path], sglang_python: Path) -> Iterator[Target]:
        with _Background(checkpoints[0], config_of(sglang_python)) as served:
            yield Target(served.address, *checkpoints)

    async def test_scoring_a_recorded_episode_gives_its_logprobs_again(
        self, target: Target
    ) -> None:
        async with self.policy(target) as policy:
            session = policy.open(episode_context(episode_id="scored"))
            await play(session, 3)
            segment = ledger_of(session).segments[0]
            scores = await policy.score(segment.ids)
        sampled = [at for at, mark in enumerate(segment.generations) if mark is not None]
        assert max(abs(scores[at] - segment.logprobs[at]) for at in sampled) < 2e-4  # type: ignore[operator]

    @pytest.mark.parametrize("group", [None, GroupSettings()])
    @pytest.mark.parametrize("bucket_bytes", [1 << 30, 1 << 16])
    async def test_weights_are_handed_over_in_memory(
        self, target: Target, bucket_bytes: int, group: GroupSettings | None
    ) -> None:
        torch = pytest.importorskip("torch", reason="tensors are torch's")
        weights = {
            name: torch.from_numpy(array) for name, array in tiny_weights(seed=bucket_bytes).items()
        }
        before = {name: tensor.clone() for name, tensor in weights.items()}
        tensors = WeightTensors(weights, bucket_bytes=bucket_bytes)
        texts, scores = [], []
        async with self.policy(target, sampling=Sampling(max_new_tokens=24, temperature=0)) as it:
            for update in (
                WeightUpdate(tensors=tensors, group=group, version=new_version()),
                WeightUpdate(path=str(target.model), version=new_version()),
                WeightUpdate(tensors=tensors, group=group, version=new_version()),
            ):
                await it.engines.update(update)
                [reply] = await play(it.open(episode_context()), 1)
                assert reply.policy_version == update.version
                texts.append(reply.text)
                scores.append(await it.score(list(range(5, 40))))
        assert texts[0] == texts[2] != texts[1]
        assert scores[0][1:] == pytest.approx(scores[2][1:], abs=1e-4)
        assert all(torch.equal(weights[name], before[name]) for name in weights)
        assert not any(tensor.is_shared() for tensor in weights.values())

    async def test_replies_go_on_with_weights_that_a_group_sent(self, target: Target) -> None:
        torch = pytest.importorskip("torch", reason="tensors are torch's")
        # Both checkpoints, greedy, repeat themselves without an end: the reply outlasts the pushes.
        sampling = Sampling(max_new_tokens=1600, temperature=0)
        versions = [new_version(), new_version()]
        async with self.policy(target, sampling=sampling) as policy:
            session = policy.open(episode_context(episode_id="live"))
            playing = asyncio.create_task(play(session, 1))
            await self.until(policy, lambda running: running >= 1)
            for seed, version in zip((2, 1), versions, strict=True):
                weights = {name: torch.from_numpy(it) for name, it in tiny_weights(seed).items()}
                await policy.update_weights(BroadcastWeights(tensors=weights), version=version)
                await asyncio.sleep(0.02)
            await playing
        spans = ledger_of(session).segments[0].version_spans
        assert [span.version for span in spans][1:] == versions

    async def test_greedy_replies_repeat(self, target: Target) -> None:
        sampling = Sampling(max_new_tokens=24, temperature=0)
        async with self.policy(target, sampling=sampling) as policy:
            texts = [(await play(policy.open(episode_context()), 1, seed))[0] for seed in (1, 2)]
        assert texts[0].text == texts[1].text

    async def test_the_fake_answers_in_the_same_fields(
        self, target: Target, checkpoints: tuple[Path, Path]
    ) -> None:
        model = FakeModel(model_path=str(checkpoints[0]), context_length=CONTEXT)
        async with fake_sglang.serving(FakeSGLang(model)) as address:
            real, fake = await asyncio.gather(answers(target.url), answers(address))
        assert fake.keys() == real.keys()
        own = {"fake_busy_seconds:float", "fake_idle_seconds:float"}
        for name, (status, shape) in fake.items():
            assert status == real[name][0], name
            assert shape <= real[name][1] | own, name
        for name in ("reply", "without logprobs", "first event", "last event", "too long"):
            missing = real[name][1] - fake[name][1]
            assert missing <= {"meta_info.response_sent_to_client_ts:float"}, name


REQUEST: dict[str, Any] = {
    "input_ids": list(range(10, 40)),
    "return_logprob": True,
    "sampling_params": {
        "max_new_tokens": 5,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "stop_token_ids": [2],
        "sampling_seed": 7,
        "ignore_eos": True,
    },
}


async def answers(url: str) -> dict[str, tuple[int, set[str]]]:
    """Status and shape of what an engine answers to each kind of request that clients send."""
    text = {"prompt": "You are <|im_start|>x", "add_special_tokens": False}
    greedy = {**REQUEST, "sampling_params": {"max_new_tokens": 3, "temperature": -1}}
    calls: dict[str, tuple[str, Any]] = {
        "reply": ("/generate", REQUEST),
        "without logprobs": ("/generate", {**REQUEST, "return_logprob": False}),
        "too long": ("/generate", {**REQUEST, "input_ids": [20] * 3000}),
        "just too long": ("/generate", {**REQUEST, "input_ids": [20] * 2046}),
        "no prompt": ("/generate", {**REQUEST, "input_ids": []}),
        "bad temperature": ("/generate", greedy),
        "model": ("/model_info", None),
        "server": ("/server_info", None),
        "loads": ("/v1/loads", None),
        "tokens": ("/v1/tokenize", text),
        "pause": ("/pause_generation", {"mode": "in_place"}),
        "continue": ("/continue_generation", {}),
        "abort": ("/abort_request", {"rid": "nobody"}),
        "no such weights": ("/update_weights_from_disk", {"model_path": "/no/such/folder"}),
    }
    found: dict[str, tuple[int, set[str]]] = {}
    async with aiohttp.ClientSession() as session:
        for name, (path, body) in calls.items():
            method = "GET" if body is None else "POST"
            async with session.request(method, url + path, json=body) as response:
                kind = response.content_type
                content = await response.json() if kind == "application/json" else {}
                found[name] = (response.status, shape_of(content))
        streamed = {**REQUEST, "stream": True}
        async with session.post(url + "/generate", json=streamed) as response:
            lines = [line async for line in response.content if line.strip()]
        assert lines[-1].strip() == b"data: [DONE]"
        events = [await _event(line) for line in lines[:-1]]
        assert [len(event["output_ids"]) for event in events][-1] == 5
        found["first event"] = (response.status, shape_of(events[0]))
        found["last event"] = (response.status, shape_of(events[-1]))
    return found


async def _event(line: bytes) -> dict[str, Any]:
    import json

    return json.loads(line.removeprefix(b"data:"))


def shape_of(value: Any, path: str = "") -> set[str]:
    """Paths to all leaves with the kinds of their values; lists by their first element."""
    if isinstance(value, dict):
        if path.endswith(("startup_time", "cached_tokens_details")):
            return {f"{path}:object"}  # holds what a start, or a cache, happened to measure
        return {leaf for key in value for leaf in shape_of(value[key], f"{path}.{key}".lstrip("."))}
    if isinstance(value, list):
        return shape_of(value[0], f"{path}[]") if value else set()
    if path.endswith("cached_tokens_details"):
        return {f"{path}:object"}
    kind = "float" if isinstance(value, float | int) and not isinstance(value, bool) else ""
    return {f"{path}:{kind or type(value).__name__}"}


@pytest.mark.sglang
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("target", ["cache_aware", "consistent_hashing"], indirect=True)
class TestRouter(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def target(
        cls,
        request: pytest.FixtureRequest,
        checkpoints: tuple[Path, Path],
        sglang_python: Path,
    ) -> Iterator[Target]:
        policy: RouterPolicy = request.param
        config = config_of(sglang_python, router=2, router_policy=policy)
        with _Background(checkpoints[0], config) as served:
            yield Target(served.address, *checkpoints)


@pytest.mark.sglang
@pytest.mark.timeout(900)
async def test_an_engine_that_is_killed_loses_no_request_and_comes_back_with_its_weights(
    checkpoints: tuple[Path, Path], sglang_python: Path
) -> None:
    from agent_runtime.serving.launch import SGLangServed

    contract = TestSGLang()
    async with serving(str(checkpoints[0]), config_of(sglang_python)) as served:
        assert isinstance(served, SGLangServed)
        target = Target(served.address, *checkpoints)
        sampling = Sampling(max_new_tokens=1600)
        async with contract.policy(target, sampling=sampling, recovery=400) as policy:
            await policy.update_weights(checkpoints[1], version="second")
            await asyncio.sleep(4)  # the launcher looks at the weights every two seconds
            plays = [
                asyncio.create_task(play(policy.open(episode_context(episode_id=str(n))), 1, n))
                for n in range(4)
            ]
            await contract.until(policy, lambda running: running >= 4)
            os.kill(served.pids[0], 9)
            replies = [replies[0] for replies in await asyncio.gather(*plays)]
            assert {reply.policy_version for reply in replies} == {"second"}
            assert policy.resent >= 1
            assert policy.engines.recoveries >= 1
        assert served.restarts == 1
