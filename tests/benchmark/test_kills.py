from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

from benchmark.training.kills import Kills, measure

pytestmark = [pytest.mark.torch, pytest.mark.slow]


async def test_every_process_may_be_killed_and_every_group_is_learned_from_once(tmp_path: Path):
    """`python -m benchmark.training.kills` does so ten times each."""
    options = Kills(kills=1, steps=12, most_seconds=3.0, step_ms=10.0, limit=240.0, out=None)
    verdict = await measure(options, tmp_path)
    assert verdict.problems == []
    assert set(verdict.killed.values()) == {1} and verdict.sessions >= 2
    assert verdict.steps == 12
