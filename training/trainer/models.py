"""Models for training: loaded or made from scratch, adapted, sharded, and saved.

From a Hugging Face folder to a module that is ready for `target_logprobs`, and back to a folder
that `transformers`, SGLang and the embedded engine load. Weights that are trained are kept
in float32 and computed in the recipe's precision.
"""

# transformers and peft leave most of their methods untyped, torch `manual_seed` and `compile`.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

import torch
from safetensors import SafetensorError

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.models import resolve_model
from training.data.tokenizer_training import TokenizerConfig
from training.errors import ModelUnusable, RecipeError
from training.trainer import attention
from training.trainer.distributed import DistributedContext

__all__ = [
    "Architecture",
    "InitConfig",
    "LoraSettings",
    "ModelConfig",
    "adapter_scale",
    "before_training",
    "create_base",
    "gather_adapter",
    "gather_weights",
    "hf_config",
    "load_for_training",
    "planned_hf_config",
    "precision_context",
    "save_adapter",
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
    """A folder in the Hugging Face layout, a known model (`python -m agent_runtime.models list`) or
    a name on the hub; empty = `init`."""
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
    """Of the computation: auto = bf16 on GPUs, float32 on CPUs, which are slow in bf16. What is
    trained, its gradients and moments are float32 always; what is frozen in a sharded model (below
    adapters, a reference) is kept as it is computed, which changes no result."""
    activation_checkpointing: bool = False
    """Compute activations again in the backward pass: less memory, a third more work."""
    reduce_every_micro_batch: bool = False
    """Sum up the processes' gradients after each micro-batch, not once per update: nothing keeps a
    whole gradient then, for as many times the traffic."""
    compile: bool = False
    """Compile each block; micro-batches are then padded to their full size."""

    def __post_init__(self) -> None:
        if bool(self.path) == (self.init is not None):
            raise ValueError("set either path or init")
        if self.architecture is not None and self.init is not None:
            raise ValueError("architecture is of a model at path: init says its own")

    @property
    def source(self) -> str:
        """What `path` stands for: a folder or a name on the hub.

        Raises:
            ModelUnusable: It names a known model that has not been made on this machine.
        """
        try:
            return resolve_model(self.path)
        except PolicyMisconfigured as error:
            raise ModelUnusable(str(error), field="model.path") from error


def create_base(init: InitConfig, tokenizer: Path, folder: Path, *, seed: int) -> Path:
    """Write a model with random weights and the tokenizer's files; equal seeds, equal weights."""
    from transformers import LlamaForCausalLM

    _disable_progress_bars()
    settings = json.loads((tokenizer / "tokenizer_config.json").read_text(encoding="utf-8"))
    ids = _token_ids(tokenizer)
    config = _llama_config(
        _resolve_shape(init, max(ids.values()) + 1),
        rope_theta=init.rope_theta,
        bos_token_id=_token_id(settings.get("bos_token"), ids),
        eos_token_id=_token_id(settings.get("eos_token"), ids),
        pad_token_id=_token_id(settings.get("pad_token"), ids),
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    copy_tokenizer(tokenizer, folder)
    return folder


def _resolve_shape(init: InitConfig, ids: int) -> Architecture:
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


def _llama_config(shape: Architecture, **more: Any) -> Any:
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
    """Return the `transformers` configuration of a recipe's model before anything of it is there.

    It is read from `path` only where the recipe does not say the architecture itself. A tokenizer
    that is yet to be trained is assumed to reach its full size.

    Raises:
        ModelUnusable: It cannot be read.
    """
    if config.architecture is not None:
        return _llama_config(config.architecture)
    if config.init is None:
        return hf_config(config.source)
    tokenizer, tokenizer_path = config.init.tokenizer, config.init.tokenizer_path
    ids = tokenizer.vocab_size + tokenizer.multiword_tokens
    if tokenizer_path:
        ids = max(_token_ids(Path(tokenizer_path)).values()) + 1
    return _llama_config(_resolve_shape(config.init, ids))


def _check_architecture(config: ModelConfig, actual: Any) -> None:
    """Raise ModelUnusable where a model has another shape than its recipe says."""
    if config.architecture is None:
        return
    stated = _llama_config(config.architecture)
    names = (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
        *("intermediate_size", "vocab_size", "max_position_embeddings", "tie_word_embeddings"),
    )
    for name in names:
        expected, value = getattr(stated, name), getattr(actual, name, None)
        if value != expected:
            raise ModelUnusable(
                f"{config.path} has {name} {value}, the recipe says {expected}",
                field="model.architecture",
            )


def _token_ids(folder: Path) -> dict[str, int]:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab(with_added_tokens=True)


def _token_id(token: Any, ids: Mapping[str, int]) -> int | None:
    """Return a special token's id; a tokenizer's configuration has its text or a dictionary."""
    text = cast("dict[str, Any]", token).get("content") if isinstance(token, dict) else token
    return ids.get(str(text)) if text else None


def hf_config(path: str | Path) -> Any:
    """Return the `transformers` configuration of a model.

    Raises:
        ModelUnusable: It cannot be read.
    """
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnusable(f"cannot read the model {path}: {error}", field="model.path") from error


def resolve_attention(config: ModelConfig, settings: Any) -> str:
    """Return the attention that a model is loaded with: what `auto` means for it."""
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
    """Load a model onto its device, sharded where there is a process group.

    Of several processes the first one reads the weights, and each gets its shards of them.

    Args:
        path: A folder or a name on the hub.
        config: How it is computed.
        dist: The processes that share it.
        seed: Of new adapters.
        frozen: Load a reference model: without adapters, gradients and dropout.

    Raises:
        ModelUnusable: It cannot be loaded, or has another shape than the recipe says.
        RecipeError: The adapters' targets are not in the model.
    """
    attention.register()
    _disable_progress_bars()
    settings = hf_config(path)
    _check_architecture(config, settings)
    if resolve_attention(config, settings) == attention.PACKED:
        attention.require_kernel(dist.device)
    source = model = None
    if dist.is_main:
        model = _load_pretrained(path, config, settings)
        model = _prepare(model, config, seed=seed, frozen=frozen)
    if dist.world_size > 1:
        # One process reads: all of them together might want more host memory than there is.
        source, model = model, _make_empty(config, settings)
        model = _prepare(model, config, seed=seed, frozen=frozen)
    assert model is not None, "a single process is the main one"
    model = shard(model, config, dist) if dist.has_group else model.float()
    if dist.world_size > 1:
        _fill(model, source, dist)
    if config.compile:
        # After sharding, which gives each block a class of its own: transformers recomputes
        # activations in the `forward` of that class alone. The hooks that gather weights are called
        # around `forward`, so they stay outside the compiled part.
        for block in _blocks(model):
            block.forward = torch.compile(block.forward)
    return model.eval() if frozen else model.train()


def _disable_progress_bars() -> None:
    """Turn the libraries' progress bars off: they would be drawn into ours."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def _load_pretrained(path: str | Path, config: ModelConfig, settings: Any) -> Any:
    """Load a model as it is stored, into host memory."""
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


def _make_empty(config: ModelConfig, settings: Any) -> Any:
    """Make a model without memory for its weights."""
    import transformers

    auto_model: Any = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return auto_model.from_config(
            settings, attn_implementation=resolve_attention(config, settings)
        )


def _prepare(model: Any, config: ModelConfig, *, seed: int, frozen: bool) -> Any:
    """Freeze a model or give it adapters, and have it recompute activations where asked for."""
    if frozen:
        return model.requires_grad_(requires_grad=False)
    if config.lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = _add_adapters(model, config.lora)
    if config.activation_checkpointing:
        base = _without_adapters(model)
        # Renamed in transformers 5; version 6 removes the old name.
        enable = getattr(base, "activation_checkpointing_enable", None)
        (enable or base.gradient_checkpointing_enable)({"use_reentrant": False})
    return model


def _add_adapters(model: Any, lora: LoraSettings) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise ModelUnusable(
            f"adapters need an extra: {install_command('train')}", field="model.lora"
        ) from None
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=cast("int", lora.alpha),  # declared an int; a float works
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear",
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, settings)
    except ValueError as error:
        raise RecipeError(str(error), field="model.lora.targets") from error


def _without_adapters(model: Any) -> Any:
    """Return the model below its adapters."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _blocks(model: Any) -> list[Any]:
    """Return the transformer blocks: modules of the classes that the model lists as not to split.

    FSDP puts its name before that of a class that it shards.
    """
    names = set(getattr(_without_adapters(model), "_no_split_modules", None) or ())
    return [
        module
        for module in model.modules()
        if module.__class__.__name__.removeprefix("FSDP") in names
    ]


def shard(model: Any, config: ModelConfig, dist: DistributedContext) -> Any:
    """Put a model under FSDP2, one group of parameters per block.

    Weights that are trained become float32 right before their block is sharded, so no more than
    one whole block exists in float32 at a time.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    bf16 = uses_bf16(config, dist.device)
    policy = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if bf16
        else MixedPrecisionPolicy()
    )
    # What one device trains is kept there as float32, and its bf16 copy is wanted again in the
    # backward pass. What is frozen would only be there twice.
    frozen = not all(parameter.requires_grad for parameter in model.parameters())
    reshard = dist.world_size > 1 or frozen
    for part in (*_blocks(model), model):
        _set_dtypes(part, frozen=torch.bfloat16 if bf16 else torch.float32)
        fully_shard(part, mesh=dist.mesh, mp_policy=policy, reshard_after_forward=reshard)
    empty = any(parameter.is_meta for parameter in model.parameters())
    return model.to_empty(device=dist.device) if empty else model.to(dist.device)


def _set_dtypes(part: torch.nn.Module, *, frozen: torch.dtype) -> None:
    for parameter in part.parameters():
        parameter.data = parameter.data.to(torch.float32 if parameter.requires_grad else frozen)
    for buffer in part.buffers():
        if buffer.is_floating_point():
            buffer.data = buffer.data.float()


def _fill(model: Any, source: Any, dist: DistributedContext) -> None:
    """Give every process its shards of the weights that the first one has read.

    Args:
        model: Sharded, of undefined values.
        source: The same model with its values, in the first process; None in the others.
        dist: The processes.
    """
    from torch.distributed.tensor import distribute_tensor

    values = dict(source.named_parameters()) if source is not None else {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            full = (
                values[name].to(dist.device, parameter.dtype)
                if values
                else torch.empty(parameter.shape, dtype=parameter.dtype, device=dist.device)
            )
            shards: Any = distribute_tensor(full, dist.mesh, parameter.placements)
            parameter.to_local().copy_(shards.to_local())
        # Tables such as the rotary one, which checkpoints do not have.
        tables = dict(source.named_buffers()) if source is not None else {}
        for name, buffer in model.named_buffers():
            if tables:
                buffer.copy_(tables[name])
            torch.distributed.broadcast(buffer, src=0)
    if source is not None:
        base = _without_adapters(model)
        base.generation_config = _without_adapters(source).generation_config


def uses_bf16(config: ModelConfig, device: torch.device) -> bool:
    """Return whether the model is computed in bfloat16 on a device."""
    return config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")


def precision_context(
    config: ModelConfig, dist: DistributedContext
) -> contextlib.AbstractContextManager[Any]:
    """Return a context for forward passes in the recipe's precision; FSDP sees to it itself."""
    if uses_bf16(config, dist.device) and not dist.has_group:
        return torch.autocast(dist.device.type, torch.bfloat16)
    return contextlib.nullcontext()


def save_checkpoint(
    model: Any, folder: Path, *, tokenizer: str | Path, dist: DistributedContext, half: bool = False
) -> None:
    """Write a folder that can be served: weights, configuration, tokenizer, chat template.

    Adapters are merged into the weights, and also written alone to `folder/adapter`. The folder
    appears under its name when it is complete. Every process has to call this.

    Args:
        model: Loaded by `load_for_training`.
        folder: Replaced where it exists.
        tokenizer: Folder or hub name that the tokenizer's files are copied from.
        dist: The processes that share the model.
        half: Store bfloat16 instead of float32.
    """
    weights = _gather(model, dist)
    if dist.is_main:
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        base = model
        if hasattr(model, "peft_config"):
            _save_adapter(model, weights, partial / "adapter")
            weights, base = _merge_adapters(model, weights), model.get_base_model()
        dtype = torch.bfloat16 if half else torch.float32
        weights = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in weights.items()
        }
        _write_weights(base, weights, partial, dtype)
        copy_tokenizer(tokenizer, partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    dist.barrier()


@contextlib.contextmanager
def before_training(model: Any) -> Generator[None]:
    """Have a model that trains adapters compute without them meanwhile, and without dropout.

    One without adapters stays as it is. Not to be used before the first forward pass with them:
    FSDP would take the adapters for frozen ones ever after.
    """
    if not hasattr(model, "peft_config"):
        yield
        return
    training = model.training
    model.eval()
    try:
        with model.disable_adapter():
            yield
    finally:
        model.train(training)


def gather_weights(
    model: Any, dist: DistributedContext, *, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """Return all weights under the plain model's names, adapters merged, for an engine to load.

    They are in host memory of the main process; the others get an empty dictionary. A head that is
    the embedding is left out, as in checkpoints. Every process has to call this.

    Args:
        model: Loaded by `load_for_training`.
        dist: The processes that share the model.
        dtype: Of the weights that are returned.
    """
    weights, base = _gather(model, dist), model
    if weights and hasattr(model, "peft_config"):
        weights, base = _merge_adapters(model, weights), model.get_base_model()
    if getattr(base.config, "tie_word_embeddings", False):
        weights.pop("lm_head.weight", None)
    for name, tensor in weights.items():
        if tensor.is_floating_point():
            weights[name] = tensor.to(dtype)  # one by one: the others' memory is free again
    return weights


def gather_adapter(model: Any, dist: DistributedContext) -> dict[str, torch.Tensor]:
    """Return the adapter alone in float32, under the names of `peft`'s files.

    It is in host memory of the main process; the others get an empty dictionary. The weights below
    it are not gathered. Every process has to call this.

    Args:
        model: Loaded by `load_for_training` with `lora`.
        dist: The processes that share the model.
    """
    return _adapter_tensors(_gather(model, dist, trained=True))


def save_adapter(model: Any, folder: Path, dist: DistributedContext) -> None:
    """Write the adapter alone, as `peft` and servers load it; arguments as of `gather_adapter`.

    The folder appears under its name when it is complete.
    """
    weights = _gather(model, dist, trained=True)
    if dist.is_main:
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        _save_adapter(model, weights, partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    dist.barrier()


def adapter_scale(model: Any) -> float:
    """Return what the product of an adapter's matrices counts in the sum with a weight."""
    lora = model.peft_config["default"]
    return lora.lora_alpha / lora.r


def _gather(
    model: Any, dist: DistributedContext, *, trained: bool = False
) -> dict[str, torch.Tensor]:
    """Return all weights, or those that are trained, in host memory of the main process.

    The other processes get nothing.
    """
    if not dist.has_group:
        chosen = {name for name, it in model.named_parameters() if it.requires_grad}
        return {
            name: tensor.detach().cpu()
            for name, tensor in model.state_dict().items()
            if not trained or name in chosen
        }
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=trained)
    return cast("dict[str, torch.Tensor]", get_model_state_dict(model, options=options))


def _write_weights(
    base: Any, weights: dict[str, torch.Tensor], folder: Path, dtype: torch.dtype
) -> None:
    from huggingface_hub import save_torch_state_dict

    config = base.config
    if getattr(config, "tie_word_embeddings", False):
        weights.pop("lm_head.weight", None)
    own_dtype = config.dtype
    config.dtype = dtype
    config.save_pretrained(folder)
    config.dtype = own_dtype
    if base.generation_config is not None:
        base.generation_config.save_pretrained(folder)
    save_torch_state_dict(
        {name: tensor.contiguous() for name, tensor in weights.items()},
        folder,
        max_shard_size="5GB",
        metadata={"format": "pt"},
    )


_PREFIX: Final = "base_model.model."
"""What peft puts before the names of a model's weights."""


def _merge_adapters(model: Any, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return full weights under the plain model's names: W + scale * B A."""
    scale = adapter_scale(model)
    merged: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        plain = name.removeprefix(_PREFIX)
        if ".lora_" in plain:
            continue
        if ".base_layer." in plain:
            stem = name.partition(".base_layer.")[0]
            if name.endswith(".weight"):
                down = weights[f"{stem}.lora_A.default.weight"].float()
                up = weights[f"{stem}.lora_B.default.weight"].float()
                tensor = tensor.float() + scale * (up @ down)
            plain = plain.replace(".base_layer.", ".")
        merged[plain] = tensor
    return merged


def _save_adapter(model: Any, weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write the adapter alone, as `peft` loads it."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    save_file(_adapter_tensors(weights), folder / "adapter_model.safetensors", {"format": "pt"})
    model.peft_config["default"].save_pretrained(str(folder))


def _adapter_tensors(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return those of an adapter under the names of `peft`'s files."""
    return {
        name.replace(".default.", "."): tensor.float().contiguous()
        for name, tensor in weights.items()
        if ".lora_" in name
    }


def copy_tokenizer(source: str | Path, folder: Path) -> None:
    """Copy the tokenizer's files of a folder or a hub name, as they are."""
    if not Path(source).is_dir():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(source).save_pretrained(folder)
        return
    for name in _TOKENIZER_FILES:
        if (Path(source) / name).is_file():
            shutil.copyfile(Path(source) / name, folder / name)
