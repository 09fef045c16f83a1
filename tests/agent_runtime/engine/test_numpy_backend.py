"""The engine on NumPy, against a plain forward pass over whole contexts; no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_runtime.engine import GenerationRequest, GenerationResult, backend
from agent_runtime.engine.checkpoint import read_architecture, weights_digest
from agent_runtime.engine.engine import InferenceEngine, load_engine
from agent_runtime.engine.tensor_file import Array, read_tensors
from agent_runtime.errors import PolicyMisbehaved, PolicyMisconfigured
from agent_runtime.policies import EmbeddedOptions, FinishReason, Sampling
from tests.agent_runtime.plain_llama import plain_logprobs
from tests.agent_runtime.tiny_arrays import FAMILIES, save_arrays

GREEDY = Sampling(temperature=0, max_new_tokens=12)


def engine_for(folder: Path, **options: Any) -> InferenceEngine:
    settings: dict[str, Any] = {"backend": "numpy", "max_slots": 4, "cache_gib": 0.1}
    return load_engine(folder, EmbeddedOptions(**{**settings, **options}))


def prompts(lengths: Sequence[int], seed: int = 1) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 420, length).tolist() for length in lengths]


def generate(
    engine: InferenceEngine, requests: Sequence[GenerationRequest]
) -> list[GenerationResult]:
    started = [engine.submit(request) for request in requests]
    results: dict[int, GenerationResult] = {}
    while engine.running or engine.waiting:
        for ended in engine.step():
            assert isinstance(ended.outcome, GenerationResult)
            results[id(ended.generation)] = ended.outcome
    return [results[id(generation)] for generation in started]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_arrays(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_replies_are_those_of_a_plain_forward_pass(tmp_path: Path, family: str) -> None:
    folder = save_arrays(tmp_path, **FAMILIES[family])
    # More prompts than slots, of very different lengths, in one go and in parts.
    asked = prompts([3, 40, 17, 1, 33, 70])
    results = generate(
        engine_for(folder, prefill_tokens=24),
        [GenerationRequest(prompt=prompt, sampling=GREEDY) for prompt in asked],
    )
    for prompt, result in zip(asked, results, strict=True):
        table = plain_logprobs(folder, prompt + result.ids[:-1])[len(prompt) - 1 :]
        assert result.ids == table.argmax(-1).tolist()
        expected = [table[at, token] for at, token in enumerate(result.ids)]
        assert result.logprobs == pytest.approx(expected, abs=1e-4)
        assert result.finish is FinishReason.LENGTH


def test_scores_are_those_of_a_plain_forward_pass(folder: Path) -> None:
    (ids,) = prompts([50])
    table = plain_logprobs(folder, ids)
    expected = [table[at, token] for at, token in enumerate(ids[1:])]
    assert engine_for(folder).score(ids) == pytest.approx(expected, abs=1e-4)


def test_later_turns_use_what_the_slot_holds(folder: Path) -> None:
    engine, fresh = engine_for(folder), engine_for(folder)
    context: list[int] = []
    for turn, more in enumerate(prompts([20, 5, 9])):
        context += more
        request = GenerationRequest(prompt=list(context), sampling=GREEDY, episode_id="e")
        (kept,) = generate(engine, [request])
        (anew,) = generate(fresh, [GenerationRequest(prompt=list(context), sampling=GREEDY)])
        assert kept.ids == anew.ids
        assert (kept.cached_tokens > 0) == (turn > 0)
        context += kept.ids


def test_a_seed_decides_whatever_else_is_generated(folder: Path) -> None:
    sampling = Sampling(temperature=1.2, top_p=0.9, max_new_tokens=16)
    (prompt,) = prompts([12])
    request = GenerationRequest(prompt=prompt, sampling=sampling, seed=7)
    (alone,) = generate(engine_for(folder), [request])
    others = [GenerationRequest(prompt=it, seed=at) for at, it in enumerate(prompts([5, 60, 9], 4))]
    *_, crowded = generate(engine_for(folder, prefill_tokens=16), [*others, request])
    assert crowded.ids == alone.ids


def test_int8_is_computed_as_a_plain_forward_pass_computes_what_it_stands_for(
    tmp_path: Path,
) -> None:
    folder = save_arrays(tmp_path, stored_as="int8")
    (ids,) = prompts([50])
    table = plain_logprobs(folder, ids)
    expected = [table[at, token] for at, token in enumerate(ids[1:])]
    assert engine_for(folder).score(ids) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("stored_as", "worst"), [("float16", 0.05), ("bfloat16", 0.4), ("int8", 1.0)]
)
def test_precisions_of_fewer_bits_are_widened(
    tmp_path: Path, folder: Path, stored_as: Any, worst: float
) -> None:
    (ids,) = prompts([40])
    half = engine_for(save_arrays(tmp_path, stored_as=stored_as))
    assert half.score(ids) == pytest.approx(engine_for(folder).score(ids), abs=worst)


def test_weights_change_between_two_tokens(tmp_path: Path, folder: Path) -> None:
    other = save_arrays(tmp_path, seed=9)
    engine = engine_for(folder)
    generation = engine.submit(GenerationRequest(prompt=[1, 2, 3], sampling=GREEDY))
    for _ in range(4):
        engine.step()
    engine.update_weights(engine.backend.read_weights(other), "new")
    while engine.running:
        engine.step()
    result = generation.result(FinishReason.LENGTH)
    assert [(it.start, it.version) for it in result.versions] == [
        (0, weights_digest(folder)),
        (4, "new"),
    ]
    table = plain_logprobs(other, [1, 2, 3, *result.ids[:-1]])[6:]
    assert result.ids[4:] == table.argmax(-1).tolist()


def changed(weights: dict[str, Array], fault: str) -> dict[str, Array]:
    if fault == "missing":
        return {name: it for name, it in weights.items() if name != "model.norm.weight"}
    if fault == "unknown":
        return {**weights, "model.extra": np.zeros(1, np.float32)}
    return {**weights, "lm_head.weight": np.zeros((3, 64), np.float32)}


@pytest.mark.parametrize("fault", ["missing", "unknown", "is [3, 64], not"])
def test_weights_of_another_model_change_nothing(folder: Path, fault: str) -> None:
    engine = engine_for(folder)
    (ids,) = prompts([10])
    before = engine.score(ids)
    weights = changed(dict(engine.backend.read_weights(folder)), fault)
    with pytest.raises(PolicyMisconfigured, match="another model") as caught:
        engine.update_weights(weights, "new")
    assert fault in str(caught.value)
    assert engine.score(ids) == before


def test_weights_without_a_number_fail_the_reply_and_good_ones_heal(folder: Path) -> None:
    engine = engine_for(folder, max_slots=1)
    good = dict(engine.backend.read_weights(folder))
    norm = np.full_like(good["model.norm.weight"], np.nan)
    engine.update_weights({**good, "model.norm.weight": norm}, "bad")
    engine.submit(GenerationRequest(prompt=[1, 2, 3], sampling=GREEDY))
    (ended,) = engine.step()
    assert isinstance(ended.outcome, PolicyMisbehaved)
    engine.update_weights(good, "good")
    request = GenerationRequest(prompt=[1, 2, 3], sampling=GREEDY)
    assert generate(engine, [request])[0].ids == generate(engine_for(folder), [request])[0].ids


# Which backend computes ------------------------------------------------------------


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "is_installed", lambda module: module != "torch")


def test_numpy_is_taken_where_torch_is_not_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_torch(monkeypatch)
    assert engine_for(folder, backend="auto").backend.name == "numpy"


def test_a_large_model_is_not_computed_by_numpy_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_torch(monkeypatch)
    large = {"vocab_size": 32_000, "hidden_size": 1024, "num_hidden_layers": 12}
    save_arrays(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **large}))
    with pytest.raises(PolicyMisconfigured, match=r"million parameters needs torch: .*pip install"):
        engine_for(tmp_path, backend="auto")
    architecture = read_architecture(tmp_path)
    assert backend.choose_backend(EmbeddedOptions(backend="numpy"), architecture) == "numpy"


def test_parameters_are_counted_from_the_configuration(folder: Path) -> None:
    tensors = read_tensors(folder / "model.safetensors")
    matrices = sum(it.size for it in tensors.values() if it.ndim == 2)
    assert read_architecture(folder).parameters == matrices


@pytest.mark.parametrize("options", [{"device": "cuda"}, {"dtype": "bfloat16"}])
def test_what_numpy_does_not_have_is_refused_with_what_has_it(
    folder: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(PolicyMisconfigured, match=r"pip install .*\[torch\]"):
        engine_for(folder, **options)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="auto, torch, numpy"):
        EmbeddedOptions(backend="jax")  # pyright: ignore[reportArgumentType]


def run_code(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_engine_itself_imports_neither_numpy_nor_torch() -> None:
    code = (
        "import sys\n"
        "import agent_runtime.engine.worker, agent_runtime.engine.http_server\n"
        "import agent_runtime.engine.numpy_backend, agent_runtime.policies.packaged\n"
        "print(sorted({'numpy', 'torch', 'safetensors'} & set(sys.modules)))"
    )
    assert run_code(code) == "[]"


def test_threads_are_set_for_numpy_alone_and_the_environment_is_left_as_it_was() -> None:
    code = (
        "import os, sys\n"
        "os.environ.pop('OPENBLAS_NUM_THREADS', None); os.environ['OMP_NUM_THREADS'] = '3'\n"
        "before = dict(os.environ)\n"
        "from agent_runtime.engine.numpy_backend import import_numpy\n"
        "import_numpy(1)\n"
        "print('numpy' in sys.modules, dict(os.environ) == before)"
    )
    assert run_code(code) == "True True"
