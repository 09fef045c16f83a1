"""torch and NumPy give the same logits and the same tokens."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import numpy as np  # noqa: E402

from agent_runtime.engine import GenerationRequest, sampler, sampler_numpy  # noqa: E402
from agent_runtime.engine.engine import InferenceEngine, load_engine  # noqa: E402
from agent_runtime.policies import EmbeddedOptions, Sampling  # noqa: E402
from orchestrator import sample  # noqa: E402
from orchestrator.records import episode_key  # noqa: E402
from orchestrator.store import RunReader  # noqa: E402
from tests.agent_runtime.engine.test_numpy_backend import generate  # noqa: E402
from tests.agent_runtime.tiny_arrays import FAMILIES, save_arrays  # noqa: E402

pytestmark = pytest.mark.torch
BACKENDS = ("torch", "numpy")
SETTINGS = [
    Sampling(max_new_tokens=12),
    Sampling(max_new_tokens=12, temperature=0),
    Sampling(max_new_tokens=12, temperature=0.6, top_p=0.9),
    Sampling(max_new_tokens=12, temperature=1.4, top_k=20),
    Sampling(max_new_tokens=12, top_k=40, top_p=0.7),
]


def engine_for(folder: Path, backend: Any) -> InferenceEngine:
    options = EmbeddedOptions(
        backend=backend,
        threads=1,
        max_slots=5,
        cache_gib=0.2,
        device="cpu",
        dtype="float32",
        prefill_tokens=64,
    )
    return load_engine(folder, options)


def play(engine: InferenceEngine, sampling: Sampling, turns: int = 4) -> list[list[int]]:
    """Eight episodes of several turns at once, on five slots: all ids of each."""
    draw = random.Random(5)
    contexts: list[list[int]] = [[] for _ in range(8)]
    for turn in range(turns):
        for context in contexts:
            context += [draw.randrange(420) for _ in range(draw.choice((3, 9, 20)))]
        requests = [
            GenerationRequest(
                prompt=list(context), sampling=sampling, episode_id=str(at), seed=100 * turn + at
            )
            for at, context in enumerate(contexts)
        ]
        for context, result in zip(contexts, generate(engine, requests), strict=True):
            context += result.ids
    return contexts


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_of_whole_contexts_agree(tmp_path: Path, family: str) -> None:
    folder = save_arrays(tmp_path, **FAMILIES[family])
    ids = [random.Random(1).randrange(420) for _ in range(200)]
    first, second = (engine_for(folder, backend).score(ids) for backend in BACKENDS)
    assert second == pytest.approx(first, abs=1e-4)


@pytest.mark.parametrize("family", ["llama", "tied embeddings", "qwen3"])
@pytest.mark.parametrize("sampling", SETTINGS)
def test_episodes_of_several_turns_have_the_same_tokens(
    tmp_path: Path, family: str, sampling: Sampling
) -> None:
    folder = save_arrays(tmp_path, **FAMILIES[family])
    first, second = (play(engine_for(folder, it), sampling) for it in BACKENDS)
    assert second == first


@pytest.mark.parametrize("stored_as", ["float16", "bfloat16"])
def test_half_precisions_are_read_alike(tmp_path: Path, stored_as: Any) -> None:
    folder = save_arrays(tmp_path, stored_as=stored_as)
    ids = [random.Random(2).randrange(420) for _ in range(60)]
    first, second = (engine_for(folder, backend).score(ids) for backend in BACKENDS)
    assert second == pytest.approx(first, abs=1e-4)


def test_equal_logits_and_numbers_give_equal_tokens() -> None:
    draw = np.random.default_rng(0)
    rows = 400
    logits = (3 * draw.standard_normal((rows, 300))).astype(np.float32)
    settings = [SETTINGS[row % len(SETTINGS)] for row in range(rows)]
    uniforms = draw.random(rows).tolist()
    first = sampler.sample(torch.from_numpy(logits), settings, uniforms)
    second = sampler_numpy.sample(logits, settings, uniforms)
    assert second[0] == first[0]
    assert second[1] == pytest.approx(first[1], abs=1e-5)
    assert second[2] == pytest.approx(first[2], abs=1e-4)


def test_the_shipped_agent_says_the_same_on_both(tmp_path: Path) -> None:
    said: list[dict[object, list[str]]] = []
    for backend in BACKENDS:
        out = tmp_path / backend
        flags = ["--policy", "agent", "--episodes", "6", "--embedded.backend", backend]
        assert sample.main([*flags, "--spawn", "1", "--out", str(out)]) == 0
        with RunReader.open(out) as reader:
            assert (reader.manifest.policies or {})["agent"]["backend"] == backend
            said.append(
                {
                    episode_key(it): [message.text for message in it.messages if message.sampled]
                    for it in reader.episodes()
                }
            )
    assert said[0] == said[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_of_which_nothing_is_sampled_is_a_step(tmp_path: Path, backend: str) -> None:
    ids = [random.Random(3).randrange(420) for _ in range(150)]
    request = GenerationRequest(prompt=ids, sampling=SETTINGS[1])
    (result,) = generate(engine_for(save_arrays(tmp_path), backend), [request])
    assert len(result.ids) == 12
