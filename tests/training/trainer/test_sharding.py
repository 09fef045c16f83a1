"""Sharded models in several processes over gloo, as they are on several GPUs over NCCL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from tests.agent_runtime.tiny_models import save_model

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module", params=[2, 4])
def seen(request, tmp_path_factory) -> dict[str, Any]:
    """What the first of so many processes saw; the embedding is the head of this model."""
    folder = save_model(tmp_path_factory.mktemp("model"), tie_word_embeddings=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command += [str(request.param), "-m", "tests.training.trainer.sharded_models", str(folder)]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_gradients_are_reduced_once_per_update_and_are_the_same(seen) -> None:
    once, always = seen["once"], seen["always"]
    assert always["reduce_scatters"] == 3 * once["reduce_scatters"] > 0
    assert once["norm"] == pytest.approx(always["norm"], rel=1e-5)


def test_the_first_process_reads_and_all_have_its_weights(seen) -> None:
    for loaded in (seen["full"], seen["lora"]):
        assert loaded["readers"][0] == 1 and not any(loaded["readers"][1:])
        assert loaded["names"] and loaded["difference"] == 0.0 and loaded["gradients"]


def test_what_is_frozen_is_kept_as_it_is_computed(seen) -> None:
    assert seen["full"]["dtypes"] == ["torch.float32 True"]
    assert seen["lora"]["dtypes"] == ["torch.bfloat16 False", "torch.float32 True"]


def test_compiled_shards_learn_what_one_uncompiled_process_learns(seen) -> None:
    assert seen["compiled"]
    for name, found in seen["compiled"].items():
        assert found["losses"] < 1e-4 and found["weights"] < 1e-4, name
        assert found["breaks"] == 0, name
        # Of all trainings so far: a further one must not compile everything again.
        assert 1 <= found["graphs"] <= 8, name


def test_the_main_process_is_waited_for_and_a_hung_one_is_noticed(seen) -> None:
    waiting = seen["waiting"]
    assert waiting["value"] == "of 0"
    assert not waiting["noticed"][0] and all(waiting["noticed"][1:])
