"""From one GGUF file to a checkpoint in the Hugging Face layout, by transformers and gguf.

transformers dequantises the tensors and reads tokenizer and chat template. Mended here: what it
would save as still quantised, a tokenizer without the rule that takes numbers apart, and special
tokens that are not those of the file (transformers 5.17 ends turns of SmolLM2 where they begin).
"""

# transformers leaves most of its methods untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import torch
from gguf import GGUFReader
from huggingface_hub import save_torch_state_dict
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from agent_runtime.errors import PolicyMisconfigured

__all__ = ["StoredAs", "convert_gguf"]

StoredAs = Literal["bfloat16", "float32"]
_DIGITS_APART: Final = frozenset({"smollm"})
"""Kinds of tokenizers, as GGUF names them, that encode every digit by itself."""
_SPECIAL: Final = {
    "bos_token": "bos",
    "eos_token": "eos",
    "pad_token": "padding",
    "unk_token": "unknown",
}
"""Special tokens by transformers' name and by GGUF's."""


def convert_gguf(gguf: Path, folder: Path, stored_as: StoredAs) -> None:
    """Write weights, configuration, tokenizer and chat template of a GGUF file to a folder.

    Args:
        gguf: The file.
        folder: Exists, and is empty.
        stored_as: Precision of the weights that are written.

    Raises:
        PolicyMisconfigured: The file has no chat template.
    """
    logging.disable_progress_bar()
    source: dict[str, Any] = {"gguf_file": gguf.name}
    _save_tokenizer(AutoTokenizer.from_pretrained(gguf.parent, **source), gguf, folder)
    dtype = getattr(torch, stored_as)
    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
    config = model.config
    # The weights are plain numbers now, and whoever reads this would refuse or look for the file.
    del config.quantization_config
    config.dtype = dtype
    config.architectures = [type(model).__name__]  # SGLang chooses its own model by this name
    config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    weights = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    if config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    save_torch_state_dict(weights, folder, metadata={"format": "pt"})


def _save_tokenizer(tokenizer: Any, gguf: Path, folder: Path) -> None:
    if not tokenizer.chat_template:
        raise PolicyMisconfigured(
            f"{gguf.name} has no chat template, so nobody can converse with the model: convert one "
            "that was taught to (its name often ends with Instruct or chat)"
        )
    reader = GGUFReader(gguf)
    if _read(reader, "pre") in _DIGITS_APART:
        # transformers gives every byte-level tokenizer GPT-2's rule alone, which keeps the space
        # before a number in one word with it: other ids than the model learned from.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    for attribute, name in _SPECIAL.items():
        if (index := _read(reader, f"{name}_token_id")) is not None:
            setattr(tokenizer, attribute, tokenizer.convert_ids_to_tokens(int(index)))
    tokenizer.save_pretrained(folder)


def _read(reader: GGUFReader, name: str) -> Any:
    """Return what a file says of its tokenizer; None = nothing."""
    field = reader.get_field(f"tokenizer.ggml.{name}")
    return None if field is None else field.contents()
