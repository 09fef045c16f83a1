from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from rich.console import Console

from benchmark.training.asynchronous import Asynchronous, measure

pytestmark = [pytest.mark.torch, pytest.mark.slow]


async def test_both_ways_learn_the_steps_that_are_counted_from_tokens_of_bounded_age(
    tmp_path: Path,
):
    options = Asynchronous(
        tasks=2,
        group=2,
        concurrency=4,
        staleness=2,
        barrier_steps=2,
        steps=4,
        step_ms=2.0,
        weights_ms=5.0,
        out=tmp_path / "asynchronous.json",
    )
    sides = await measure(options, Console(quiet=True))
    assert {name: side.steps for name, side in sides.items()} == {"barrier": 1, "asynchronous": 3}
    assert sides["barrier"].token_age_max == 0 < sides["asynchronous"].token_age_max <= 2
    for side in sides.values():
        assert 2 <= side.turns_mean <= 30 and side.steps_per_hour > 0
        for share in (side.learner_idle, side.engine_idle):
            assert 0 <= share <= 1
