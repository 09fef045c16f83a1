"""One random number per (seed, position): sampling that no other request can disturb.

Pure, stateless and equal on every machine. Not for secrets.
"""

from __future__ import annotations

from typing import Final

__all__ = ["draw", "random_stream", "uniform"]

_MASK: Final = 2**64 - 1
_BITS: Final = 48
"""Of the result. With float64's 53, rounding could make `uniform * sum` equal to the sum."""


def uniform(seed: int, index: int) -> float:
    """Return a number in [0, 1) for the token at this index of a context, under this seed."""
    return draw(random_stream(seed), index)


def random_stream(seed: int) -> int:
    """Return what `draw` needs of a seed: computed once for all tokens of a reply."""
    return _mix(seed & _MASK)


def draw(stream: int, index: int) -> float:
    """Return `uniform(seed, index)`, given the seed's stream."""
    return (_mix(stream + index) >> (64 - _BITS)) / 2**_BITS


def _mix(value: int) -> int:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
