from __future__ import annotations

from pathlib import Path

from agent_runtime.conversation import Message, Role
from agent_runtime.huggingface import HuggingFaceRenderer
from training.data.shared_text import find_shared_passages, without_passages
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer

RULES = "You stand in a maze and walk to its goal. Walls are told, and nothing else is. " * 3
CLOSING = "\n\nThat was an example of another game, and a new one begins here, so make a move. " * 3
OPENED = [f"{RULES}The goal is at position 1{n}, {n}.{CLOSING}" for n in range(8)]
SHORT = [f"The goal is at position 1{n}, {n}." for n in range(40)]


def test_what_many_texts_begin_and_end_with_is_found_up_to_a_whole_word() -> None:
    found = find_shared_passages([*OPENED, *SHORT], 10)
    # The numbers between them begin alike in all texts, and are words of their own.
    assert found == [f"{RULES}The goal is at position", CLOSING.lstrip()]


def test_a_text_that_is_always_the_same_is_a_passage() -> None:
    assert find_shared_passages([RULES.strip()] * 3 + SHORT, 10) == [RULES.strip()]


def test_what_one_text_has_and_what_is_short_is_none() -> None:
    assert find_shared_passages([OPENED[0], *SHORT], 10) == []
    assert find_shared_passages([], 10) == []


def test_the_passages_that_save_most_are_taken_and_equal_texts_give_equal_ones() -> None:
    (most,) = find_shared_passages([*OPENED, *SHORT], 1)
    assert most.startswith(RULES)
    assert find_shared_passages(OPENED, 5) == find_shared_passages(list(OPENED), 5)


def test_what_is_left_has_none_of_them() -> None:
    passages = find_shared_passages(OPENED, 5)
    left = without_passages(OPENED, passages)
    assert all("maze" not in piece and "example" not in piece for piece in left)
    assert any("13, 3." in piece for piece in left)


def test_a_tokenizer_has_one_token_for_a_passage_and_gives_the_text_back(tmp_path: Path) -> None:
    plain, short = tmp_path / "plain", tmp_path / "short"
    train_tokenizer(OPENED, plain, TokenizerConfig(vocab_size=300))
    train_tokenizer(OPENED, short, TokenizerConfig(vocab_size=300, passage_tokens=5))
    message = [Message(Role.USER, OPENED[3]), Message(Role.ASSISTANT, "move right")]
    lengths: list[int] = []
    for folder in (plain, short):
        renderer = HuggingFaceRenderer(folder)
        ids = renderer.reply_ids(renderer.begin(message[:1]).text, message)
        assert renderer.decode(ids) == "move right"
        prompt = renderer.begin(message[:1]).ids
        assert OPENED[3] in renderer.decode(prompt)
        lengths.append(len(prompt))
    assert lengths[1] < lengths[0] / 5
