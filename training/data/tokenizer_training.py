"""Small tokenizers for models from scratch, trained on the data that they are to speak.

Byte-level BPE (any text round-trips) with single digits, so that positions and counts are spelled
alike wherever they stand, and the ChatML template that the project's own tiny models use. Writes
`tokenizer.json` and `tokenizer_config.json` as `transformers`, SGLang and
`agent_runtime.huggingface` read them. Equal texts give equal files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.errors import ExtraMissing
from training.data.multiword import find_multiword_tokens
from training.data.shared_text import find_shared_passages, without_passages
from training.errors import RecipeError

__all__ = ["CHAT_TEMPLATE", "END_OF_TURN", "PAD", "TokenizerConfig", "train_tokenizer"]

PAD: Final = "<|endoftext|>"
START_OF_TURN: Final = "<|im_start|>"
END_OF_TURN: Final = "<|im_end|>"
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
    "{% else %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""ChatML; the generation tags mark what the model writes for tools that ask transformers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """A tokenizer to train; used where `model.init` makes a model from scratch."""

    vocab_size: int = 4096
    """Ids in all, the control tokens and 256 bytes among them."""
    min_frequency: int = 2
    """Pairs seen less often are not merged."""
    multiword_tokens: int = 0
    """Further ids for runs of words that recur in the texts (`data.multiword`); 0 = none."""
    multiword_share: float = 0.02
    """Of the texts that a multiword token is in, at least: above what any name reaches, names stay
    words of their own, spelled alike wherever they stand, and can be copied."""
    passage_tokens: int = 0
    """Further ids for long beginnings and endings that many texts share, such as an environment's
    rules (`data.shared_text`); 0 = none. What such a passage says is then learned from what follows
    it, and another wording of it is another text."""

    def __post_init__(self) -> None:
        if self.vocab_size < 256 + 3:
            raise ValueError("vocab_size is at least 259: 256 bytes and 3 control tokens")
        if not 0 < self.multiword_share <= 1:
            raise ValueError("multiword_share is above 0 and at most 1")


def train_tokenizer(texts: Iterable[str], folder: Path, config: TokenizerConfig) -> int:
    """Train on texts, which stream by once, and write the files.

    Args:
        texts: What the model is to speak.
        folder: Gets the files.
        config: Size, and what is merged.

    Returns:
        The number of ids.

    Raises:
        ExtraMissing: The extra `tokenizers` is not installed.
        RecipeError: There is no text.
    """
    tokenizer, trainer = _untrained(config)
    seen = 0

    def counted() -> Iterable[str]:
        nonlocal seen
        for text in texts:
            seen += 1
            yield text

    passages: list[str] = []
    if config.multiword_tokens or config.passage_tokens:
        texts = list(texts)
    if config.passage_tokens:
        passages = find_shared_passages(texts, config.passage_tokens)
        texts = without_passages(texts, passages)
    tokenizer.train_from_iterator(counted(), trainer)
    if not seen:
        raise RecipeError("the sources hold no text to train a tokenizer on", field="data.sources")
    tokenizer.add_tokens(_plain_tokens(passages))
    if config.multiword_tokens:
        share = config.multiword_share
        phrases = find_multiword_tokens(texts, config.multiword_tokens, share=share)
        tokenizer.add_tokens(_plain_tokens(phrases))
    _write_files(tokenizer, folder)
    return tokenizer.get_vocab_size()


def _untrained(config: TokenizerConfig) -> tuple[Any, Any]:
    """Return a tokenizer that knows bytes only, and what trains it; raises ExtraMissing."""
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError:
        raise ExtraMissing("training a tokenizer", extra="tokenizers") from None
    tokenizer: Any = Tokenizer(models.BPE())  # its stubs leave types open
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [
        AddedToken(name, special=True, normalized=False)
        for name in (PAD, START_OF_TURN, END_OF_TURN)
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=special,
    )
    return tokenizer, trainer


def _plain_tokens(tokens: Iterable[str]) -> list[Any]:
    from tokenizers import AddedToken

    return [AddedToken(token, special=False, normalized=False) for token in tokens]


def _write_files(tokenizer: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": END_OF_TURN,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1_000_000,
        "chat_template": CHAT_TEMPLATE,
    }
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
