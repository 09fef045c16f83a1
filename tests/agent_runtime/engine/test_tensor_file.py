"""Safetensors files as NumPy arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import TensorSpec, deserialize, serialize

from agent_runtime import agents
from agent_runtime.agents import read_agent_manifest
from agent_runtime.engine.tensor_file import StoredAs, read_tensors, write_tensors
from agent_runtime.errors import PolicyMisconfigured

VALUES = {
    "b": np.array([[0.0, -1.5, 3.0], [65504.0, 1e-3, -0.1]], np.float32),
    "a": np.array([1.0], np.float32),
    "empty": np.zeros((0, 4), np.float32),
}


def save(path: Path, header: object, body: bytes) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


@pytest.mark.parametrize(
    ("stored_as", "relative"), [("float32", 0.0), ("float16", 2**-11), ("bfloat16", 2**-8)]
)
def test_what_was_written_is_read_back_as_float32(
    tmp_path: Path, stored_as: StoredAs, relative: float
) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, VALUES, stored_as)
    tensors = read_tensors(path)
    assert set(tensors) == set(VALUES)
    for name, values in VALUES.items():
        assert tensors[name].dtype == np.float32
        assert tensors[name].shape == values.shape
        np.testing.assert_allclose(tensors[name], values, rtol=relative)


def test_the_shipped_agent_is_written_again_with_equal_bytes(tmp_path: Path) -> None:
    shipped = Path(agents.__file__).parent / "laptop" / "model.safetensors"
    stored_as = read_agent_manifest(shipped.parent).provenance["stored_as"]
    write_tensors(tmp_path / "again", read_tensors(shipped), stored_as)
    assert (tmp_path / "again").read_bytes() == shipped.read_bytes()


def test_matrices_in_int8_have_a_scale_for_each_row_and_vectors_stay(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    spread = np.array([[1e-4], [1.0], [300.0]], np.float32)
    matrix = draw.standard_normal((3, 50)).astype(np.float32) * spread
    matrix = np.vstack([matrix, np.zeros((1, 50), np.float32)])
    vector = draw.standard_normal(50).astype(np.float32)
    write_tensors(tmp_path / "t", {"m": matrix, "v": vector}, "int8")
    stored = {
        name: (it["dtype"], it["shape"]) for name, it in deserialize((tmp_path / "t").read_bytes())
    }
    assert stored == {"m": ("I8", [4, 50]), "m_scale": ("F32", [4, 1]), "v": ("F32", [50])}
    tensors = read_tensors(tmp_path / "t")
    assert set(tensors) == {"m", "v"}
    np.testing.assert_array_equal(tensors["v"], vector)
    # Half a step of the row's own scale, at most.
    step = np.abs(matrix).max(-1, keepdims=True) / 127
    assert bool((np.abs(tensors["m"] - matrix) <= step * 0.5001).all())


def test_int8_that_is_read_and_written_again_stays_as_it_is(tmp_path: Path) -> None:
    matrix = np.random.default_rng(1).standard_normal((5, 40)).astype(np.float32)
    write_tensors(tmp_path / "one", {"m": matrix}, "int8")
    write_tensors(tmp_path / "two", read_tensors(tmp_path / "one"), "int8")
    once, again = read_tensors(tmp_path / "one")["m"], read_tensors(tmp_path / "two")["m"]
    np.testing.assert_allclose(again, once, rtol=1e-6)


@pytest.mark.parametrize("tensors", [{}, {"x_scale": np.ones((3, 1), np.float32)}])
def test_int8_without_a_scale_for_each_row_is_refused(
    tmp_path: Path, tensors: dict[str, NDArray[np.float32]]
) -> None:
    arrays: dict[str, NDArray[Any]] = {"x": np.ones((2, 4), np.int8), **tensors}
    (tmp_path / "t").write_bytes(
        serialize(
            {
                name: TensorSpec(
                    dtype=it.dtype.name,
                    shape=it.shape,
                    data_ptr=it.ctypes.data,
                    data_len=it.nbytes,
                )
                for name, it in arrays.items()
            }
        )
    )
    with pytest.raises(PolicyMisconfigured, match="x is of type I8 without x_scale"):
        read_tensors(tmp_path / "t")


def test_equal_tensors_give_equal_bytes(tmp_path: Path) -> None:
    write_tensors(tmp_path / "one", VALUES, "float16")
    write_tensors(tmp_path / "two", dict(reversed(VALUES.items())), "float16")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_bfloat16_is_the_upper_half_rounded_to_the_nearest_even(tmp_path: Path) -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF], np.uint32)
    write_tensors(tmp_path / "t", {"x": bits.view(np.float32)}, "bfloat16")
    stored = read_tensors(tmp_path / "t")["x"].view(np.uint32)
    assert [hex(it) for it in stored] == ["0x3f800000", "0x3f820000", "0x3f810000", "0x3f800000"]


def test_numbers_beyond_float16_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="beyond float16"):
        write_tensors(tmp_path / "t", {"x": np.array([1e6], np.float32)}, "float16")


def entry(**changes: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({"x": entry(dtype="I64", shape=[1])}, "type I64"),
        ({"x": entry(data_offsets=[0, 80])}, "offset"),
        ({"x": entry(data_offsets=[-8, 0])}, "-8"),
        ({"x": entry(shape=[3])}, "shape"),
        ({"x": entry(shape=[-2])}, "-2"),
        ({"x": {}}, "dtype"),
        ([], "cannot read"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, header: object, problem: str) -> None:
    with pytest.raises(PolicyMisconfigured, match=problem):
        read_tensors(save(tmp_path / "t", header, bytes(8)))


@pytest.mark.parametrize("content", [b"", b"1234", (10**6).to_bytes(8, "little"), b"\xff" * 40])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(PolicyMisconfigured, match="cannot read"):
        read_tensors(tmp_path / "t")
