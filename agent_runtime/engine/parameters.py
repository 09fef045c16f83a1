"""How the tensors of a checkpoint are joined into an engine's matrices, for every backend.

Knows the names that checkpoints of the Llama family use and which of them become one matrix. A
backend only allocates: it makes a tensor and remembers which of its rows belong to which name.

Pure: no tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from agent_runtime.engine.checkpoint import Architecture

__all__ = ["EMBEDDING", "AllocateParameter", "Layer", "Parameters", "allocate_parameters"]

EMBEDDING: Final = "model.embed_tokens"
"""The matrix whose rows are looked up by token ids."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AllocateParameter(Protocol[T_co]):
    """Allocates a tensor."""

    def __call__(
        self, shape: tuple[int, ...], *names: str, rows: Sequence[int] = (), kind: str = "weight"
    ) -> T_co:
        """Return a tensor whose rows are filled from the checkpoint's tensors `{name}.{kind}`.

        Args:
            shape: Of the whole tensor.
            names: Of the tensors that it is joined from, top to bottom.
            rows: How many rows each of them gives; empty = all from the only one.
            kind: "weight" or "bias".
        """
        ...


@dataclass(frozen=True, slots=True)
class Layer(Generic[T]):
    """One block's weights; query, key and value rows are one matrix, gate and up another."""

    input_norm: T
    qkv: T
    output: T
    post_norm: T
    gate_up: T
    down: T
    qkv_bias: T | None
    output_bias: T | None
    gate_up_bias: T | None
    down_bias: T | None
    head_norms: T | None
    """[2 * head_dim]: of queries, then of keys."""


@dataclass(frozen=True, slots=True)
class Parameters(Generic[T]):
    """All weights of a model."""

    embedding: T
    layers: list[Layer[T]]
    norm: T
    head: T
    """The embedding itself where they are tied."""


def allocate_parameters(
    architecture: Architecture, allocate: AllocateParameter[T]
) -> Parameters[T]:
    """Return room for all weights of a model."""
    a = architecture
    vocabulary = (a.vocab_size, a.hidden_size)
    embedding = allocate(vocabulary, EMBEDDING)
    return Parameters(
        embedding=embedding,
        layers=[_layer(a, f"model.layers.{index}", allocate) for index in range(a.layers)],
        norm=allocate((a.hidden_size,), "model.norm"),
        head=embedding if a.tied_embeddings else allocate(vocabulary, "lm_head"),
    )


def _layer(a: Architecture, name: str, allocate: AllocateParameter[T]) -> Layer[T]:
    qkv = [a.heads * a.head_dim, a.kv_heads * a.head_dim, a.kv_heads * a.head_dim]
    mlp = [a.intermediate_size, a.intermediate_size]
    attention = [f"{name}.self_attn.{part}_proj" for part in "qkv"]
    gates = [f"{name}.mlp.{part}_proj" for part in ("gate", "up")]
    output, down = f"{name}.self_attn.o_proj", f"{name}.mlp.down_proj"
    hidden = a.hidden_size

    def vector(names: list[str], rows: list[int], kind: str, *, present: bool) -> T | None:
        return allocate((sum(rows),), *names, rows=rows, kind=kind) if present else None

    norms = [f"{name}.self_attn.{part}_norm" for part in "qk"]
    return Layer(
        input_norm=allocate((hidden,), f"{name}.input_layernorm"),
        qkv=allocate((sum(qkv), hidden), *attention, rows=qkv),
        output=allocate((hidden, qkv[0]), output),
        post_norm=allocate((hidden,), f"{name}.post_attention_layernorm"),
        gate_up=allocate((sum(mlp), hidden), *gates, rows=mlp),
        down=allocate((hidden, mlp[0]), down),
        qkv_bias=vector(attention, qkv, "bias", present=a.qkv_bias),
        output_bias=vector([output], [hidden], "bias", present=a.output_bias),
        gate_up_bias=vector(gates, mlp, "bias", present=a.mlp_bias),
        down_bias=vector([down], [hidden], "bias", present=a.mlp_bias),
        head_norms=vector(norms, [a.head_dim] * 2, "weight", present=a.head_norms),
    )
