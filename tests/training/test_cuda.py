"""What only a GPU shows: kernels, NCCL, sharding on one device, an engine beside a learner.

`python -m benchmark.training.gpu --parts tests` runs them where there is one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402

from agent_runtime.engine import GenerationRequest  # noqa: E402
from agent_runtime.engine.engine import load_engine  # noqa: E402
from agent_runtime.policies import EmbeddedOptions, Sampling  # noqa: E402
from tests.training.makers import write_conversations, write_echo_recipe, write_recipe  # noqa: E402
from training import bc, grpo  # noqa: E402
from training.config.recipe import build  # noqa: E402
from training.config.start import Start  # noqa: E402
from training.data.sequences import Provenance, TokenSequence  # noqa: E402
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer  # noqa: E402
from training.runs.tracking import read_log  # noqa: E402
from training.trainer.batches import collate, target_logprobs  # noqa: E402
from training.trainer.distributed import distributed_context  # noqa: E402
from training.trainer.models import (  # noqa: E402
    InitConfig,
    ModelConfig,
    create_base,
    load_for_training,
    precision_context,
)

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(
        tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11),
        reason="packed attention needs torch 2.11",
    ),
]

CONTEXT = 1024


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """Random weights: heads of 64, two of them to each of keys and values."""
    folder = tmp_path_factory.mktemp("base")
    texts = ["user assistant maze. The goal is up, 3 steps away. Thought: Action: move"]
    train_tokenizer(texts, folder / "tok", TokenizerConfig(vocab_size=300))
    init = InitConfig(hidden_size=256, layers=2, heads=4, kv_heads=2, context=CONTEXT)
    return create_base(init, folder / "tok", folder / "model", seed=1)


def sequences(lengths: list[int]) -> list[TokenSequence]:
    draw = np.random.default_rng(0)
    return [
        TokenSequence(
            ids=draw.integers(0, 260, length).astype(np.uint32),
            mask=np.arange(length) > 0,
            logprobs=None,
            origin=Provenance(source="test", name=str(length)),
        )
        for length in lengths
    ]


@pytest.mark.parametrize("compiled", [False, True])
def test_packed_sequences_have_the_likelihoods_that_each_has_alone(base, compiled):
    chosen = sequences([5, 300, 64, 129, 526])
    plain = ModelConfig(path=str(base), precision="float32", attention="eager")
    packed = ModelConfig(path=str(base), precision="bf16", compile=compiled)
    with distributed_context("cpu") as dist:
        model = load_for_training(base, plain, dist)
        with torch.no_grad():
            alone = [target_logprobs(model, collate([it], dist.device)) for it in chosen]
    with distributed_context("cuda") as dist:
        model = load_for_training(base, packed, dist)
        batch = collate(chosen, dist.device, pad_to=CONTEXT)
        with precision_context(packed, dist):
            found = target_logprobs(model, batch)
        found.sum().backward()
        gradients = [it.grad for it in model.parameters()]
        assert all(it is not None and bool(it.isfinite().all()) for it in gradients)
        torch.testing.assert_close(found.detach().cpu(), torch.cat(alone), atol=0.05, rtol=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_sharded_model_on_one_gpu_learns_and_goes_on(tmp_path, compiled):
    data = write_conversations(tmp_path / "maze.jsonl")
    values = write_recipe(tmp_path / "out", data, epochs=6, device="cuda")
    values["model"] = {
        "precision": "bf16",
        "compile": compiled,
        "init": {
            "hidden_size": 128,
            "layers": 2,
            "heads": 2,
            "context": 512,
            "tokenizer": {"vocab_size": 300},
        },
    }
    values["save"] = {"state_every": 4}
    quiet = Console(quiet=True)
    stopped = values | {"max_steps": 0}
    with pytest.MonkeyPatch.context() as patch:
        update = bc.Learner.update

        def stop_in_step_ten(learner):
            if learner.step == 10:
                raise KeyboardInterrupt
            return update(learner)

        patch.setattr(bc.Learner, "update", stop_in_step_ten)
        with pytest.raises(KeyboardInterrupt):
            bc.train(build(bc.BcRecipe, stopped), console=quiet)
    result = bc.train(build(bc.BcRecipe, stopped), start=Start.RESUME, console=quiet)
    losses = [row["loss"] for row in read_log(tmp_path / "out/log.jsonl") if "loss" in row]
    assert len(losses) == result.report["steps"] == 24
    assert losses[-1] < 0.7 * losses[0]


def test_an_agent_learns_beside_the_engine_that_plays_it(base, tmp_path):
    values = write_echo_recipe(
        tmp_path / "run", base, device="cuda", model={"path": str(base)}, normalise=True, group=8
    )
    values["rollout"]["embedded"] = {"context_length": 512, "max_slots": 64, "cache_gib": 1}
    recipe = build(grpo.GRPORecipe, values)
    final = grpo.train(recipe, console=Console(quiet=True))
    assert (final / "model.safetensors").is_file()
    rows = read_log(recipe.out / "log.jsonl")
    assert [row["episodes"] for row in rows] == [16, 16]
    # Recorded by the engine, computed again by the learner: the same weights.
    assert all(row.get("ratio_dev", 0.0) < 0.05 for row in rows)


def test_a_thousand_contexts_are_generated_at_once(base):
    options = EmbeddedOptions(
        device="cuda", dtype="bfloat16", max_slots=1100, cache_gib=4, prefill_tokens=16384
    )
    engine = load_engine(base, options)
    assert engine.slots == 1100
    draw = np.random.default_rng(0)
    shared = draw.integers(0, 260, 80).tolist()
    most = ended = 0
    for number in range(1100):
        prompt = shared + draw.integers(0, 260, 20 + number % 50).tolist()
        sampling = Sampling(temperature=1.0, max_new_tokens=24)
        engine.submit(GenerationRequest(prompt=prompt, sampling=sampling, seed=number))
    while engine.running or engine.waiting:
        for it in engine.step():
            ended += 1
            assert len(it.outcome.ids) == 24
            assert all(np.isfinite(it.outcome.logprobs))
        most = max(most, engine.running)
    assert (most, ended) == (1100, 1100)
