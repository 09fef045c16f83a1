"""Workers of a cluster that play by several engines, named by a list of their addresses."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")

from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling, SGLangOptions
from orchestrator.ray_config import RayConfig
from orchestrator.run import run
from tests.agent_runtime import tiny_tokenizers as tiny
from tests.kit.fake_sglang import FakeModel, FakeSGLang, serving
from tests.orchestrator.ray_cluster.small_runs import QUIET, config, records, serving_maze


async def test_workers_share_the_engines_of_a_list_and_play_what_one_process_plays(
    host, tmp_path: Path
) -> None:
    host()
    model = tiny.chatml(tmp_path / "model")
    engines = [FakeSGLang(FakeModel(model_path=str(model), reply_tokens=6)) for _ in range(2)]
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(engine)) for engine in engines]
        fleet = await stack.enter_async_context(serving_maze())
        settings = config(
            fleet,
            policies=(PolicySpec("sglang", "+".join(urls)),),
            agent=PolicyConfig(sampling=Sampling(max_new_tokens=12), sglang=SGLangOptions()),
            max_rounds=2,
        )
        outcome = await run(settings, tmp_path / "shared", resume=False, console=QUIET)
        asked = [len(engine.requests) for engine in engines]
        alone = config(
            fleet,
            policies=settings.policies,
            agent=settings.agent,
            max_rounds=2,
            cluster=RayConfig(),
        )
        await run(alone, tmp_path / "alone", resume=False, console=QUIET)
    assert outcome.complete and min(asked) > 0
    assert records(tmp_path / "shared") == records(tmp_path / "alone")
    assert len(records(tmp_path / "shared")) == 24
