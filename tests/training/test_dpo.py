from __future__ import annotations

import io
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import torch
from rich.console import Console

from agent_runtime.huggingface import HuggingFaceRenderer
from tests.agent_runtime import tiny_tokenizers
from tests.agent_runtime.tiny_models import save_model
from tests.training.makers import write_preferences
from training import dpo
from training.config.recipe import build
from training.config.start import Start
from training.errors import NothingToTrainOn
from training.runs.tracking import read_log
from training.trainer.loop import TrainingResult

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = save_model(tmp_path_factory.mktemp("model"), max_position_embeddings=1024)
    return tiny_tokenizers.chatml(folder)


@pytest.fixture(scope="module")
def played(model: Path, tmp_path_factory) -> Path:
    """Twelve items, each played well once and badly once."""
    return write_preferences(tmp_path_factory.mktemp("runs") / "run", HuggingFaceRenderer(model))


def recipe(out: Path, model: Path, run: Path, **changes) -> dict:
    return {
        "out": str(out),
        "device": "cpu",
        "model": {"path": str(model), "precision": "float32"},
        "data": {"context": 512, "sources": [{"path": str(run)}], "held_out": 0.35},
        "beta": 0.5,
        "batch": {"sequences": 4},
        "optimizer": {"lr": 1e-3, "schedule": "constant", "warmup": 0.0},
        "tracking": {"tensorboard": False, "print_every": 0},
        **changes,
    }


def train(values: dict, **options) -> TrainingResult:
    return dpo.train(build(dpo.DpoRecipe, values), console=Console(file=io.StringIO()), **options)


def test_the_margin_begins_at_zero_and_grows(model: Path, played: Path, tmp_path: Path) -> None:
    result = train(recipe(tmp_path / "out", model, played))
    rows = [row for row in read_log(tmp_path / "out/log.jsonl") if "margin" in row]
    assert rows[0]["margin"] == pytest.approx(0, abs=1e-4)
    assert rows[0]["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert rows[-1]["margin"] > 1 and rows[-1]["accuracy"] == 1
    assert result.report["held_out_margin"] > 0.5
    assert result.report["pairs"] + result.report["held_out_pairs"] == 12
    assert (result.checkpoint / "model.safetensors").is_file()


def test_likelihoods_are_those_of_all_replies_of_an_episode(
    model: Path, played: Path, tmp_path: Path
) -> None:
    import numpy as np
    from transformers import AutoModelForCausalLM

    from training.data.dataset import TokenDataset

    train(recipe(tmp_path / "out", model, played, max_steps=1))
    reference = np.load(tmp_path / "out/data/reference.npy")
    dataset = TokenDataset(tmp_path / "out/data/train")
    plain = AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager")
    for number in (0, 1, 7):
        it = dataset[number]
        ids = torch.tensor(it.ids.astype(np.int64))[None]
        with torch.no_grad():
            table = plain(ids).logits[0].log_softmax(-1)
        whole = sum(table[at - 1, ids[0, at]].item() for at in np.flatnonzero(it.mask))
        assert reference[number] == pytest.approx(whole, abs=1e-3)


def test_a_resumed_training_computes_the_rest_exactly(
    model: Path, played: Path, tmp_path: Path
) -> None:
    whole = recipe(tmp_path / "whole", model, played, save={"state_every": 2})
    parts = recipe(tmp_path / "parts", model, played, save={"state_every": 2})
    train(whole)
    calls = 0
    update = dpo.Learner.update

    def stopping(learner):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return update(learner)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpo.Learner, "update", stopping)
        with pytest.raises(KeyboardInterrupt):
            train(parts)
    train(parts, start=Start.RESUME)
    curves = [
        [row["loss"] for row in read_log(tmp_path / name / "log.jsonl") if "loss" in row]
        for name in ("whole", "parts")
    ]
    assert curves[0] == curves[1]


def test_pairs_that_are_not_far_enough_apart_are_an_error(
    model: Path, played: Path, tmp_path: Path
) -> None:
    values = recipe(tmp_path / "out", model, played, pairs={"min_gap": 1.5})
    with pytest.raises(NothingToTrainOn, match=r"pairs: .* 12 with several records"):
        train(values)
