"""The embedded engine against transformers and against itself."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from agent_runtime.engine import GenerationRequest, GenerationResult  # noqa: E402
from agent_runtime.engine.checkpoint import weights_digest  # noqa: E402
from agent_runtime.engine.engine import InferenceEngine, load_engine  # noqa: E402
from agent_runtime.engine.grouping import Group, group_chunks  # noqa: E402
from agent_runtime.engine.torch_backend import read_weights  # noqa: E402
from agent_runtime.errors import (  # noqa: E402
    ContextOverflow,
    PolicyMisbehaved,
    PolicyMisconfigured,
)
from agent_runtime.policies import EmbeddedOptions, FinishReason, Sampling  # noqa: E402
from tests.agent_runtime.tiny_models import LLAMA, LLAMA3_ROPE, save_model, weights  # noqa: E402

pytestmark = pytest.mark.torch
GREEDY = Sampling(temperature=0, max_new_tokens=24)
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama with a head for each query": {"num_key_value_heads": 4},
    "llama-3 scaling": {"rope_scaling": LLAMA3_ROPE, "rope_theta": 500000.0},
    "linear scaling": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "newer spelling": {
        "rope_theta": None,
        "rope_parameters": {**LLAMA3_ROPE, "rope_theta": 20000.0},
        "torch_dtype": None,
        "dtype": "float32",
    },
    "tied embeddings": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "own head size": {"head_dim": 32},
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 16},
    "mistral": {
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "sliding_window": None,
    },
}


def prompts(lengths: Sequence[int], seed: int = 1) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 420, (length,), generator=draw).tolist() for length in lengths]


def engine_for(folder: Path, **options: Any) -> InferenceEngine:
    settings: dict[str, Any] = {"backend": "torch", "threads": 1, "max_slots": 4, "cache_gib": 1}
    settings |= {"device": "cpu"} | options
    return load_engine(folder, EmbeddedOptions(**settings))


def finish(engine: InferenceEngine) -> dict[int, GenerationResult]:
    """Results by the generation's identity."""
    results: dict[int, GenerationResult] = {}
    while engine.running or engine.waiting:
        for ended in engine.step():
            assert isinstance(ended.outcome, GenerationResult)
            results[id(ended.generation)] = ended.outcome
    return results


def generate(
    engine: InferenceEngine, requests: Sequence[GenerationRequest]
) -> list[GenerationResult]:
    started = [engine.submit(request) for request in requests]
    results = finish(engine)
    return [results[id(generation)] for generation in started]


def one(engine: InferenceEngine, prompt: list[int], **request: Any) -> GenerationResult:
    return generate(engine, [GenerationRequest(prompt=prompt, **request)])[0]


def reference(folder: Path, dtype: Any = torch.float32) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model.eval()


