from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import torch

from tests.agent_runtime.tiny_models import save_model
from training.data.sequences import Provenance, TokenSequence, make_sequence
from training.trainer.batches import collate, target_logprobs
from training.trainer.distributed import distributed_context
from training.trainer.models import ModelConfig, load_for_training

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


def sequence(length: int, seed: int, *, weight: float = 1.0, recorded: bool = True):
    draw = np.random.default_rng(seed)
    mask = draw.random(length) < 0.4
    mask[-1] = True
    found = make_sequence(
        draw.integers(0, 420, length).astype(np.uint32),
        mask,
        np.full(length, -0.5, np.float32) if recorded else None,
        Provenance(source="", name=str(seed)),
        weight,
    )
    assert found is not None
    return found


SEQUENCES = [sequence(length, seed) for seed, length in enumerate((5, 40, 2, 17, 90))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


def load(folder: Path, attention: str, **options):
    config = ModelConfig(path=str(folder), precision="float32", attention=attention, **options)
    with distributed_context("cpu") as dist:
        return load_for_training(folder, config, dist)


def alone(folder: Path, it: TokenSequence) -> list[float]:
    """Logprobs of the targets by transformers itself, without packing of any kind."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    ids = torch.tensor(it.ids.astype(np.int64))[None]
    with torch.no_grad():
        table = model(ids).logits[0].log_softmax(-1)
    return [table[at - 1, ids[0, at]].item() for at in np.flatnonzero(it.mask)]


@pytest.mark.parametrize("attention", ["packed", "sdpa", "eager"])
def test_what_is_packed_together_never_meets(folder: Path, attention: str) -> None:
    model = load(folder, attention)
    batch = collate(SEQUENCES, CPU)
    with torch.no_grad():
        found = target_logprobs(model, batch)
    for number, it in enumerate(SEQUENCES):
        mine = found[batch.sequence_index == number].tolist()
        assert mine == pytest.approx(alone(folder, it), abs=1e-5)


def test_packed_and_unpacked_losses_and_gradients_are_equal(folder: Path) -> None:
    model = load(folder, "packed")
    norm = sum(it.targets for it in SEQUENCES)

    def learn(groups: list[list[TokenSequence]]) -> tuple[float, list[torch.Tensor]]:
        model.zero_grad()
        total = 0.0
        for group in groups:
            loss = -target_logprobs(model, collate(group, CPU)).sum() / norm
            loss.backward()
            total += loss.item()
        return total, [it.grad.clone() for it in model.parameters()]

    packed, gradients = learn([SEQUENCES])
    single, expected = learn([[it] for it in SEQUENCES])
    assert packed == pytest.approx(single, abs=1e-5)
    for found, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_checkpointed_activations_give_the_same_gradients(folder: Path) -> None:
    batch = collate(SEQUENCES, CPU)
    found = []
    for wanted in (False, True):
        model = load(folder, "packed", activation_checkpointing=wanted)
        target_logprobs(model, batch).sum().backward()
        found.append([it.grad for it in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_a_batch_says_what_its_sequences_say() -> None:
    heavy = sequence(6, 7, weight=2.5)
    batch = collate([SEQUENCES[0], heavy], CPU)
    assert batch.ids[0].tolist() == [*SEQUENCES[0].ids, *heavy.ids]
    assert batch.positions[0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5]
    assert batch.cu_seqlens.tolist() == [0, 5, 11] and batch.max_seqlen == 6
    assert batch.tokens == 11 and batch.squared_lengths == 25 + 36
    places = [*np.flatnonzero(SEQUENCES[0].mask), *(5 + np.flatnonzero(heavy.mask))]
    assert batch.logit_indices.tolist() == [at - 1 for at in places]
    assert batch.targets.tolist() == [batch.ids[0, at].item() for at in places]
    assert set(batch.weights[batch.sequence_index == 1].tolist()) == {2.5}
    assert batch.old_logprobs is not None and set(batch.old_logprobs.tolist()) == {-0.5}
    assert collate([sequence(4, 1, recorded=False)], CPU).old_logprobs is None


@pytest.mark.parametrize("group", [[], [SEQUENCES[2]]])
def test_padding_and_empty_batches_change_nothing(folder: Path, group) -> None:
    model = load(folder, "packed")
    plain, padded = collate(group, CPU), collate(group, CPU, pad_to=64)
    assert padded.ids.shape == (1, 64)
    one, other = (
        (batch.weights * target_logprobs(model, batch)).sum() for batch in (plain, padded)
    )
    assert one.item() == pytest.approx(other.item(), abs=1e-6)
    if not group:
        assert one.item() == 0
