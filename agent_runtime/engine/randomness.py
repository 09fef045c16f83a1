"""One random number per (seed, position): sampling that no other request can disturb.

Pure, stateless and equal on every machine. Not for secrets.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

__all__ = ["random_stream", "uniform", "uniforms"]

_MASK: Final = 2**64 - 1
_INCREMENT: Final = 0x9E3779B97F4A7C15
_ROUNDS: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT: Final = 31
_BITS: Final = 48
"""Of the result. With float64's 53, rounding could make `uniform * sum` equal to the sum."""


def uniform(seed: int, index: int) -> float:
    """Return a number in [0, 1) for the token at this index of a context, under this seed."""
    return (_mix(random_stream(seed) + index) >> (64 - _BITS)) / 2**_BITS


def random_stream(seed: int) -> int:
    """Return what `uniforms` needs of a seed: computed once for all tokens of a reply."""
    return _mix(seed & _MASK)


def uniforms(streams: Sequence[int], indices: Sequence[int]) -> list[float]:
    """Return `uniform` of many seeds, given as streams, and of an index for each.

    In NumPy, which every backend has: in Python's integers a step's thousand numbers were a fifth
    of all that is not the model's.
    """
    import numpy as np  # not before a backend did: see `numpy_backend`

    value = np.frombuffer(array("Q", streams), np.uint64)
    value = value + np.frombuffer(array("Q", indices), np.uint64) + np.uint64(_INCREMENT)
    for shift, factor in _ROUNDS:
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    value = value ^ (value >> np.uint64(_LAST_SHIFT))
    return ((value >> np.uint64(64 - _BITS)) / 2**_BITS).tolist()


def _mix(value: int) -> int:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    value = (value + _INCREMENT) & _MASK
    for shift, factor in _ROUNDS:
        value = ((value ^ (value >> shift)) * factor) & _MASK
    return value ^ (value >> _LAST_SHIFT)
