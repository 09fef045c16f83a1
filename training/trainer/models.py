"""Models for training: loaded or made from scratch, adapted, sharded, and saved as they came.

Owns the way from a Hugging Face folder to a module that is ready for `target_logprobs`, and back to
a folder that `transformers`, SGLang and the embedded engine load. Weights are kept in float32 and
computed in the recipe's precision. Knows no data and no loss.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError

from training.data.tokenizer_training import TokenizerConfig
from training.errors import ModelUnusable, RecipeError
from training.trainer import attention
from training.trainer.distributed import DistributedContext

__all__ = [
    "Architecture",
    "InitConfig",
    "LoraSettings",
    "ModelConfig",
    "create_base",
    "gather_weights",
    "hf_config",
    "load_for_training",
    "planned_hf_config",
    "precision_context",
    "save_checkpoint",
    "shard",
    "uses_bf16",
]

_TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "tokenizer.model",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitConfig:
    """A Llama from scratch with random weights."""

    hidden_size: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 0
    """Heads of keys and values; 0 = as many as heads."""
    intermediate_size: int = 0
    """Width of the MLP; 0 = 8/3 of hidden_size, rounded up to a multiple of 64."""
    context: int = 4096
    """Longest context that the model declares."""
    rope_theta: float = 10000.0
    tie_embeddings: bool = True
    """One matrix for embedding and head."""
    vocab_size: int = 0
    """Rows of the embedding; 0 = the tokenizer's number of ids."""
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """Trained on the training sources, unless `tokenizer_path` names one."""
    tokenizer_path: str = ""
    """A folder with a tokenizer and a chat template to use instead."""

    def __post_init__(self) -> None:
        if self.hidden_size % self.heads:
            raise ValueError("hidden_size is a multiple of heads")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError("heads is a multiple of kv_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The published shape of a Llama, for plans where its files are not at hand."""

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int = 0
    """Heads of keys and values; 0 = as many as heads."""
    intermediate_size: int
    vocab_size: int
    context: int
    tie_embeddings: bool = False

    def __post_init__(self) -> None:
        sizes = (self.hidden_size, self.layers, self.heads, self.intermediate_size)
        if min(*sizes, self.vocab_size, self.context) < 1 or self.kv_heads < 0:
            raise ValueError("sizes are at least 1, kv_heads at least 0")
        if self.hidden_size % self.heads or (self.kv_heads and self.heads % self.kv_heads):
            raise ValueError("hidden_size is a multiple of heads, and heads one of kv_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraSettings:
    """Low-rank adapters instead of the full weights."""

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    """Names of linear layers; empty = all of them but the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which model is trained, and how it is computed."""

    path: str = ""
    """A folder in the Hugging Face layout, or a name on the hub; empty = `init`."""
    init: InitConfig | None = None
    """A model from scratch."""
    architecture: Architecture | None = None
    """What `path` is known to be: plans need none of its files then. A training refuses a model
    of another shape."""
    lora: LoraSettings | None = None
    attention: Literal["auto", "packed", "flash_attention_2", "flex_attention", "sdpa", "eager"] = (
        "auto"
    )
    """auto = packed: FlashAttention for variable lengths on GPUs, one product per sequence
    elsewhere; sdpa where the model has a sliding window. sdpa and flex_attention use block-diagonal
    masks."""
    precision: Literal["auto", "bf16", "float32"] = "auto"
    """Of the computation: auto = bf16 on GPUs, float32 on CPUs, which are slow in bf16. Weights,
    gradients and moments are float32 always."""
    activation_checkpointing: bool = False
    """Compute activations again in the backward pass: less memory, a third more work."""
    compile: bool = False
    """Compile each block; micro-batches are then padded to their full size."""

    def __post_init__(self) -> None:
        if bool(self.path) == (self.init is not None):
            raise ValueError("set either path or init")
        if self.architecture is not None and self.init is not None:
            raise ValueError("architecture is of a model at path: init says its own")


def create_base(init: InitConfig, tokenizer: Path, folder: Path, *, seed: int) -> Path:
    """Write a model with random weights and the tokenizer's files; equal seeds, equal weights."""
    from transformers import LlamaForCausalLM

    _quiet()
    settings = json.loads((tokenizer / "tokenizer_config.json").read_text(encoding="utf-8"))
    ids = _token_ids(tokenizer)
    config = _llama_settings(
        _shape_of(init, max(ids.values()) + 1),
        rope_theta=init.rope_theta,
        bos_token_id=_id_of(settings.get("bos_token"), ids),
        eos_token_id=_id_of(settings.get("eos_token"), ids),
        pad_token_id=_id_of(settings.get("pad_token"), ids),
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    copy_tokenizer(tokenizer, folder)
    return folder


def _shape_of(init: InitConfig, ids: int) -> Architecture:
    return Architecture(
        hidden_size=init.hidden_size,
        layers=init.layers,
        heads=init.heads,
        kv_heads=init.kv_heads,
        intermediate_size=init.intermediate_size or 64 * math.ceil(init.hidden_size * 8 / 3 / 64),
        vocab_size=init.vocab_size or ids,
        context=init.context,
        tie_embeddings=init.tie_embeddings,
    )


def _llama_settings(shape: Architecture, **more: Any) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads or shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=shape.tie_embeddings,
        **more,
    )


def planned_hf_config(config: ModelConfig) -> Any:
    """The configuration of a recipe's model before anything of it is there.

    Read from `path` only where the recipe does not say the architecture itself; a tokenizer that
    is yet to be trained is taken to reach its full size. Raises ModelUnusable.
    """
    if config.architecture is not None:
        return _llama_settings(config.architecture)
    if config.init is None:
        return hf_config(config.path)
    trained, given = config.init.tokenizer, config.init.tokenizer_path
    ids = trained.vocab_size + trained.multiword_tokens
    if given:
        ids = max(_token_ids(Path(given)).values()) + 1
    return _llama_settings(_shape_of(config.init, ids))


def _require_stated(config: ModelConfig, settings: Any) -> None:
    """Raise ModelUnusable where a model is not what its recipe says that it is."""
    if config.architecture is None:
        return
    stated = _llama_settings(config.architecture)
    names = (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
        *("intermediate_size", "vocab_size", "max_position_embeddings", "tie_word_embeddings"),
    )
    for name in names:
        wanted, found = getattr(stated, name), getattr(settings, name, None)
        if wanted != found:
            raise ModelUnusable(
                f"{config.path} has {name} {found}, the recipe says {wanted}",
                field="model.architecture",
            )


def _token_ids(folder: Path) -> dict[str, int]:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab(with_added_tokens=True)


def _id_of(token: Any, ids: Mapping[str, int]) -> int | None:
    name = token.get("content") if isinstance(token, dict) else token
    return ids.get(name) if name else None


def hf_config(path: str | Path) -> Any:
    """The configuration of a model; raises ModelUnusable."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnusable(f"cannot read the model {path}: {error}", field="model.path") from error


def resolve_attention(config: ModelConfig, settings: Any) -> str:
    """What `auto` means for a model."""
    if config.attention != "auto":
        return config.attention
    window = getattr(settings, "sliding_window", None)
    used = getattr(settings, "use_sliding_window", window is not None)
    return "sdpa" if window and used else attention.PACKED


def load_for_training(
    path: str | Path,
    config: ModelConfig,
    dist: DistributedContext,
    *,
    seed: int = 0,
    frozen: bool = False,
) -> torch.nn.Module:
    """A model on its device, sharded where there is a process group, ready for training.

    `frozen` gives a reference model without adapters and gradients. Raises ModelUnusable,
    RecipeError.
    """
    attention.register()
    _quiet()
    settings = hf_config(path)
    _require_stated(config, settings)
    model = _construct(path, config, settings)
    if frozen:
        model.requires_grad_(requires_grad=False)
    elif config.lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # the same adapters in every process
            model = _adapt(model, config.lora)
    if config.activation_checkpointing and not frozen:
        base = _base(model)
        # The newer name of two; the older one goes with transformers 6.
        enable = getattr(base, "activation_checkpointing_enable", None)
        (enable or base.gradient_checkpointing_enable)({"use_reentrant": False})
    if config.compile:
        # Before sharding: what gathers the weights stays outside of the compiled part.
        for block in _blocks(model):
            block.forward = torch.compile(block.forward)
    model = shard(model, config, dist) if dist.has_group else model.float()
    return model.eval() if frozen else model.train()


def _quiet() -> None:
    """The libraries' own bars would tear ours apart."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def _construct(path: str | Path, config: ModelConfig, settings: Any) -> Any:
    """The model as stored, in host memory."""
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(
            path,
            use_safetensors=True,
            attn_implementation=resolve_attention(config, settings),
            dtype="auto",
        )
    except (OSError, ValueError, ImportError, KeyError, SafetensorError) as error:
        raise ModelUnusable(f"cannot load {path}: {error}", field="model.path") from error


def _adapt(model: Any, lora: LoraSettings) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise ModelUnusable(
            "adapters need an extra: pip install 'agentgym-grpc[train]'", field="model.lora"
        ) from None
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear",
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, settings)
    except ValueError as error:
        raise RecipeError(str(error), field="model.lora.targets") from error


def _base(model: Any) -> Any:
    """The model below its adapters."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _blocks(model: Any) -> list[Any]:
    """The transformer blocks: modules of the classes that the model says must not be split."""
    names = set(getattr(_base(model), "_no_split_modules", None) or ())
    return [it for it in model.modules() if it.__class__.__name__.removeprefix("FSDP") in names]


def shard(model: Any, config: ModelConfig, dist: DistributedContext) -> Any:
    """The model under FSDP2, one group of parameters per block.

    Every process comes with all weights in host memory, as they are stored; each block becomes
    float32 on the device only to be cut at once, so the device never holds more than one whole.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if uses_bf16(config, dist.device)
        else MixedPrecisionPolicy()
    )
    # Freeing gathered weights gains nothing where they are gathered from nobody.
    free = dist.world_size > 1
    for part in (*_blocks(model), model):
        part.float()
        fully_shard(part, mesh=dist.mesh, mp_policy=policy, reshard_after_forward=free)
    return model.to(dist.device)


