"""Hugging Face checkpoints of the Llama family: configuration, weight files, version.

Translates configurations (old and new spellings) into an `Architecture` with everything that the
forward pass needs, and refuses what would be computed wrongly. Invariant: equal files give equal
versions. Reads no pickles and makes no tensors: each backend reads its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from agent_runtime.errors import PolicyMisconfigured

__all__ = [
    "INT8",
    "Architecture",
    "RopeScaling",
    "match_weights",
    "read_architecture",
    "scale_name",
    "weight_files",
    "weights_digest",
]

_FAMILIES: Final = {"llama", "mistral", "qwen2", "qwen3"}
_INDEX: Final = "model.safetensors.index.json"
_DTYPES: Final = ("float64", "float32", "bfloat16", "float16")
INT8: Final[Mapping[str, Any]] = {
    "quant_method": "compressed-tensors",
    "format": "naive-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {
            "targets": ["Linear", "Embedding"],
            "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"},
        }
    },
}
"""`quantization_config` of the only quantised weights that are read: integers, and a scale for each
row of a matrix. A library that does not know them refuses the checkpoint by this entry."""
T = TypeVar("T")
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are scaled for longer contexts."""

    factor: float
    low_freq_factor: float = 0.0
    """With the next two: Llama-3's interpolation between wavelengths. 0 = all by `factor`."""
    high_freq_factor: float = 0.0
    original_positions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The shape of a model; names follow `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    tied_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    head_norms: bool
    """Whether queries and keys are normalised per head, as in Qwen3."""
    positions: int
    """Longest context that it was trained for, at most its sliding window."""
    dtype: str
    """Precision of the weights as stored: float32, bfloat16, ..."""

    @property
    def parameters(self) -> int:
        """Number of weights, without biases and norms, which are few."""
        attention = 2 * self.head_dim * (self.heads + self.kv_heads)
        layer = self.hidden_size * (attention + 3 * self.intermediate_size)
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return embeddings + self.layers * layer


def read_architecture(folder: Path) -> Architecture:
    """Return the architecture that a folder's `config.json` describes.

    Raises:
        PolicyMisconfigured: There is no configuration, or one that the engine cannot compute.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyMisconfigured(f"no model configuration: {error}") from error
    family = config.get("model_type")
    if family not in _FAMILIES:
        raise PolicyMisconfigured(
            f"{path} is of a {family!r} model; the embedded engine computes "
            f"{', '.join(sorted(_FAMILIES))}: serve others with --policy sglang:URL"
        )
    activation = config.get("hidden_act", "silu")
    if activation not in {"silu", "swish"}:
        raise PolicyMisconfigured(f"{path}: {activation} layers are not supported")
    if config.get("quantization_config", INT8) != INT8:
        raise PolicyMisconfigured(
            f"{path}: of quantized layers only int8 with a scale for each row is supported, as "
            "`python -m training.ship --stored-as int8` writes it"
        )
    try:
        return _architecture(family, config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise PolicyMisconfigured(f"{path}: cannot use {error}") from error


def _architecture(family: str, config: Mapping[str, Any]) -> Architecture:
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    theta, scaling = _rope(config)
    positions = int(config.get("max_position_embeddings", 2048))
    window = config.get("sliding_window")
    if isinstance(window, int) and config.get("use_sliding_window", family == "mistral"):
        positions = min(positions, window)
    qwen2 = family == "qwen2"
    bias = bool(config.get("attention_bias", False))
    return Architecture(
        vocab_size=int(config["vocab_size"]),
        hidden_size=hidden,
        intermediate_size=int(config["intermediate_size"]),
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=theta,
        rope_scaling=scaling,
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=bias or qwen2,
        output_bias=bias and not qwen2,
        mlp_bias=bool(config.get("mlp_bias", False)),
        head_norms=family == "qwen3",
        positions=positions,
        dtype=_dtype(config.get("dtype") or config.get("torch_dtype") or "float32"),
    )


def _dtype(name: object) -> str:
    dtype = str(name).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise ValueError(f"dtype {name!r}")
    return dtype


def _rope(config: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Read base and scaling, from `rope_parameters` or older `rope_theta` and `rope_scaling`."""
    rope = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    theta = float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ValueError("a partial rotary embedding")
    if kind == "default":
        return theta, None
    if kind == "linear":
        return theta, RopeScaling(factor=float(rope["factor"]))
    if kind == "llama3":
        return theta, RopeScaling(
            factor=float(rope["factor"]),
            low_freq_factor=float(rope["low_freq_factor"]),
            high_freq_factor=float(rope["high_freq_factor"]),
            original_positions=int(rope["original_max_position_embeddings"]),
        )
    raise ValueError(f"rope type {kind!r}")


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, sorted.

    Raises:
        PolicyMisconfigured: There are none, or the index names files that are missing.
    """
    index = folder / _INDEX
    if index.is_file():
        try:
            names = sorted(
                set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            )
        except (ValueError, KeyError, AttributeError) as error:
            raise PolicyMisconfigured(f"{index} lists no weights: {error}") from error
        files = [folder / name for name in names]
    else:
        files = sorted(folder.glob("*.safetensors"))
    missing = [path.name for path in files if not path.is_file()]
    if missing or not files:
        raise PolicyMisconfigured(
            f"{folder} lacks {', '.join(missing) or 'a *.safetensors file'}: save the model with "
            "save_pretrained(...); pickled weights are not read"
        )
    return files


def match_weights(
    weights: Mapping[str, T],
    shape: Callable[[T], Sequence[int]],
    expected: Mapping[str, Shape],
    *,
    tied_embeddings: bool,
) -> dict[str, T]:
    """Return a checkpoint's tensors under the model's own names, exactly those of `expected`.

    Args:
        weights: Tensors by the names that a checkpoint or a state dict gives them.
        shape: Gives the shape of a tensor.
        expected: Shapes of the model's tensors by name.
        tied_embeddings: Whether the head is the embedding; a stored head is ignored then.

    Raises:
        PolicyMisconfigured: A tensor is missing, unknown or of another shape.
    """
    named = {_full_name(name): tensor for name, tensor in weights.items()}
    # Old checkpoints store tables of rotary frequencies, which the engine computes itself; some
    # writers store tied heads.
    for name in [name for name in named if name.endswith("rotary_emb.inv_freq")]:
        del named[name]
    if tied_embeddings:
        named.pop("lm_head.weight", None)
    wrong = [
        *(f"{name} is missing" for name in sorted(expected.keys() - named.keys())),
        *(f"{name} is unknown" for name in sorted(named.keys() - expected.keys())),
        *(
            f"{name} is {list(shape(named[name]))}, not {list(size)}"
            for name, size in expected.items()
            if name in named and tuple(shape(named[name])) != size
        ),
    ]
    if wrong:
        shown = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if wrong[5:] else "")
        raise PolicyMisconfigured(f"weights of another model: {shown}")
    return named


def scale_name(name: str) -> str:
    """Return the name of the scale [rows, 1] of a matrix that is stored in int8."""
    return f"{name}_scale"


def _full_name(name: str) -> str:
    """Return the name with `model.` before it, which state dicts of a model without head lack."""
    name = name.removeprefix("module.")
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"


def weights_digest(folder: Path) -> str:
    """Return the weights' version, made from their bytes: `weights-` and 12 hex digits."""
    total = hashlib.blake2b(digest_size=6)
    for path in weight_files(folder):
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "blake2b").digest())
    return f"weights-{total.hexdigest()}"
