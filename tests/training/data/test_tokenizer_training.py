from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_runtime.conversation import Message, Role
from agent_runtime.huggingface import HuggingFaceRenderer
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.errors import RecipeError

TEXTS = ["The goal is at position 8, 6.", "Thought: go right.\n\nAction:\nmove right"] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    assert 259 < train_tokenizer(TEXTS, folder, TokenizerConfig(vocab_size=300)) <= 300
    return folder


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_survives(folder: Path, text: str) -> None:
    tokenizer = _tokenizer(folder)
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids) == text


def _tokenizer(folder: Path):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_digits_are_single_tokens(folder: Path) -> None:
    assert len(_tokenizer(folder).encode("1234567", add_special_tokens=False).ids) == 7


def test_replies_end_with_the_end_of_turn(folder: Path) -> None:
    renderer = HuggingFaceRenderer(folder)
    (end,) = renderer.stop_ids
    assert _tokenizer(folder).id_to_token(end) == "<|im_end|>"
    prompt = [Message(Role.USER, "Where?")]
    text = renderer.begin(prompt).text
    assert text == "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    ids = renderer.reply_ids(text, [*prompt, Message(Role.ASSISTANT, "move right")])
    assert ids[-1] == end and renderer.decode(ids) == "move right"


def test_equal_texts_give_equal_files(folder: Path, tmp_path: Path) -> None:
    train_tokenizer(iter(TEXTS), tmp_path, TokenizerConfig(vocab_size=300))
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_no_text_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"data\.sources"):
        train_tokenizer([], tmp_path, TokenizerConfig())


def test_a_vocabulary_without_room_for_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 259"):
        TokenizerConfig(vocab_size=100)


def test_names_are_spelled_alike_wherever_they_stand_above_their_share(tmp_path: Path) -> None:
    """Else one is a token of its own before a number, and two elsewhere: it cannot be copied."""
    kinds = [f"{colour} {thing}" for colour in ("red", "blue", "grey") for thing in ("ball", "key")]
    texts = [f"There is a {kind} 1 here. I go to the {kind}." for kind in kinds for _ in range(20)]

    def spelled(share: float) -> bool:
        config = TokenizerConfig(vocab_size=500, multiword_tokens=60, multiword_share=share)
        train_tokenizer(texts, tmp_path / str(share), config)
        pieces = _tokenizer(tmp_path / str(share)).encode(texts[0], add_special_tokens=False).tokens
        return sum("red" in piece and "ball" not in piece for piece in pieces) == 2

    assert not spelled(0.02)
    assert spelled(0.5)


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="multiword_share"):
        TokenizerConfig(multiword_share=0)