def uses_bf16(config: ModelConfig, device: torch.device) -> bool:
    """Whether the model is computed in bfloat16 on a device."""
    return config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")


def precision_context(
    config: ModelConfig, dist: DistributedContext
) -> contextlib.AbstractContextManager[Any]:
    """The precision of a forward pass where no sharding takes care of it."""
    if uses_bf16(config, dist.device) and not dist.has_group:
        return torch.autocast(dist.device.type, torch.bfloat16)
    return contextlib.nullcontext()


def save_checkpoint(
    model: Any, folder: Path, *, tokenizer: str | Path, dist: DistributedContext, half: bool = False
) -> None:
    """Write a folder that can be served: weights, configuration, tokenizer, chat template.

    Adapters are merged into the weights, and also written alone to `folder/adapter`. `half` stores
    bfloat16. The folder appears complete; every process has to call this.
    """
    weights = _gathered(model, dist)
    if dist.is_main:
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        base = model
        if hasattr(model, "peft_config"):
            _save_adapter(model, weights, partial / "adapter")
            weights, base = _merged(model, weights), model.get_base_model()
        kind = torch.bfloat16 if half else torch.float32
        weights = {
            name: it.to(kind) if it.is_floating_point() else it for name, it in weights.items()
        }
        _write_weights(base, weights, partial, kind)
        copy_tokenizer(tokenizer, partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    dist.barrier()


def gather_weights(model: Any, dist: DistributedContext) -> dict[str, torch.Tensor]:
    """All weights under the plain model's names, adapters merged: what an engine is to load.

    In host memory of the first process, nothing on the others; every process has to call this.
    """
    weights = _gathered(model, dist)
    if weights and hasattr(model, "peft_config"):
        return _merged(model, weights)
    return weights


def _gathered(model: Any, dist: DistributedContext) -> dict[str, torch.Tensor]:
    """All weights in host memory on the first process, nothing on the others."""
    if not dist.has_group:
        return {name: it.detach().cpu() for name, it in model.state_dict().items()}
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    return get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )


