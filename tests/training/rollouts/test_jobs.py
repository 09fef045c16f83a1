from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from aiohttp import web
from rich.console import Console

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.serving.installation import find_python
from orchestrator.store import RunReader
from tests.agent_runtime.serving.tiny_model import tiny_llama
from tests.kit.fake_sglang import FakeModel, FakeSGLang
from training.config.recipe import build
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.errors import RecipeError
from training.rollouts import jobs
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.tasks import EnvironmentTasks
from training.trainer.models import InitConfig, create_base

pytestmark = pytest.mark.torch

ECHO = EnvironmentTasks(
    name="echo", conversation_start=("say", "yes"), options={"observation_bytes": 90, "length": 2}
)
ITEMS = ["echo_1000000", "echo_1000001"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[Path]:
    """Two models of one architecture with different weights."""
    folder = tmp_path_factory.mktemp("models")
    train_tokenizer(["say yes", "step one"], folder / "tok", TokenizerConfig(vocab_size=300))
    init = InitConfig(hidden_size=32, layers=2, heads=2, context=512)
    return [create_base(init, folder / "tok", folder / f"m{n}", seed=n) for n in (1, 2)]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def players(**changes) -> RolloutConfig:
    return build(RolloutConfig, {"max_new_tokens": 6, "fleet": {"spawn": 1}, **changes})


def versions_of(folder: Path) -> set[str]:
    with RunReader.open(folder) as reader:
        return {
            name
            for episode in reader.episodes()
            for segment in episode.token_segments
            for name in segment.policy_versions
        }


@contextmanager
def running_server(model: Path) -> Iterator[str]:
    """A fake SGLang server, in a thread of its own; its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> web.AppRunner:
        settings = FakeModel(model_path=str(model), step_seconds=0.001, context_length=512)
        runner = web.AppRunner(FakeSGLang(settings).app(), access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_a_running_server_gets_the_agents_weights_through_its_update_api(models, tmp_path):
    with running_server(models[0]) as address:
        there = players(engine="sglang", url=address)
        for number, model in enumerate(models):
            job = RolloutJob(ECHO, ITEMS, tmp_path / f"run-{number}")
            play(there, RolloutPolicy(policy=str(model)), [job], console=Console(quiet=True))
    assert weights_digest(models[0]) != weights_digest(models[1])
    for number, model in enumerate(models):
        assert versions_of(tmp_path / f"run-{number}") == {weights_digest(model)}


def test_an_agent_that_was_evaluated_explores_next_with_the_weights_that_are_served(
    models, tmp_path, monkeypatch
):
    # By a known name, as a recipe that starts from a published model has it.
    monkeypatch.setattr(jobs, "resolve_model", {"known": str(models[1])}.__getitem__)
    with running_server(models[0]) as address:
        there = players(engine="sglang", url=address)
        for stage in ("evaluate", "explore"):
            job = RolloutJob(ECHO, ITEMS, tmp_path / stage)
            play(there, RolloutPolicy(policy="known"), [job], console=Console(quiet=True))
            assert versions_of(tmp_path / stage) == {weights_digest(models[1])}


def test_agents_one_after_the_other_play_in_a_process_of_the_engines_own(models, tmp_path):
    own = players(embedded={"process": True, "threads": 1, "cache_gib": 0.1, "max_slots": 8})
    for number, model in enumerate(models):
        job = RolloutJob(ECHO, ITEMS, tmp_path / f"run-{number}")
        agent = RolloutPolicy(policy=str(model), temperature=1.0)
        play(own, agent, [job], console=Console(quiet=True))
        with RunReader.open(job.folder) as reader:
            assert {it.policy for it in reader.episodes()} == {f"embedded:{model}"}
        assert versions_of(job.folder) == {weights_digest(model)}


@pytest.mark.sglang
@pytest.mark.timeout(900)
def test_a_server_is_launched_for_the_jobs_and_ended_after_them(tmp_path):
    try:
        python = find_python()
    except PolicyMisconfigured as error:
        pytest.skip(str(error))
    serve = {"port": free_port(), "device": "cpu", "python": str(python)}
    served = players(engine="sglang", serve=serve)
    jobs = [RolloutJob(ECHO, ITEMS, tmp_path / name) for name in ("first", "second")]
    agent = RolloutPolicy(policy=str(tiny_llama(tmp_path / "model", seed=1)), temperature=1.0)
    played = play(served, agent, jobs, console=Console(quiet=True))
    assert [it.folder.name for it in played] == ["first", "second"]
    for it in played:
        with RunReader.open(it.folder) as reader:
            assert len(reader.finished_keys()) == 2
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", served.serve.port)) != 0


def test_a_run_that_was_finished_is_not_played_again(tmp_path):
    job = RolloutJob(ECHO, ITEMS, tmp_path / "run")
    agent = RolloutPolicy(policy="expert")
    play(players(), agent, [job], console=Console(quiet=True))
    with RunReader.open(job.folder) as reader:
        before = [it.started_unix_ms for it in reader.summaries()]
    play(players(), agent, [job], console=Console(quiet=True))
    with RunReader.open(job.folder) as reader:
        assert [it.started_unix_ms for it in reader.summaries()] == before


def test_an_engine_that_no_resume_would_find_again_is_refused():
    with pytest.raises(RecipeError, match=r"url, or serve\.port"):
        players(engine="sglang")


def test_no_tasks_are_refused(tmp_path):
    with pytest.raises(RecipeError, match="no tasks to play"):
        play(
            players(),
            RolloutPolicy(policy="expert"),
            [RolloutJob(ECHO, [], tmp_path / "run")],
            console=Console(quiet=True),
        )
