"""The SGLang policy under load and when its engine goes away: a fake in its own process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_runtime.errors import PolicyStale, PolicyUnavailable
from agent_runtime.policies import PolicyConfig, Sampling, SGLangOptions
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.serving.machine import free_port
from agent_runtime.sglang.health import EngineState
from tests.agent_runtime.policies.engine_contract import START, play
from tests.agent_runtime.policies.live_episode import episode_context
from tests.agent_runtime.serving.tiny_model import tiny_llama

REPLY = 40


class Engine:
    """A fake engine that can be killed and started again on its port."""

    def __init__(
        self, model: Path, *, step_ms: float = 10.0, options: tuple[str, ...] = ()
    ) -> None:
        self.port = free_port("127.0.0.1")
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [
            *(sys.executable, "-m", "tests.kit.fake_sglang", "--model", str(model)),
            *("--port", str(self.port), "--step-ms", str(step_ms), "--reply-tokens", str(REPLY)),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._spawn()
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return

    def _spawn(self) -> None:
        self._process = subprocess.Popen(self._command)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("models")
    return tiny_llama(root / "one", seed=1), tiny_llama(root / "two", seed=2)


@pytest.fixture
async def engine(models: tuple[Path, Path]) -> AsyncIterator[Engine]:
    engine = Engine(models[0])
    await engine.start()
    yield engine
    engine.kill()


@asynccontextmanager
async def policy_of(engine: Engine, **options: float) -> AsyncIterator[SGLangPolicy]:
    settings = PolicyConfig(
        sampling=Sampling(max_new_tokens=200),
        sglang=SGLangOptions(**options),  # type: ignore[arg-type]
    )
    policy = SGLangPolicy(engine.url, settings)
    await policy.start()
    try:
        yield policy
    finally:
        await policy.close()


def plays(policy: SGLangPolicy, count: int, turns: int) -> list[asyncio.Task[list[object]]]:
    return [
        asyncio.create_task(play(policy.open(episode_context(episode_id=str(n))), turns, n))  # type: ignore[misc]
        for n in range(count)
    ]


def events_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "event", record.msg) for record in caplog.records]


async def test_no_request_is_lost_when_the_engine_restarts(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="agent_runtime")
    async with policy_of(engine, recovery=60) as policy:
        tasks = plays(policy, 100, 3)
        await asyncio.sleep(0.6)
        engine.kill()
        await asyncio.sleep(0.3)
        await engine.start()
        replies = [reply for replies in await asyncio.gather(*tasks) for reply in replies]
        assert len(replies) == 300
        assert policy.resent >= 50
        assert policy.engines.recoveries == 1
    story = events_of(caplog)
    assert story.count("request resent") == policy.resent
    steps = [
        "policy ready",
        "engines suspected",
        "engine down",
        "engine ready",
        "engines recovered",
    ]
    places = [story.index(step, story.index("policy ready")) for step in steps]
    assert places == sorted(places)


async def test_a_restarted_engine_is_given_its_weights_before_it_serves(
    engine: Engine, models: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="agent_runtime")
    async with policy_of(engine, recovery=60) as policy:
        await policy.update_weights(models[1], version="second")
        tasks = plays(policy, 20, 3)
        await asyncio.sleep(0.3)
        engine.kill()
        await engine.start()  # with its first weights
        played = await asyncio.gather(*tasks)
    versions = {reply.policy_version for replies in played for reply in replies}  # type: ignore[attr-defined]
    assert versions == {"second"}
    story = events_of(caplog)
    assert {"weights updated", "engine stale", "engines recovered"} <= set(story)


async def test_a_restart_between_two_requests_is_noticed_by_the_version(
    engine: Engine, models: tuple[Path, Path]
) -> None:
    async with policy_of(engine, recovery=60) as policy:
        await policy.update_weights(models[1], version="second")
        engine.kill()
        await engine.start()
        [reply] = await play(policy.open(episode_context()), 1)
        assert reply.policy_version == "second"


async def test_an_engine_that_somebody_else_updated_may_not_serve_after_a_restart(
    engine: Engine, models: tuple[Path, Path]
) -> None:
    async with policy_of(engine, recovery=0.5) as trainer:
        async with policy_of(engine, recovery=0.5) as player:
            await trainer.update_weights(models[1], version="second")
            [reply] = await play(player.open(episode_context()), 1)
            assert reply.policy_version == "second"
            engine.kill()
            await engine.start()
            # This one has no weights to give: it waits for those who have.
            with pytest.raises(PolicyStale, match="stale"):
                await play(player.open(episode_context()), 1)
            assert player.engines.health[engine.url].state is EngineState.STALE
            await play(trainer.open(episode_context()), 1)
            await player.engines.probe()
            [reply] = await play(player.open(episode_context()), 1)
            assert reply.policy_version == "second"


async def test_requests_fail_when_the_engine_stays_away(engine: Engine) -> None:
    async with policy_of(engine, recovery=0.5) as policy:
        engine.kill()
        with pytest.raises(PolicyUnavailable):
            await play(policy.open(episode_context()), 1)


async def test_without_recovery_a_lost_request_fails_at_once(engine: Engine) -> None:
    async with policy_of(engine, recovery=0) as policy:
        tasks = plays(policy, 5, 1)
        await asyncio.sleep(0.1)
        engine.kill()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, PolicyUnavailable) for result in results)


async def test_the_concurrency_limit_follows_what_the_engine_reports(
    models: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="agent_runtime")
    engine = Engine(models[0], options=("--max-running", "64"))
    await engine.start()
    try:
        async with policy_of(engine) as policy:
            tasks = plays(policy, 300, 1)
            async with asyncio.timeout(60):
                while policy.concurrency_limit >= 1024:
                    await asyncio.sleep(0.05)
            await asyncio.gather(*tasks)
            assert policy.concurrency_limit < 1024
    finally:
        engine.kill()
    changes = [record for record in caplog.records if "limit changed" in record.getMessage()]
    first = changes[0].fields  # type: ignore[attr-defined]
    assert (first["before"], first["limit"]) == (1024, 716)
    assert first["signal"] == "requests wait in the engine"
    assert first["waiting"] > first["running"] / 4


@pytest.mark.slow
async def test_ten_thousand_requests_are_held_at_once(models: tuple[Path, Path]) -> None:
    # Replies take a minute: time for a slow machine to send the ten thousand.
    engine = Engine(models[0], step_ms=1500.0)
    await engine.start()
    most = 0
    try:
        async with policy_of(engine) as policy:
            sessions = [policy.open(episode_context(episode_id=str(n))) for n in range(10_000)]
            tasks = [
                asyncio.create_task(session.reply(START, turn=0, seed=n))
                for n, session in enumerate(sessions)
            ]
            while not all(task.done() for task in tasks):
                load = await policy.engines.loads()
                most = max(most, load.running if load else 0)
                await asyncio.sleep(0.2)
            replies = await asyncio.gather(*tasks)
    finally:
        engine.kill()
    assert all(reply.completion_tokens for reply in replies)
    assert most >= 9_000
