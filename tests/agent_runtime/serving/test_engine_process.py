"""The embedded engine in a process of its own: same tokens, told failures, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies import PolicyConfig, Sampling
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.serving import ServeConfig, serving, supervised
from agent_runtime.serving.commands import embedded_words
from agent_runtime.serving.embedded import EmbeddedProcess, embedded_options
from agentgym.episode.v1 import episode_pb2
from orchestrator import sample
from orchestrator.store import RunReader
from tests.agent_runtime.policies.engine_contract import play
from tests.agent_runtime.policies.live_episode import episode_context
from tests.agent_runtime.serving.tiny_model import tiny_llama

SMALL = ("backend=numpy", "threads=1", "max-slots=8", "cache-gib=0.1")
"""Settings that make an engine start quickly."""
PARENT = """
import asyncio, sys
from agent_runtime.serving import ServeConfig, serving

async def main():
    config = ServeConfig(engine="embedded", device="cpu", engine_options=tuple(sys.argv[2:]))
    async with serving(sys.argv[1], config) as served:
        print(served.pids[0], flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def config_of(**settings: Any) -> ServeConfig:
    return ServeConfig(engine="embedded", device="cpu", engine_options=SMALL, **settings)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("models") / "one", seed=1)


def sampled(model: Path, folder: Path, *flags: str) -> dict[str, episode_pb2.Episode]:
    """Play a run by a command; its episodes by their tasks."""
    command = ["--env", "echo", "--episodes", "4", "--max-rounds", "3", "--max-new-tokens", "12"]
    command += ["--policy", f"embedded:{model}", *(f"--embedded.{word}" for word in SMALL)]
    assert sample.main([*command, *flags, "--out", str(folder)]) == 0
    with RunReader.open(folder) as reader:
        return {record.item_id: record for record in reader.episodes()}


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_a_run_has_the_same_tokens_and_names_in_either_process(
    model: Path, tmp_path: Path, temperature: str
) -> None:
    flags = ("--temperature", temperature)
    before = set(psutil.Process().children(recursive=True))  # of other tests: a Java
    here = sampled(model, tmp_path / "here", *flags)
    there = sampled(model, tmp_path / "there", *flags, "--embedded.process")
    assert not set(psutil.Process().children(recursive=True)) - before
    for item, record in here.items():
        (one,), (other,) = record.token_segments, there[item].token_segments
        assert list(one.ids) == list(other.ids)
        assert list(one.policy_versions) == list(other.policy_versions) == [weights_digest(model)]
        assert list(one.logprobs) == pytest.approx(list(other.logprobs), abs=1e-4)
        assert list(one.entropies) == pytest.approx(list(other.entropies), abs=1e-4)
        assert record.policy == there[item].policy == f"embedded:{model}"
    # The one goes on with what the other began.
    assert sample.main(["--resume", str(tmp_path / "there"), "--embedded.no-process"]) == 0


async def test_an_engine_that_is_killed_comes_back_and_loses_no_request(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_RESTART_PAUSE", 0.01)
    async with serving(str(model), config_of(weight_version="mine")) as served:
        assert isinstance(served, EmbeddedProcess)
        policy = SGLangPolicy(
            served.address, PolicyConfig(sampling=Sampling(max_new_tokens=30, temperature=0))
        )
        await policy.start()
        try:
            expected = await play(policy.open(episode_context(episode_id="before")), 1, 0)
            os.kill(served.pids[0], signal.SIGSTOP)  # so that it dies with all of them
            plays = [
                asyncio.create_task(play(policy.open(episode_context(episode_id=str(n))), 1, 0))
                for n in range(4)
            ]
            await asyncio.sleep(0.1)
            os.kill(served.pids[0], signal.SIGKILL)
            replies = [each[0] for each in await asyncio.gather(*plays)]
        finally:
            await policy.close()
        assert served.restarts == 1
        assert policy.resent >= 4
    assert {reply.text for reply in replies} == {expected[0].text}
    assert {reply.policy_version for reply in replies} == {"mine"}


def test_an_engine_ends_with_a_parent_that_was_killed(model: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(model), *SMALL]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    engine = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 20
    while engine.is_running() and engine.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the engine outlived its parent"
        time.sleep(0.05)


async def test_a_model_that_cannot_be_loaded_is_told_as_such(tmp_path: Path) -> None:
    broken = tiny_llama(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(PolicyMisconfigured, match=r"engine 0: .*safetensors"):
        async with serving(str(broken), config_of()):
            pass


async def test_settings_are_refused_before_anything_is_started(model: Path) -> None:
    config = ServeConfig(engine="embedded", engine_options=("max-slots=0",))
    with pytest.raises(PolicyMisconfigured, match="max_slots"):
        async with serving(str(model), config):
            pass


async def test_a_server_at_the_port_is_not_taken_for_the_engine(model: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PolicyMisconfigured, match="listen"):
            async with serving(str(model), config_of(port=other.getsockname()[1])):
                pass


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--policy", "embedded:m", "--ray", "local"], "every worker"),
        (["--policy", "agent"], "packaged agent"),
    ],
)
def test_who_has_no_engine_to_move_says_so(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--env", "maze", *flags, "--embedded.process", "--out", str(tmp_path / "run")]
    assert sample.main(command) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_an_engine_is_told_every_setting() -> None:
    options = EmbeddedOptions(
        process=True,
        backend="torch",
        device="cuda:1",
        dtype="bfloat16",
        threads=3,
        context_length=2432,
        max_slots=1024,
        cache_gib=2.5,
        prefill_tokens=16_384,
        chat_template=Path("own.jinja"),
        template_date="2026-01-01",
        version="mine",
    )
    config = ServeConfig(
        engine="embedded", weight_version="mine", engine_options=embedded_words(options)
    )
    told = embedded_options(config)
    assert not told.process
    assert {
        name: getattr(told, name) for name in EmbeddedOptions.__slots__ if name != "process"
    } == {name: getattr(options, name) for name in EmbeddedOptions.__slots__ if name != "process"}
