from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import io

import torch
from rich.console import Console

from agent_runtime.engine.config import EmbeddedOptions
from tests.training.makers import without_template, write_conversations, write_recipe
from training import bc
from training.config.recipe import build
from training.config.start import Start
from training.errors import (
    ModelUnusable,
    NotEnoughMemory,
    OutputOccupied,
    RecipeChanged,
    RecipeError,
    TrainingDiverged,
)
from training.runs.tracking import read_log
from training.trainer.loop import TrainingResult

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("data") / "maze.jsonl")


def train(values: dict, **options) -> TrainingResult:
    return bc.train(build(bc.BcRecipe, values), console=Console(file=io.StringIO()), **options)


def losses(folder: Path) -> list[float]:
    return [row["loss"] for row in read_log(folder / "log.jsonl") if "loss" in row]


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory) -> TrainingResult:
    folder = tmp_path_factory.mktemp("bc") / "out"
    values = write_recipe(folder, data, epochs=6)
    values["data"]["held_out"] = 0.2
    return train(values)


def test_the_loss_falls_on_what_is_trained_on_and_on_what_is_held_out(trained) -> None:
    rows = read_log(trained.checkpoint.parent / "log.jsonl")
    curve = [row["loss"] for row in rows if "loss" in row]
    held = [row["held_out_loss"] for row in rows if "held_out_loss" in row]
    assert curve[-1] < 0.6 * curve[0]
    assert held[-1] < 0.8 * held[0] and len(held) == 6
    assert trained.report["steps"] == len(curve)


def test_the_checkpoint_is_a_hugging_face_folder(trained) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(trained.checkpoint)
    tokenizer = AutoTokenizer.from_pretrained(trained.checkpoint)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "The goal is up."}], tokenize=False, add_generation_prompt=True
    )
    assert text.endswith("<|im_start|>assistant\n")
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    assert model(ids).logits.shape[-1] == model.config.vocab_size == len(tokenizer)


def test_the_embedded_engine_plays_it_and_gives_the_same_logprobs(trained) -> None:
    from transformers import AutoModelForCausalLM

    from agent_runtime.engine.engine import load_engine
    from agent_runtime.engine.generation import GenerationRequest, GenerationResult
    from agent_runtime.sampling import Sampling

    engine = load_engine(
        trained.checkpoint, EmbeddedOptions(device="cpu", threads=1, max_slots=2, cache_gib=0.1)
    )
    prompt = [1, 50, 9, 20, 30]
    greedy = Sampling(temperature=0, max_new_tokens=8)
    engine.submit(GenerationRequest(prompt=prompt, sampling=greedy))
    ended = [it for _ in range(20) for it in engine.step()]
    (result,) = [it.outcome for it in ended]
    assert isinstance(result, GenerationResult)
    model = AutoModelForCausalLM.from_pretrained(trained.checkpoint)
    with torch.no_grad():
        logits = model(torch.tensor([prompt + result.ids])).logits[0, len(prompt) - 1 : -1]
    assert logits.argmax(-1).tolist() == result.ids
    expected = logits.log_softmax(-1).max(-1).values.tolist()
    assert result.logprobs == pytest.approx(expected, abs=1e-4)