def full_logprobs(model: Any, prompt: list[int], reply: list[int], heat: float = 1) -> list[float]:
    """Of a reply's tokens, by one forward pass over all."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + reply])).logits[0].float() / heat
    table = torch.log_softmax(logits, -1)
    return [table[len(prompt) - 1 + at, token].item() for at, token in enumerate(reply)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_replies_are_those_of_transformers(tmp_path: Path, family: str) -> None:
    folder = save_model(tmp_path, **FAMILIES[family])
    model = reference(folder)
    # More prompts than slots, of very different lengths, in one go.
    asked = prompts([3, 40, 17, 90, 1, 33, 150])
    results = generate(
        engine_for(folder, prefill_tokens=64),
        [GenerationRequest(prompt=prompt, sampling=GREEDY) for prompt in asked],
    )
    for prompt, result in zip(asked, results, strict=True):
        ids = torch.tensor([prompt])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=24,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert result.ids == out[0, len(prompt) :].tolist()
        assert result.finish is FinishReason.LENGTH
        expected = full_logprobs(model, prompt, result.ids)
        assert result.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("heat", [0.6, 1.0, 1.7])
def test_logprobs_of_sampled_tokens_are_those_of_a_full_pass(folder: Path, heat: float) -> None:
    model = reference(folder)
    sampling = Sampling(temperature=heat, top_p=0.8, top_k=50, max_new_tokens=30)
    engine = engine_for(folder)
    (prompt,) = prompts([20])
    result = one(engine, prompt, sampling=sampling, seed=5, episode_id="e")
    following = [*prompt, *result.ids, 1, 2, 3]
    second = one(engine, following, sampling=sampling, seed=6, episode_id="e")
    assert second.cached_tokens == 20 + 30 - 1
    for start, reply in ((prompt, result), (following, second)):
        expected = full_logprobs(model, start, reply.ids, heat)
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)


def test_kept_keys_and_copied_prefixes_change_no_reply(folder: Path) -> None:
    starts = [prompts([50])[0] + tail for tail in prompts([4, 1, 9, 30, 2, 2], seed=2)]
    together, contexts = engine_for(folder), [list(start) for start in starts]
    cached = 0
    for turn in range(3):
        results = generate(
            together,
            [
                GenerationRequest(prompt=list(context), sampling=GREEDY, episode_id=f"e{index}")
                for index, context in enumerate(contexts)
            ],
        )
        for context, result in zip(contexts, results, strict=True):
            assert result.ids == one(engine_for(folder), context, sampling=GREEDY).ids
            cached += result.cached_tokens
            context.extend([*result.ids, turn, turn + 1])
    assert cached > 600
    assert together.totals.cached == cached


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_instruction_that_many_share_is_computed_once(folder: Path, dtype: str) -> None:
    """Two environments with an instruction each, all episodes begun in one moment."""
    first, second = prompts([100, 120])
    tails = prompts([4, 17, 9, 30, 2], seed=2)
    starts = [instruction + tail for instruction in (first, second) for tail in tails]
    engine = engine_for(folder, dtype=dtype, max_slots=12)
    requests = [GenerationRequest(prompt=each, sampling=GREEDY) for each in starts]
    results = generate(engine, requests)
    totals = engine.totals
    computed = totals.prompts - totals.cached
    assert totals.prompts == sum(map(len, starts))
    assert computed == len(first) + len(second) + 2 * sum(map(len, tails))
    scores = engine_for(folder, dtype=dtype)
    for start, result in zip(starts, results, strict=True):
        expected = scores.score(start + result.ids)[len(start) - 1 :]
        rounding = 1e-4 if dtype == "float32" else 0.3
        assert result.logprobs == pytest.approx(expected, abs=rounding)


def test_contexts_that_may_differ_are_read_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def group(*args: Any, share_prefixes: bool) -> list[Group]:
        asked.append(share_prefixes)
        return group_chunks(*args, share_prefixes=share_prefixes)

    monkeypatch.setattr("agent_runtime.engine.engine.group_chunks", group)
    engine = engine_for(folder)
    one(engine, prompts([4])[0], sampling=GREEDY)
    assert all(asked)
    asked.clear()
    # The kept cache has keys of old weights beside those of the new ones, for the same ids.
    engine.update_weights(read_weights(folder), "second", keep_cache=True)
    one(engine, prompts([4])[0], sampling=GREEDY)
    assert asked
    assert not any(asked)


def test_a_seed_decides_whatever_else_is_generated(folder: Path) -> None:
    sampling = Sampling(temperature=1.2, max_new_tokens=20)
    (prompt,) = prompts([12])
    wanted = GenerationRequest(prompt=prompt, sampling=sampling, seed=2**63 + 11)
    alone = generate(engine_for(folder), [wanted])[0]
    cut = Sampling(temperature=0.5, top_k=7, top_p=0.9, max_new_tokens=9)
    others = [
        GenerationRequest(prompt=each, sampling=each_sampling, seed=seed)
        for seed, (each, each_sampling) in enumerate(
            zip(
                prompts([5, 70, 31, 2, 9], seed=3),
                [cut, GREEDY, sampling, cut, GREEDY],
                strict=True,
            )
        )
    ]
    crowded = generate(engine_for(folder), [*others[:2], wanted, *others[2:]])[2]
    assert crowded.ids == alone.ids
    other_seed = one(engine_for(folder), prompt, sampling=sampling, seed=12)
    assert other_seed.ids != alone.ids


def test_stop_ids_and_stop_strings_end_a_reply(folder: Path) -> None:
    engine = engine_for(folder)
    engine.decode = lambda ids: "".join(f"<{token}>" for token in ids)
    (prompt,) = prompts([12])
    free = one(engine, prompt, sampling=GREEDY)
    fifth = free.ids[4]
    stopped = one(engine, prompt, sampling=GREEDY, stop_ids=frozenset({fifth}))
    assert stopped.finish is FinishReason.STOP
    assert stopped.ids == free.ids[: free.ids.index(fifth) + 1]
    by_text = Sampling(temperature=0, max_new_tokens=24, stop=(f"<{fifth}>", "never"))
    assert one(engine, prompt, sampling=by_text).ids == stopped.ids


def test_a_full_context_cuts_the_reply(folder: Path) -> None:
    engine = engine_for(folder, context_length=32)
    (prompt,) = prompts([30])
    result = one(engine, prompt, sampling=GREEDY)
    assert result.finish is FinishReason.CONTEXT
    assert len(result.ids) == 2
    with pytest.raises(ContextOverflow):
        engine.submit(GenerationRequest(prompt=prompts([32])[0]))


@pytest.mark.parametrize("keep_cache", [False, True])
def test_weights_change_between_two_tokens(folder: Path, keep_cache: bool) -> None:
    engine = engine_for(folder, version="old")
    (prompt,) = prompts([12])
    before = one(engine, prompt, sampling=GREEDY).ids
    generation = engine.submit(GenerationRequest(prompt=prompt, sampling=GREEDY))
    while generation.length < 10:
        engine.step()
    engine.update_weights(weights(LLAMA, seed=1), "new", keep_cache=keep_cache)
    result = finish(engine)[id(generation)]
    assert [tuple(span) for span in result.versions] == [(0, 10, "old"), (10, 24, "new")]
    assert result.ids[:10] == before[:10]
    fresh = engine_for(folder)
    fresh.update_weights(weights(LLAMA, seed=1), "new")
    rest = Sampling(temperature=0, max_new_tokens=14)
    expected = one(fresh, prompt + before[:10], sampling=rest).ids
    assert (result.ids[10:] == expected) is not keep_cache


def test_a_name_is_not_given_to_other_weights_while_the_cache_may_hold_the_first(
    folder: Path,
) -> None:
    engine = engine_for(folder, version="step-0")
    first, second = weights(LLAMA, seed=1), weights(LLAMA, seed=2)
    engine.update_weights(first, "step-1", keep_cache=True)
    engine.update_weights(
        first, "step-1", keep_cache=True
    )  # an answer was lost, and it is sent again
    with pytest.raises(PolicyMisconfigured, match="'step-0' were served before"):
        engine.update_weights(second, "step-0", keep_cache=True)
    assert engine.version == "step-1"
    engine.update_weights(second, "step-0")  # nothing is kept
    engine.update_weights(first, "step-1", keep_cache=True)
    engine.flush_cache()
    engine.update_weights(second, "step-0", keep_cache=True)
    assert engine.version == "step-0"


def test_a_context_of_old_weights_is_not_reused(folder: Path) -> None:
    engine = engine_for(folder)
    (prompt,) = prompts([40])
    one(engine, prompt, sampling=GREEDY, episode_id="e")
    engine.update_weights(weights(LLAMA, seed=1), "new")
    assert one(engine, prompt, sampling=GREEDY, episode_id="e").cached_tokens == 0


@pytest.mark.parametrize("fault", ["missing", "unknown", "shape"])
def test_weights_of_another_model_change_nothing(folder: Path, fault: str) -> None:
    engine = engine_for(folder, version="old")
    (prompt,) = prompts([12])
    before = one(engine, prompt, sampling=GREEDY)
    other = weights(LLAMA, seed=1)
    name = "model.layers.2.mlp.up_proj.weight"
    if fault == "missing":
        del other[name]
    elif fault == "unknown":
        other["model.layers.3.mlp.up_proj.weight"] = other[name]
    else:
        other[name] = other[name][:-1]
    with pytest.raises(PolicyMisconfigured, match="another model"):
        engine.update_weights(other, "new")
    assert one(engine, prompt, sampling=GREEDY) == before


def test_weights_without_a_number_fail_the_reply_and_good_ones_heal(folder: Path) -> None:
    engine = engine_for(folder)
    (prompt,) = prompts([12])
    before = one(engine, prompt, sampling=GREEDY).ids
    good = read_weights(folder)
    bad = dict(good)
    bad["model.layers.1.mlp.up_proj.weight"] = good["model.layers.1.mlp.up_proj.weight"] * math.nan
    engine.update_weights(bad, "broken")
    engine.submit(GenerationRequest(prompt=prompt, sampling=GREEDY, episode_id="e"))
    (ended,) = engine.step()
    assert isinstance(ended.outcome, PolicyMisbehaved)
    assert "broken" in str(ended.outcome)
    engine.update_weights(good, "healed")
    assert one(engine, prompt, sampling=GREEDY, episode_id="e").ids == before


def test_an_aborted_generation_gives_what_it_has(folder: Path) -> None:
    engine = engine_for(folder)
    first, second, waiting = (
        engine.submit(GenerationRequest(prompt=prompt, sampling=GREEDY))
        for prompt in prompts([5, 6, 7])
    )
    for _ in range(4):
        engine.step()
    result = engine.abort(first)
    assert result is not None
    assert (len(result.ids), result.finish) == (4, FinishReason.ABORT)
    assert engine.abort(first) is None
    assert all(engine.abort(generation) is not None for generation in (second, waiting))
    assert engine.step() == []


@pytest.mark.parametrize("family", ["llama", "llama-3 scaling", "tied embeddings", "qwen3"])
def test_bfloat16_rounds_no_worse_than_transformers(tmp_path: Path, family: str) -> None:
    folder = save_model(tmp_path, **FAMILIES[family])
    exact, rough = reference(folder), reference(folder, torch.bfloat16)
    engine = engine_for(folder, dtype="bfloat16", prefill_tokens=64)
    asked = [GenerationRequest(prompt=each, sampling=GREEDY) for each in prompts([3, 40, 90, 60])]
    ours, theirs = list[float](), list[float]()
    for request, result in zip(asked, generate(engine, asked), strict=True):
        wanted = full_logprobs(exact, request.prompt, result.ids)
        other = full_logprobs(rough, request.prompt, result.ids)
        ours += [abs(one - two) for one, two in zip(result.logprobs, wanted, strict=True)]
        theirs += [abs(one - two) for one, two in zip(other, wanted, strict=True)]
    assert sum(ours) <= 1.3 * sum(theirs)
    assert max(ours) < 0.5


@pytest.mark.parametrize("length", [2, 40, 256])
def test_scores_are_those_of_transformers(folder: Path, length: int) -> None:
    (ids,) = prompts([length])
    engine = engine_for(folder)
    expected = full_logprobs(reference(folder), ids[:1], ids[1:])
    assert engine.score(ids) == pytest.approx(expected, abs=1e-4)
    assert engine.score(ids[:1]) == []
    with pytest.raises(ContextOverflow):
        engine.score([1] * 257)


def test_scoring_between_two_tokens_disturbs_nobody(folder: Path) -> None:
    (prompt,) = prompts([12])
    expected = one(engine_for(folder), prompt, sampling=GREEDY).ids
    engine = engine_for(folder)
    generation = engine.submit(GenerationRequest(prompt=prompt, sampling=GREEDY))
    while generation.length < 10:
        engine.step()
        engine.score(prompts([30], seed=9)[0])
    assert finish(engine)[id(generation)].ids == expected


def test_a_reply_that_goes_on_in_a_new_request_is_the_same(folder: Path) -> None:
    (prompt,) = prompts([12])
    sampling = Sampling(temperature=1.3, top_p=0.95, max_new_tokens=20)
    whole = one(engine_for(folder), prompt, sampling=sampling, seed=4)
    rest = Sampling(temperature=1.3, top_p=0.95, max_new_tokens=13)
    later = one(engine_for(folder), prompt + whole.ids[:7], sampling=rest, seed=4)
    assert later.ids == whole.ids[7:]


def test_a_prompt_of_another_tokenizer_is_refused(folder: Path) -> None:
    with pytest.raises(PolicyMisconfigured, match="same model"):
        engine_for(folder).submit(GenerationRequest(prompt=[419, 420]))


def test_slots_are_as_many_as_memory_holds(folder: Path) -> None:
    # 256 positions * 3 layers * 2 heads * 16 * 2 * 4 bytes = 192 KiB a slot.
    assert engine_for(folder, cache_gib=10 * 192 / 2**20, max_slots=50).slots == 10
    with pytest.raises(PolicyMisconfigured, match="context-length"):
        engine_for(folder, cache_gib=1e-5)


def test_equal_files_have_equal_versions(folder: Path, tmp_path: Path) -> None:
    assert engine_for(folder).version == weights_digest(save_model(tmp_path / "same"))
    assert weights_digest(folder) != weights_digest(save_model(tmp_path / "other", seed=1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "gpt2"}, "sglang"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ({"partial_rotary_factor": 0.5}, "partial"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": 4}, "missing"),
    ],
)
def test_a_model_that_cannot_be_computed_is_refused(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    save_model(tmp_path)
    config = {**json.loads((tmp_path / "config.json").read_text()), **change}
    config = {key: value for key, value in config.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(PolicyMisconfigured, match=words):
        engine_for(tmp_path)


def test_a_context_beyond_the_models_is_refused(folder: Path) -> None:
    with pytest.raises(PolicyMisconfigured, match="256"):
        engine_for(folder, context_length=257)


def test_a_folder_without_weights_says_what_to_do(tmp_path: Path) -> None:
    save_model(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(PolicyMisconfigured, match="save_pretrained"):
        engine_for(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(PolicyMisconfigured, match="cannot read"):
        engine_for(tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_replies_of_a_cpu(folder: Path) -> None:
    asked = [GenerationRequest(prompt=prompt, sampling=GREEDY) for prompt in prompts([3, 40, 90])]
    on_cpu, on_gpu = (
        generate(engine_for(folder, device=device, dtype="float32"), asked)
        for device in ("cpu", "cuda")
    )
    for left, right in zip(on_cpu, on_gpu, strict=True):
        assert left.ids == right.ids
        assert left.logprobs == pytest.approx(right.logprobs, abs=1e-3)
