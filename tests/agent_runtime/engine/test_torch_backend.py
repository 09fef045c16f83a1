from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from safetensors.torch import load_file, save_file  # noqa: E402

from agent_runtime.engine.config import EmbeddedOptions  # noqa: E402
from agent_runtime.engine.engine import load_engine  # noqa: E402
from agent_runtime.engine.linear import Parameter, has_fast_bfloat16, linear, pack  # noqa: E402
from agent_runtime.engine.tensor_file import read_tensors  # noqa: E402
from agent_runtime.engine.torch_backend import read_weights  # noqa: E402
from agent_runtime.errors import MemoryTooSmall, PolicyMisconfigured  # noqa: E402
from tests.agent_runtime.tiny_arrays import save_arrays  # noqa: E402
from tests.agent_runtime.tiny_models import save_model  # noqa: E402

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(512, 256), (24, 16)])
def test_a_packed_matrix_multiplies_as_the_plain_one(dtype, shape) -> None:
    draw = torch.Generator().manual_seed(0)
    plain = torch.randn(shape, generator=draw).to(dtype)
    for rows in (1, 3, 40):
        x = torch.randn(rows, shape[1], generator=draw).to(dtype)
        bias = torch.randn(shape[0], generator=draw).to(dtype)
        expected = torch.nn.functional.linear(x, plain, bias)
        eps = torch.finfo(dtype).eps
        close = {"rtol": 8 * eps, "atol": 256 * eps}
        torch.testing.assert_close(linear(x, pack(plain), bias), expected, **close)


def test_weights_are_replaced_whatever_order_they_are_kept_in() -> None:
    parts = {"q.weight": 300, "k.weight": 212}
    matrix = Parameter((512, 256), parts, multiplied=True, device=CPU, dtype=torch.float32)
    assert matrix.expected == {"q.weight": (300, 256), "k.weight": (212, 256)}
    x = torch.randn(2, 256)
    for seed in range(3):
        draw = torch.Generator().manual_seed(seed)
        named = {
            name: torch.randn(shape, generator=draw) for name, shape in matrix.expected.items()
        }
        matrix.load(named)
        expected = x @ torch.cat(list(named.values())).T
        torch.testing.assert_close(matrix.multiply(x, None), expected, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_chosen_only_where_it_is_computed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert not has_fast_bfloat16(CPU)
    assert not pack(torch.zeros(512, 256, dtype=torch.bfloat16)).is_mkldnn


def test_weights_that_do_not_fit_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model(tmp_path)
    (folder / "model.safetensors").unlink()  # not even looked for
    monkeypatch.setattr("agent_runtime.engine.torch_backend.available_memory", lambda: 1 << 10)
    with pytest.raises(MemoryTooSmall, match=r"--embedded\.dtype"):
        load_engine(folder, EmbeddedOptions(backend="torch", device="cpu", threads=1))


def test_int8_weights_are_those_that_numpy_reads(tmp_path: Path) -> None:
    folder = save_arrays(tmp_path, stored_as="int8")
    read, expected = read_weights(folder), read_tensors(folder / "model.safetensors")
    assert set(read) == set(expected)
    for name, tensor in read.items():
        assert tensor.dtype == torch.float32
        assert tensor.numpy().tobytes() == expected[name].tobytes()


def test_int8_without_a_scale_is_refused(tmp_path: Path) -> None:
    folder = save_arrays(tmp_path, stored_as="int8")
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight_scale"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(PolicyMisconfigured, match=r"lm_head\.weight is of type I8 without"):
        read_weights(folder)