def test_equal_seeds_give_equal_curves(data: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(write_recipe(tmp_path / name, data, epochs=1))
    assert losses(tmp_path / "one") == losses(tmp_path / "two")


def test_a_resumed_training_computes_the_rest_exactly(data: Path, tmp_path: Path) -> None:
    whole = write_recipe(tmp_path / "whole", data)
    parts = write_recipe(tmp_path / "parts", data)
    for values in (whole, parts):
        values["save"] = {"state_every": 3}
    train(whole)
    stopped = _StopsAt(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bc.Learner, "update", stopped.wrap(bc.Learner.update))
        with pytest.raises(KeyboardInterrupt):
            train(parts)
    assert len(losses(tmp_path / "parts")) == 4
    train(parts, start=Start.RESUME)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert (tmp_path / "parts/final/model.safetensors").read_bytes() == (
        tmp_path / "whole/final/model.safetensors"
    ).read_bytes()


class _StopsAt:
    """Ends the process's work at the n-th update, as a kill does."""

    def __init__(self, update: int) -> None:
        self._left = update

    def wrap(self, update):
        def stopping(learner):
            self._left -= 1
            if not self._left:
                raise KeyboardInterrupt
            return update(learner)

        return stopping


def test_a_complete_training_is_not_repeated(data: Path, tmp_path: Path) -> None:
    values = write_recipe(tmp_path / "out", data, epochs=1)
    first = train(values)
    stamp = (first.checkpoint / "model.safetensors").stat().st_mtime_ns
    again = train(values, start=Start.RESUME)
    assert again.report == first.report
    assert (first.checkpoint / "model.safetensors").stat().st_mtime_ns == stamp


def test_nothing_is_overwritten_unless_asked_for(data: Path, tmp_path: Path) -> None:
    values = write_recipe(tmp_path / "out", data, epochs=1, max_steps=1)
    train(values)
    with pytest.raises(OutputOccupied, match="--resume it, or --overwrite it"):
        train(values)
    with pytest.raises(RecipeChanged, match=r"optimizer\.lr"):
        train(values | {"optimizer": {"lr": 1.0}}, start=Start.RESUME)
    (tmp_path / "out/thesis.txt").write_text("mine")
    train(values | {"max_steps": 2}, start=Start.OVERWRITE)
    assert (tmp_path / "out/thesis.txt").read_text() == "mine"
    assert len(losses(tmp_path / "out")) == 2
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    with pytest.raises(OutputOccupied, match="no training wrote"):
        train(write_recipe(foreign, data), start=Start.OVERWRITE)
    assert (foreign / "thesis.txt").read_text() == "mine"


def test_micro_batches_and_packing_do_not_change_the_curve(data: Path, tmp_path: Path) -> None:
    curves = []
    for name, batch in {
        "packed": {"micro_tokens": 2048},
        "small": {"micro_tokens": 512},
        "single": {"packing": False},
    }.items():
        values = write_recipe(tmp_path / name, data, epochs=1)
        values["batch"] = {"sequences": 6, **batch}
        train(values)
        curves.append(losses(tmp_path / name))
    for curve in curves[1:]:
        assert curve == pytest.approx(curves[0], abs=1e-5)


def test_weights_scale_what_is_learnt_from(data: Path, tmp_path: Path) -> None:
    values = write_recipe(tmp_path / "out", data, epochs=1)
    values["data"]["sources"] = [
        {"path": str(data), "weight": 3.0},
        {"path": str(data), "weight": 0.0},
    ]
    report = train(values).report
    assert report["left_out"] == {"its weight is 0": 24} and report["sequences"] == 24


def test_adapters_are_merged_into_the_checkpoint(trained, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM

    values = write_recipe(tmp_path / "lora", data, epochs=1)
    values["model"] = {
        "path": str(trained.checkpoint),
        "precision": "float32",
        "lora": {"rank": 4, "dropout": 0.1},
    }
    result = train(values)
    ids = torch.arange(3, 40)[None]
    merged = AutoModelForCausalLM.from_pretrained(result.checkpoint)(ids).logits
    adapted = AutoPeftModelForCausalLM.from_pretrained(result.checkpoint / "adapter")(ids).logits
    before = AutoModelForCausalLM.from_pretrained(trained.checkpoint)(ids).logits
    torch.testing.assert_close(merged, adapted, atol=1e-4, rtol=1e-4)
    assert (merged - before).abs().max() > 1e-3


def test_activation_checkpointing_and_bf16_train_as_well(data: Path, tmp_path: Path) -> None:
    values = write_recipe(tmp_path / "out", data, epochs=2)
    values["model"] |= {"precision": "bf16", "activation_checkpointing": True}
    train(values)
    curve = losses(tmp_path / "out")
    assert curve[-1] < 0.9 * curve[0]


def test_too_little_memory_is_known_before_anything_is_loaded(
    data: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("training.trainer.memory.available_bytes", lambda _: 1 << 20)
    with pytest.raises(NotEnoughMemory, match=r"batch\.micro_tokens") as caught:
        train(write_recipe(tmp_path / "out", data))
    assert "model.lora" in str(caught.value)


def test_a_training_that_diverges_says_at_which_step(data: Path, tmp_path: Path) -> None:
    values = write_recipe(tmp_path / "out", data, optimizer={"lr": 1e30, "warmup": 0.0})
    with pytest.raises(TrainingDiverged, match=r"optimizer\.lr: the gradient of step [12] is nan"):
        train(values)


def test_a_plan_is_made_without_training_and_then_carried_out(data: Path, tmp_path: Path) -> None:
    values = write_recipe(tmp_path / "out", data, epochs=1)
    plan = bc.plan(build(bc.BcRecipe, values), console=Console(file=io.StringIO()))
    assert plan.steps == 4 and plan.memory.total > 0
    assert not (tmp_path / "out/log.jsonl").exists()
    assert train(values).report["steps"] == 4


@pytest.mark.parametrize("damage", ["absent", "no weights", "cut off"])
def test_a_model_that_cannot_be_loaded_is_named(
    trained, data: Path, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "model"
    if damage != "absent":
        shutil.copytree(trained.checkpoint, folder)
        weights = folder / "model.safetensors"
        weights.unlink() if damage == "no weights" else weights.write_bytes(b"short")
    values = write_recipe(tmp_path / "out", data) | {"model": {"path": str(folder)}}
    with pytest.raises(ModelUnusable, match=r"model\.path: cannot (read|load)"):
        train(values)


def test_a_model_without_chat_template_is_refused(trained, data: Path, tmp_path: Path) -> None:
    folder = without_template(shutil.copytree(trained.checkpoint, tmp_path / "model"))
    values = write_recipe(tmp_path / "out", data) | {"model": {"path": str(folder)}}
    with pytest.raises(ModelUnusable, match=r"model\.path: .* has no chat template.*: put"):
        train(values)


def test_a_context_beyond_the_models_is_refused(data: Path, tmp_path: Path) -> None:
    values = write_recipe(tmp_path / "out", data)
    values["data"]["context"] = 100_000
    with pytest.raises(RecipeError, match=r"data\.context: is 100000, the model reads 512"):
        train(values)


def test_the_command_trains_and_explains_itself(data: Path, tmp_path: Path, capsys) -> None:
    values = write_recipe(tmp_path / "out", data)
    path = tmp_path / "r.toml"
    path.write_text(f'out = "{values["out"]}"\n[model.init]\nhidden_size = 32\n')
    flags = ["--data.sources", json.dumps([]), "--device", "cpu"]
    assert bc.main([str(path), *flags]) == 2
    assert bc.main([str(path), "--model.inti.heads", "3"]) == 2
    assert "did you mean model.init?" in capsys.readouterr().err
    assert bc.main(["--help"]) == 0
    assert "optimizer.lr: float" in capsys.readouterr().out


def test_shares_repeat_the_sequences_of_an_environment(data, tmp_path):
    other = tmp_path / "wordle.jsonl"
    other.write_text(data.read_text().replace("maze_", "wordle_").split("\n", 6)[0] + "\n")
    values = write_recipe(tmp_path / "out", data, epochs=1, shares={"maze": 1, "wordle": 1})
    values["data"]["sources"].append({"path": str(other)})
    report = train(values).report
    assert (report["sequences"], report["epoch_sequences"], report["steps"]) == (25, 48, 8)
    values = write_recipe(tmp_path / "other", data, shares={"maze": 1, "babyai": 1})
    with pytest.raises(RecipeError, match="shares: are of babyai, maze; the data is of maze"):
        train(values)
