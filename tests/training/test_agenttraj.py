"""Cloning of recorded conversations: the recipes of this repository on real data."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from rich.console import Console

from orchestrator.conversations import read_conversations
from tests.kit.data import REPOSITORY, require_data
from training import bc, dpo
from training.config.recipe import load_recipe
from training.data.dataset import TokenDataset
from training.runs.tracking import read_log

pytestmark = pytest.mark.torch


def recorded() -> Path:
    return require_data("agenttraj_l") / "agenttraj_l"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (bc.BcRecipe, "bc-agenttraj"),
        (bc.BcRecipe, "bc-1b-h100"),
        (dpo.DpoRecipe, "dpo"),
    ],
)
def test_the_recipes_of_the_repository_are_sound(kind: type, name: str) -> None:
    assert load_recipe(kind, REPOSITORY / f"recipes/{name}.toml").out == Path(f"runs/{name}")


@pytest.mark.slow
def test_cloning_recorded_conversations_learns_and_leaves_nothing_out_silently(
    tmp_path: Path,
) -> None:
    folder = recorded()
    recipe = load_recipe(
        bc.BcRecipe,
        REPOSITORY / "recipes/bc-agenttraj.toml",
        {
            "out": str(tmp_path / "out"),
            "data.sources.0.path": str(folder),
            "data.sources.0.limit": 24,
            "data.sources.0.environments": ["babyai", "textcraft", "webshop"],
            "data.context": 2048,
            "model.init.hidden_size": 64,
            "model.init.layers": 2,
            "model.init.tokenizer.vocab_size": 1024,
            "optimizer.lr": 5e-3,
            "device": "cpu",
            "epochs": 3,
            "max_steps": 16,
            "tracking.tensorboard": False,
        },
    )
    bc.train(recipe, console=Console(file=io.StringIO()))
    curve = [row["loss"] for row in read_log(tmp_path / "out/log.jsonl") if "loss" in row]
    assert len(curve) == 16
    assert sum(curve[-3:]) < 0.9 * sum(curve[:3])
    train, kept = (TokenDataset(tmp_path / "out/data" / name) for name in ("train", "held_out"))
    left = [*train.left_out(), *kept.left_out()]
    assert len(train) + len(kept) + len(left) == 3 * 24
    known = {
        f"{it.item_id}#{it.number}"
        for name in ("babyai", "textcraft", "webshop")
        for it in read_conversations(folder / f"{name}.jsonl.gz")
    }
    assert left and all(it["name"] in known and it["tokens"] > 2048 for it in left)
