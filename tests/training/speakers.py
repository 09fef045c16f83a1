"""A model that is trained within seconds and has something to learn: it speaks half of the time."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from tests.training.makers import write_recipe
from training import bc
from training.config.recipe import build

__all__ = ["train_speaker"]


def train_speaker(folder: Path) -> Path:
    """Train a model that has seen as many replies with an action as without one."""
    entries = []
    for number in range(24):
        turns = [
            {"from": "human", "loss": None, "value": "say"},
            {"from": "gpt", "loss": False, "value": "yes"},
        ]
        for turn in range(2):
            action = "hello" if (number + turn) % 2 else ""
            turns += [
                {"from": "human", "loss": None, "value": f"Step {turn}: abc {number}"},
                {"from": "gpt", "loss": True, "value": f"Thought:\nI talk.\n\nAction:\n{action}"},
            ]
        entries.append({"conversations": turns, "item_id": f"echo_{number}"})
    (folder / "talk.json").write_text(json.dumps(entries))
    recipe = write_recipe(folder / "bc", folder / "talk.json", epochs=12)
    return bc.train(build(bc.BcRecipe, recipe), console=Console(quiet=True)).checkpoint
