"""Packed attention as a GPU computes it, by the shapes alone: no GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import varlen

from training.errors import ModelUnusable
from training.trainer import attention

pytestmark = pytest.mark.torch

TOKENS = 96


@pytest.mark.parametrize("shares", [True, False])
def test_heads_that_share_keys_are_copied_only_for_a_kernel_that_needs_it(monkeypatch, shares):
    if shares and not attention._SHARES_HEADS:
        pytest.skip("this torch's kernel wants as many heads of keys as of queries")
    monkeypatch.setattr(attention, "_SHARES_HEADS", shares)
    original, calls = varlen.varlen_attn, []

    def record(*tensors: Any, **options: Any) -> Any:
        calls.append((tuple(tensors[1].shape), options.get("enable_gqa", False)))
        return original(*tensors, **options)

    monkeypatch.setattr(varlen, "varlen_attn", record)

    def heads(count: int) -> torch.Tensor:
        shape = (1, count, TOKENS, 64)
        return torch.empty(shape, device="meta", dtype=torch.bfloat16, requires_grad=True)

    query, key, value = heads(8), heads(2), heads(2)
    bounds = torch.empty(4, device="meta", dtype=torch.int32)
    out = attention._flash(query, key, value, bounds, 64, None)
    assert out.shape == (1, TOKENS, 8, 64)
    out.sum().backward()
    assert key.grad is not None and key.grad.shape == key.shape
    assert calls == [((TOKENS, 2 if shares else 8, 64), shares)]


def test_the_kernel_is_compiled_whole_and_twice_at_most_for_changing_lengths() -> None:
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attention._flash, backend=graphs, fullgraph=True)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for sequences, longest in ((4, 64), (6, 40), (3, 90), (9, 17)):
            query, key, value = (
                torch.empty(
                    (1, count, TOKENS, 64), device="meta", dtype=torch.bfloat16, requires_grad=True
                )
                for count in (8, 2, 2)
            )
            bounds = torch.empty(sequences, device="meta", dtype=torch.int32)
            out = compiled(query, key, value, bounds, longest, None)
            out.sum().backward()
            assert out.shape == (1, TOKENS, 8, 64)
            assert key.grad is not None and key.grad.shape == key.shape
    assert graphs.frame_count <= 2


def test_a_torch_without_the_kernel_is_refused_on_a_gpu_alone(monkeypatch) -> None:
    attention.require_kernel(torch.device("cuda"))
    monkeypatch.setattr(attention, "version", lambda _: "2.10.0+cu130")
    attention.require_kernel(torch.device("cpu"))
    with pytest.raises(ModelUnusable, match=r"model\.attention: .*needs torch 2\.11 .* 2\.10\.0"):
        attention.require_kernel(torch.device("cuda"))
