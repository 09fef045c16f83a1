"""Audits of tokens on whole runs: rendering again, scoring again, and the command that does it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.ledger import Segment
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling, SGLangOptions
from agentgym.episode.v1 import episode_pb2
from orchestrator import audit
from orchestrator.audit.tokens import rendering_problems, scored_tokens, scoring_problems
from orchestrator.config import RunConfig
from orchestrator.errors import UsageError
from orchestrator.fleet import FleetConfig
from orchestrator.run import run
from orchestrator.store import RunReader
from tests.agent_runtime.serving.tiny_model import tiny_llama
from tests.kit import fake_sglang
from tests.kit.fake_sglang import FakeModel, FakeSGLang


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
async def engine(model: Path) -> AsyncIterator[str]:
    fake = FakeSGLang(FakeModel(model_path=str(model), reply_tokens=12))
    async with fake_sglang.serving(fake) as address:
        yield address


async def play(engine: str, model: Path, folder: Path, **settings: Any) -> Path:
    config = RunConfig(
        environments=("echo",),
        episodes=4,
        policies=(PolicySpec("sglang", engine),),
        max_rounds=3,
        agent=PolicyConfig(
            sampling=Sampling(max_new_tokens=40, **settings),
            sglang=SGLangOptions(tokenizer=str(model)),
        ),
        fleet=FleetConfig(spawn=1),
    )
    outcome = await run(config, folder, resume=False, console=Console(quiet=True))
    assert outcome.complete
    return folder


async def test_a_run_is_rendered_again_and_its_certificate_says_so(
    engine: str, model: Path, tmp_path: Path
) -> None:
    folder = await play(engine, model, tmp_path / "run")
    with RunReader.open(folder) as reader:
        renderer = HuggingFaceRenderer(model)
        result = audit.audit_run(reader, renderer=renderer)
        assert (result.passed, result.rendered) == (True, 4)
        stated = audit.certificate(reader, result)
    assert stated["rendering"] == {"episodes": 4, "findings": 0}
    assert stated["scoring"] is None


async def test_scores_that_differ_are_findings(engine: str, model: Path, tmp_path: Path) -> None:
    folder = await play(engine, model, tmp_path / "run")
    with RunReader.open(folder) as reader:
        result = audit.AuditResult()
        await audit.score_run(reader, result, engine, episodes=2, tolerance=1e-4)
        assert result.passed
        assert result.scored
        strict = audit.AuditResult()
        await audit.score_run(reader, strict, engine, episodes=0, tolerance=-1.0)
        assert strict.findings["scoring"] == strict.scored


async def test_a_run_at_another_temperature_cannot_be_scored(
    engine: str, model: Path, tmp_path: Path
) -> None:
    folder = await play(engine, model, tmp_path / "run", temperature=0.5)
    with RunReader.open(folder) as reader, pytest.raises(UsageError, match="temperature 1"):
        await audit.score_run(reader, audit.AuditResult(), engine, episodes=0, tolerance=1e-4)


async def test_a_reply_that_the_context_cut_short_renders_again(
    engine: str, model: Path, tmp_path: Path
) -> None:
    folder = await play(engine, model, tmp_path / "run")
    with RunReader.open(folder) as reader:
        record = next(iter(reader.episodes()))
    # As the agent leaves it: the last reply was sampled, and nobody said it.
    last = max(at for at, message in enumerate(record.messages) if message.sampled)
    del record.messages[last:]
    segment = record.token_segments[0]
    size = max(at for at, mark in enumerate(segment.generations) if mark) + 1
    for name in ("ids", "origins", "logprobs", "generations"):
        del getattr(segment, name)[size:]
    assert list(rendering_problems(record, HuggingFaceRenderer(model))) == []


def test_the_command_renders_with_the_tokenizer_that_it_is_given(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    async def record() -> None:
        fake = FakeSGLang(FakeModel(model_path=str(model), reply_tokens=12))
        async with fake_sglang.serving(fake) as address:
            await play(address, model, tmp_path / "run")

    asyncio.run(record())
    assert audit.main([str(tmp_path / "run"), "--tokenizer", str(model)]) == 0
    assert "4 rendered again" in capsys.readouterr().out
    stated = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert stated["rendering"]["findings"] == 0
    other = tiny_llama(tmp_path / "other")
    template = json.loads((other / "tokenizer_config.json").read_text())
    template["chat_template"] = "{% for m in messages %}{{ m.content }}|{% endfor %}"
    (other / "tokenizer_config.json").write_text(json.dumps(template))
    assert audit.main([str(tmp_path / "run"), "--tokenizer", str(other)]) == 1


def test_only_tokens_of_the_engines_version_are_scored() -> None:
    stored = episode_pb2.TokenSegment(
        ids=[1, 2, 3, 4],
        origins=[1, 2, 2, 2],  # type: ignore[list-item]
        logprobs=[0.0, -0.5, -0.5, -0.5],
        generations=[0, 1, 1, 1],
        policy_versions=["v1", "v2"],
    )
    stored.version_spans.add(start=1, end=3, version=0)
    stored.version_spans.add(start=3, end=4, version=1)
    segment = Segment.from_proto(stored)
    assert scored_tokens(segment, "v1") == [1, 2]
    assert scored_tokens(segment, "v2") == [3]
    assert list(scoring_problems(segment, [None, -0.5, -0.7, None], [1], 0.01)) == []
    assert len(list(scoring_problems(segment, [None, -0.5, -0.7, None], [1, 2, 3], 0.01))) == 2
