"""Safetensors files as NumPy arrays, read and written without the `safetensors` package.

Owns the file's form: eight bytes that say how long the header is, a JSON header with each tensor's
type, shape and place, then the bytes. Half precisions, bfloat16 (which that package's own NumPy
reader lacks) among them, are widened to float32 when they are read. Invariant: a header is believed
only where its places are inside the file and as long as its shapes say.

Source of the format: https://github.com/huggingface/safetensors, README, section "Format".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from agent_runtime.errors import PolicyMisconfigured

__all__ = ["Array", "StoredAs", "read_tensors", "write_tensors"]

Array = NDArray[np.float32]
StoredAs = Literal["float32", "float16", "bfloat16"]
_LONGEST_HEADER: Final = 100_000_000
_WIDTH: Final = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_CODES: Final[Mapping[StoredAs, str]] = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def read_tensors(path: Path) -> dict[str, Array]:
    """All tensors of a file as float32, by name.

    Raises PolicyMisconfigured for a file that is none, is cut off, or holds other types.
    """
    try:
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        if len(data) < 8 or length > min(_LONGEST_HEADER, len(data) - 8):
            raise ValueError("it is cut off")
        header = json.loads(data[8 : 8 + length])
        body = memoryview(data)[8 + length :]
        entries = {name: it for name, it in header.items() if name != "__metadata__"}
        return {name: _tensor(name, it, body) for name, it in entries.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PolicyMisconfigured(f"cannot read {path}: {error}") from error


def _tensor(name: str, entry: Mapping[str, Any], body: memoryview) -> Array:
    code, shape = str(entry["dtype"]), tuple(int(size) for size in entry["shape"])
    begin, end = (int(place) for place in entry["data_offsets"])
    if code not in _WIDTH:
        raise ValueError(f"{name} is of type {code}; {', '.join(_WIDTH)} are read")
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(body):
        raise ValueError(f"{name} lies outside the file")
    if end - begin != math.prod(shape) * _WIDTH[code]:
        raise ValueError(f"{name} is not as long as its shape")
    return _widen(code, body[begin:end]).reshape(shape)


def _widen(code: str, stored: memoryview) -> Array:
    if code == "BF16":
        # The upper half of a float32.
        halves = np.frombuffer(stored, "<u2").astype(np.uint32)
        return (halves << np.uint32(16)).view(np.float32)
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
    return np.frombuffer(stored, kinds[code]).astype(np.float32)


def write_tensors(path: Path, tensors: Mapping[str, Array], stored_as: StoredAs) -> None:
    """Write a file, its tensors sorted by name: equal tensors give equal bytes.

    Raises ValueError where a number is beyond what the type can hold.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    place = 0
    for name in sorted(tensors):
        part = _narrow(name, np.ascontiguousarray(tensors[name], np.float32), stored_as)
        header[name] = {
            "dtype": _CODES[stored_as],
            "shape": list(tensors[name].shape),
            "data_offsets": [place, place + len(part)],
        }
        parts.append(part)
        place += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *parts]))


def _narrow(name: str, tensor: Array, stored_as: StoredAs) -> bytes:
    if stored_as == "float32":
        return tensor.astype("<f4").tobytes()
    if stored_as == "float16":
        with np.errstate(over="ignore"):
            narrow = tensor.astype("<f2")
        if not bool(np.isfinite(narrow).all()):
            raise ValueError(f"{name} has numbers beyond float16")
        return narrow.tobytes()
    bits = tensor.view(np.uint32)
    # To the nearest, halves to even.
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype("<u2").tobytes()
