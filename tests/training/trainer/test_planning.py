"""The memory plan against a step on shapes alone, at sizes that no test could compute."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
LLAMA_2_7B = {
    "hidden_size": 4096,
    "layers": 32,
    "heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "context": 4096,
}
QWEN_2_32B = {
    "hidden_size": 5120,
    "layers": 64,
    "heads": 40,
    "kv_heads": 8,
    "intermediate_size": 27648,
    "vocab_size": 152064,
    "context": 32768,
}


@pytest.mark.parametrize(("shape", "processes"), [(LLAMA_2_7B, 8), (QWEN_2_32B, 32)])
def test_the_plan_is_an_upper_bound_and_not_a_loose_one(shape, processes) -> None:
    command = [sys.executable, "-m", "tests.training.trainer.planned_models"]
    done = subprocess.run(
        [*command, json.dumps(shape), str(processes)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["peak"] < found["plan"] < 2 * found["peak"]
