from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.huggingface import HuggingFaceRenderer
from tests.agent_runtime import tiny_tokenizers
from training.data.sequences import Provenance, make_sequence
from training.data.tokenize import CannotTokenize, tokenize

ORIGIN = Provenance(source="", name="c")
MESSAGES = [
    Message(Role.USER, "You are in a maze."),
    Message(Role.ASSISTANT, "OK."),
    Message(Role.USER, "The goal is at position 8, 6."),
    Message(Role.ASSISTANT, "Thought: I should go right.\n\nAction:\nmove right", sampled=True),
    Message(Role.USER, "Your current position is at 3, 4."),
    Message(Role.ASSISTANT, "Action:\nmove left", sampled=True),
]


def renderer_of(family: str, folder: Path) -> HuggingFaceRenderer:
    return HuggingFaceRenderer(tiny_tokenizers.FAMILIES[family](folder))


@pytest.mark.parametrize("family", ["chatml", "llama3", "deepseek"])
def test_the_ids_are_those_of_the_templates_whole_text(family: str, tmp_path: Path) -> None:
    renderer = renderer_of(family, tmp_path)
    (found,) = tokenize(MESSAGES, renderer, ORIGIN)
    whole = renderer.begin(MESSAGES).ids
    assert found.ids.tolist() == whole[: len(found)]


@pytest.mark.parametrize("family", sorted(tiny_tokenizers.FAMILIES))
def test_the_mask_covers_each_reply_and_what_ends_its_turn(family: str, tmp_path: Path) -> None:
    renderer = renderer_of(family, tmp_path)
    (found,) = tokenize(MESSAGES, renderer, ORIGIN)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], found.mask.astype(int), [0]])))
    spans = [found.ids[a:b].tolist() for a, b in edges.reshape(-1, 2)]
    assert [renderer.decode(it).strip() for it in spans] == [
        it.text for it in MESSAGES if it.sampled
    ]
    assert all(it[-1] in renderer.stop_ids for it in spans)
    assert all(not set(it[:-1]) & set(renderer.stop_ids) for it in spans)
    untrained = renderer.decode(found.ids[~found.mask].tolist())
    assert "OK." in untrained and "move" not in untrained


@pytest.mark.parametrize("family", sorted(tiny_tokenizers.FAMILIES))
def test_a_prompt_has_the_ids_that_inference_gives_it(family: str, tmp_path: Path) -> None:
    renderer = renderer_of(family, tmp_path)
    (found,) = tokenize(MESSAGES, renderer, ORIGIN)
    first = int(found.mask.argmax())
    assert found.ids[:first].tolist() == renderer.begin(MESSAGES[:3]).ids


def test_a_conversation_without_trained_replies_gives_nothing(tmp_path: Path) -> None:
    renderer = renderer_of("chatml", tmp_path)
    assert tokenize([it._replace(sampled=False) for it in MESSAGES], renderer, ORIGIN) == []


def test_what_the_template_refuses_cannot_be_tokenised(tmp_path: Path) -> None:
    renderer = renderer_of("mistral", tmp_path)
    with pytest.raises(CannotTokenize, match="only user and assistant speak"):
        tokenize([Message(Role.SYSTEM, "Be brief."), *MESSAGES], renderer, ORIGIN)


def test_a_sequence_ends_with_its_last_target_and_never_begins_with_one() -> None:
    ids, mask = np.arange(6, dtype=np.uint32), np.array([1, 0, 1, 0, 0, 0], np.bool_)
    found = make_sequence(ids, mask, np.full(6, -1, np.float32), ORIGIN)
    assert found is not None
    assert found.ids.tolist() == [0, 1, 2] and found.mask.tolist() == [False, False, True]
    assert found.logprobs is not None and found.logprobs.tolist() == [0, 0, -1]
    assert make_sequence(ids, np.zeros(6, np.bool_), None, ORIGIN) is None
    with pytest.raises(ValueError, match="differ in length"):
        make_sequence(ids, mask[:-1], None, ORIGIN)
