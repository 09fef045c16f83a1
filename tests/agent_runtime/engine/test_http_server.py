"""The embedded engine behind SGLang's HTTP interface: the contract of all engines, and its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")

from agent_runtime.errors import PolicyMisconfigured, PolicyUnavailable
from agent_runtime.serving import ServeConfig, Served, serving
from agent_runtime.serving.embedded import EmbeddedServed
from orchestrator import audit, sample
from orchestrator.store import RunReader
from tests.agent_runtime.policies.engine_contract import (
    EngineContract,
    Target,
    ledger_of,
    play,
)
from tests.agent_runtime.policies.live_episode import episode_context
from tests.agent_runtime.policies.test_engine_contract import REQUEST, answers
from tests.agent_runtime.serving.tiny_model import CONTEXT, tiny_llama
from tests.kit import fake_sglang
from tests.kit.fake_sglang import FakeModel, FakeSGLang

pytestmark = pytest.mark.torch
SETTINGS = ("--threads", "1", "--max-slots", "64", "--cache-gib", "1")


def config_of(**settings: Any) -> ServeConfig:
    return ServeConfig(engine="embedded", device="cpu", **{"engine_options": SETTINGS, **settings})


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return tiny_llama(root / "one", seed=1), tiny_llama(root / "two", seed=2)


@pytest.fixture
async def served(checkpoints: tuple[Path, Path]) -> AsyncIterator[Served]:
    async with serving(str(checkpoints[0]), config_of(), in_process=True) as served:
        yield served


class TestEmbedded(EngineContract):
    @pytest.fixture
    async def target(self, served: Served, checkpoints: tuple[Path, Path]) -> Target:
        return Target(served.address, *checkpoints)

    async def test_scoring_a_recorded_episode_gives_its_logprobs_again(
        self, target: Target
    ) -> None:
        async with self.policy(target) as policy:
            session = policy.open(episode_context(episode_id="scored"))
            await play(session, 3)
            segment = ledger_of(session).segments[0]
            scores = await policy.score(segment.ids)
        sampled = [at for at, mark in enumerate(segment.generations) if mark is not None]
        assert [scores[at] for at in sampled] == pytest.approx(
            [segment.logprobs[at] for at in sampled], abs=1e-4
        )

    async def test_equal_seeds_give_equal_replies(self, target: Target) -> None:
        async with self.policy(target) as policy:
            names = [uuid.uuid4().hex for _ in range(5)]
            played = await asyncio.gather(
                *(play(policy.open(episode_context(episode_id=name)), 2, 7) for name in names)
            )
        assert len({tuple(reply.text for reply in replies) for replies in played}) == 1


async def test_clients_find_every_field_that_an_sglang_server_has_for_them(
    served: Served, checkpoints: tuple[Path, Path]
) -> None:
    """The fake server's answers are compared with the real server's in the suite `sglang`."""
    model = FakeModel(model_path=str(checkpoints[0]), context_length=CONTEXT)
    async with fake_sglang.serving(FakeSGLang(model)) as address:
        expected = await answers(address)
        found = await answers(served.address)
    assert {name: status for name, (status, _) in found.items()} == {
        name: status for name, (status, _) in expected.items()
    }
    unread = ("cached_tokens_details", "dp_rank", "num_retractions", "reasoning_tokens")
    for name in ("reply", "without logprobs", "first event", "last event", "tokens", "pause"):
        missing = expected[name][1] - found[name][1]
        assert {leaf for leaf in missing if not any(each in leaf for each in unread)} <= {
            "meta_info.e2e_latency:float"
        }, name


async def ask(served: Served, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(served.address + path, json=body) as response,
    ):
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"input_ids": [[1, 2], [3]]}, "one list"),
        ({"input_ids": [1, -1]}, "same model"),
        ({"input_ids": [1, 512]}, "same model"),
        ({"input_ids": [True]}, "one list"),
        ({"text": "hello"}, "text"),
        ({"top_logprobs_num": 3}, "top_logprobs_num"),
        ({"sampling_params": {"regex": "a+"}}, "regex"),
        ({"sampling_params": {"min_p": 0.1}}, "min_p"),
        ({"sampling_params": {"top_p": 0}}, "top_p"),
        ({"sampling_params": {"top_p": "much"}}, "much"),
        ({"sampling_params": {"max_new_tokens": 1.5}}, "whole"),
        ({"sampling_params": {"temperature": "hot"}}, "finite"),
        ({"sampling_params": {"temperature": -1}}, "temperature"),
        ({"sampling_params": [1]}, "object"),
    ],
)
async def test_what_it_cannot_do_is_refused_and_not_ignored(
    served: Served, change: dict[str, Any], words: str
) -> None:
    status, answer = await ask(served, "/generate", {**REQUEST, **change})
    assert status == 400
    assert words in answer["error"]["message"]
    status, answer = await ask(served, "/generate", REQUEST)
    assert (status, len(answer["output_ids"])) == (200, 5)


async def test_neutral_parameters_and_stop_strings_are_taken(served: Served) -> None:
    params = {**REQUEST["sampling_params"], "min_p": 0.0, "n": 1, "regex": None, "temperature": 0}
    body = {**REQUEST, "sampling_params": {**params, "max_new_tokens": 40}}
    _, free = await ask(served, "/generate", body)
    word = free["text"][3:5]
    body["sampling_params"] = {**body["sampling_params"], "stop": word}
    _, stopped = await ask(served, "/generate", body)
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": word}
    assert free["output_ids"][: len(stopped["output_ids"])] == stopped["output_ids"]


async def test_what_is_no_json_is_refused(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        for data in (b"", b"{", b"[1]"):
            async with session.post(served.address + "/generate", data=data) as response:
                assert response.status == 400


async def test_spaces_share_no_cached_prefix(served: Served) -> None:
    cached = []
    for cache_salt in ("one", "one", "two"):
        _, answer = await ask(served, "/generate", {**REQUEST, "extra_key": cache_salt})
        cached.append(answer["meta_info"]["cached_tokens"])
    assert cached == [0, 29, 0]


async def test_a_client_that_hangs_up_frees_its_slot(served: Served) -> None:
    long = {**REQUEST, "sampling_params": {"max_new_tokens": 1900, "ignore_eos": True}}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await ask(served, "/generate", long)
    async with aiohttp.ClientSession() as session, asyncio.timeout(5):
        while True:
            async with session.get(served.address + "/v1/loads") as response:
                (load,) = (await response.json())["loads"]
            if load["num_running_reqs"] == 0:
                return


async def test_an_engine_that_dies_is_the_end_of_serving(checkpoints: tuple[Path, Path]) -> None:
    async with serving(str(checkpoints[0]), config_of(), in_process=True) as served:
        assert isinstance(served, EmbeddedServed)
        waiting = asyncio.create_task(served.wait())
        await served.thread.call(lambda engine: setattr(engine, "backend", None))
        status, _ = await ask(served, "/generate", REQUEST)
        assert status == 503
        with pytest.raises(PolicyUnavailable, match="died"):
            await waiting


async def test_a_port_that_is_taken_is_named(
    served: Served, checkpoints: tuple[Path, Path]
) -> None:
    port = int(served.address.rpartition(":")[2])
    with pytest.raises(PolicyMisconfigured, match="listen"):
        async with serving(str(checkpoints[0]), config_of(port=port), in_process=True):
            pass


def test_the_command_serves_until_it_is_told_to_stop(
    checkpoints: tuple[Path, Path], tmp_path: Path
) -> None:
    address = tmp_path / "address"
    command = [sys.executable, "-m", "agent_runtime.serve", "--engine", "embedded"]
    command += ["--model", str(checkpoints[0]), "--device", "cpu", "--address-file", str(address)]
    command += ["--engine-options", "max-slots=16", "cache-gib=0.5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip().endswith(address.read_text().strip())
    flags = ["--env", "echo", "--episodes", "2", "--max-rounds", "2", "--max-new-tokens", "8"]
    spec = address.read_text().strip()
    assert sample.main([*flags, "--policy", spec, "--out", str(tmp_path / "run")]) == 0
    assert audit.main([str(tmp_path / "run"), "--engine", spec.partition(":")[2]]) == 0
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("policy", ["sglang", "embedded"])
def test_one_command_loads_the_model_samples_and_audits(
    checkpoints: tuple[Path, Path], tmp_path: Path, policy: str
) -> None:
    run = str(tmp_path / "run")
    flags = ["--env", "maze", "--episodes", "3", "--policy", policy, "--model", str(checkpoints[0])]
    flags += ["--serve.engine", "embedded", "--serve.device", "cpu"]
    flags += ["--embedded.device", "cpu", "--embedded.threads", "1"]
    limits = ["--max-rounds", "2", "--max-new-tokens", "20"]
    assert sample.main([*flags, *limits, "--out", run]) == 0
    with RunReader.open(Path(run)) as reader:
        records = list(reader.episodes())
    assert {record.policy for record in records} == {policy}
    assert all(record.token_segments for record in records)
    assert audit.main([run]) == 0
    certificate = json.loads(Path(run, "audit.json").read_text())
    assert certificate["passed"]
    assert sample.main(["--resume", run]) == 0
