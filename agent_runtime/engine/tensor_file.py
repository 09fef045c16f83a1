"""Safetensors files as NumPy arrays, in float32.

The `safetensors` package reads and writes the format; its own NumPy interface lacks bfloat16, so
this module takes the raw bytes of each tensor, and widens and narrows them itself.

In int8 a matrix is stored as integers from -127 to 127 and, under its name with `_scale` behind it,
the float32 number of each row [rows, 1] that they are multiplied by; vectors stay in float32. Names
and shapes are those of compressed-tensors' format `naive-quantized` with the strategy `channel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import (
    SafetensorError,
    TensorSpec,
    deserialize,  # pyright: ignore[reportUnknownVariableType]
    serialize,
)

from agent_runtime.engine.checkpoint import scale_name
from agent_runtime.errors import PolicyMisconfigured

__all__ = ["Array", "StoredAs", "read_tensors", "write_tensors"]

Array = NDArray[np.float32]
StoredAs = Literal["float32", "float16", "bfloat16", "int8"]
_NUMPY_TYPES: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I8": "<i1"}
_MOST: Final = 127
"""Largest integer of a quantised row; -128 is left out, so that both signs are stored alike."""


class _Entry(TypedDict):
    """One tensor of a file."""

    dtype: str
    shape: list[int]
    data: bytes


def read_tensors(path: Path) -> dict[str, Array]:
    """Read all tensors of a file as float32, by name.

    Raises:
        PolicyMisconfigured: The file is missing, is not in the format, or holds other types.
    """
    try:
        # The package has no types for it.
        entries = dict(cast("list[tuple[str, _Entry]]", deserialize(path.read_bytes())))
        return _scaled({name: _widen(name, entry) for name, entry in entries.items()}, entries)
    except (OSError, ValueError, SafetensorError) as error:
        raise PolicyMisconfigured(f"cannot read {path}: {error}") from error


def _widen(name: str, entry: _Entry) -> Array:
    code, stored, shape = entry["dtype"], entry["data"], entry["shape"]
    if code == "BF16":
        # A bfloat16 is the upper half of a float32.
        halves = np.frombuffer(stored, "<u2").astype(np.uint32)
        return (halves << np.uint32(16)).view(np.float32).reshape(shape)
    if code not in _NUMPY_TYPES:
        raise ValueError(f"{name} is of type {code}; BF16, {', '.join(_NUMPY_TYPES)} are read")
    return np.frombuffer(stored, _NUMPY_TYPES[code]).astype(np.float32).reshape(shape)


def _scaled(tensors: dict[str, Array], entries: Mapping[str, _Entry]) -> dict[str, Array]:
    """Return a file's tensors with those of int8 multiplied by their scales; raises ValueError."""
    for name in [name for name, entry in entries.items() if entry["dtype"] == "I8"]:
        scale, matrix = tensors.pop(scale_name(name), None), tensors[name]
        if matrix.ndim != 2 or scale is None or scale.shape != (len(matrix), 1):
            raise ValueError(f"{name} is of type I8 without {scale_name(name)} [{len(matrix)}, 1]")
        matrix *= scale
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Array], stored_as: StoredAs) -> None:
    """Write a file; equal tensors give equal bytes, in whatever order they come.

    Raises:
        ValueError: A number is beyond what the type can hold.
    """
    # A specification holds the address of an array's memory, so the arrays have to live until the
    # file is written.
    arrays: dict[str, NDArray[Any]] = {}
    for name in sorted(tensors):
        arrays |= _stored(name, np.ascontiguousarray(tensors[name], np.float32), stored_as)
    specifications = {
        name: TensorSpec(
            dtype="bfloat16" if array.dtype == np.uint16 else array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in arrays.items()
    }
    path.write_bytes(serialize(specifications, {"format": "pt"}))


def _stored(name: str, tensor: Array, stored_as: StoredAs) -> dict[str, NDArray[Any]]:
    """Return what is written for a tensor, by name."""
    if stored_as != "int8":
        return {name: _narrow(name, tensor, stored_as)}
    if tensor.ndim != 2:
        return {name: tensor.astype("<f4")}
    largest = np.abs(tensor).max(-1, keepdims=True, initial=0)
    if not bool(np.isfinite(largest).all()):
        raise ValueError(f"{name} has numbers beyond float32")
    # A row of zeros is zeros times any scale.
    scale = np.where(largest > 0, largest / np.float32(_MOST), np.float32(1)).astype("<f4")
    return {name: np.rint(tensor / scale).astype("<i1"), scale_name(name): scale}


def _narrow(name: str, tensor: Array, stored_as: StoredAs) -> NDArray[Any]:
    if stored_as == "float32":
        return tensor.astype("<f4")
    if stored_as == "float16":
        with np.errstate(over="ignore"):
            narrow = tensor.astype("<f2")
        if not bool(np.isfinite(narrow).all()):
            raise ValueError(f"{name} has numbers beyond float16")
        return narrow
    bits = tensor.view(np.uint32)
    # Rounded to the nearest, halves to even.
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype("<u2")