def _write_weights(
    base: Any, weights: dict[str, torch.Tensor], folder: Path, kind: torch.dtype
) -> None:
    from huggingface_hub import save_torch_state_dict

    settings = base.config
    if getattr(settings, "tie_word_embeddings", False):
        weights.pop("lm_head.weight", None)
    before = settings.dtype
    settings.dtype = kind
    settings.save_pretrained(folder)
    settings.dtype = before
    if base.generation_config is not None:
        base.generation_config.save_pretrained(folder)
    save_torch_state_dict(
        {name: it.contiguous() for name, it in weights.items()},
        folder,
        max_shard_size="5GB",
        metadata={"format": "pt"},
    )


_PREFIX: Final = "base_model.model."


def _merged(model: Any, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Full weights under the plain model's names: W + scale * B A."""
    settings = model.peft_config["default"]
    scale = settings.lora_alpha / settings.r
    merged: dict[str, torch.Tensor] = {}
    for name, it in weights.items():
        plain = name.removeprefix(_PREFIX)
        if ".lora_" in plain:
            continue
        if ".base_layer." in plain:
            stem = name.partition(".base_layer.")[0]
            if name.endswith(".weight"):
                down = weights[f"{stem}.lora_A.default.weight"].float()
                up = weights[f"{stem}.lora_B.default.weight"].float()
                it = it.float() + scale * (up @ down)
            plain = plain.replace(".base_layer.", ".")
        merged[plain] = it
    return merged


def _save_adapter(model: Any, weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """The adapter alone, as `peft` loads it."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    adapter = {
        name.replace(".default.", "."): it.contiguous()
        for name, it in weights.items()
        if ".lora_" in name
    }
    save_file(adapter, folder / "adapter_model.safetensors", {"format": "pt"})
    model.peft_config["default"].save_pretrained(str(folder))


def copy_tokenizer(source: str | Path, folder: Path) -> None:
    """The tokenizer's files of a folder or a hub name, as they are."""
    if not Path(source).is_dir():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(source).save_pretrained(folder)
        return
    for name in _TOKENIZER_FILES:
        if (Path(source) / name).is_file():
            shutil.copyfile(Path(source) / name, folder / name)
