"""From an expert's episodes to an agent that plays, and back to data: nothing is made up here."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from rich.console import Console

from agent_runtime.ledger import Origin
from orchestrator import sample
from orchestrator.store import RunReader
from training import bc
from training.config.recipe import build
from training.data.sources import SourceConfig, read_source
from training.trainer.preparation import load_renderer

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_an_agent_clones_an_expert_plays_and_its_episodes_are_data_again(tmp_path: Path) -> None:
    flags = ["--env", "maze", "--policy", "expert", "--split", "train", "--episodes", "16"]
    assert sample.main([*flags, "--out", str(tmp_path / "expert")]) == 0
    recipe = build(
        bc.BcRecipe,
        {
            "out": str(tmp_path / "out"),
            "device": "cpu",
            "epochs": 2,
            "model": {
                "init": {
                    "hidden_size": 32,
                    "layers": 2,
                    "heads": 2,
                    "context": 2048,
                    "tokenizer": {"vocab_size": 600},
                }
            },
            "data": {
                "context": 2048,
                "sources": [{"path": str(tmp_path / "expert"), "only_success": True}],
            },
            "batch": {"sequences": 4, "micro_tokens": 4096},
            "optimizer": {"lr": 5e-3},
            "agent_eval": {
                "environments": ["maze"],
                "episodes": 3,
                "max_new_tokens": 24,
                "embedded": {"threads": 1, "max_slots": 4, "cache_gib": 0.2, "device": "cpu"},
            },
            "tracking": {"tensorboard": False, "print_every": 0},
        },
    )
    result = bc.train(recipe, console=Console(file=io.StringIO()))
    assert 0 <= result.report["agent_eval/maze"] <= 1
    assert result.report["sequences"] == 16

    (played,) = (tmp_path / "out/agent_eval").iterdir()
    renderer = load_renderer(result.checkpoint)
    with RunReader.open(played) as run:
        episodes = {it.episode_id: it for it in run.episodes()}
    left: list[str] = []
    records = list(
        read_source(
            SourceConfig(path=str(played)), renderer, on_skipped=lambda name, *_: left.append(name)
        )
    )
    assert len(records) == len(episodes) == 3 and not left
    for (it,) in records:
        (segment,) = episodes[it.origin.name].token_segments
        sampled = [origin == Origin.SAMPLED for origin in segment.origins]
        assert it.ids.tolist() == list(segment.ids)[: len(it)]
        assert it.mask.tolist() == sampled[: len(it)] and not any(sampled[len(it) :])
        assert it.logprobs is not None and (it.logprobs[it.mask] < 0).all()
        assert it.origin.policy_version.startswith("weights-")
