"""Drives a target with random bytes for a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

__all__ = ["fuzz"]

_LONGEST = 4096


def fuzz(target: Callable[..., None], seconds: float, *, seed: int) -> int:
    """Feed a target until the time is over; returns how many inputs it took.

    What the target lets pass goes through; Hypothesis keeps the input in its database, so that the
    suite's next run begins with it.
    """
    take = target.hypothesis.fuzz_one_input
    rng = random.Random(seed)
    end, taken = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        taken += take(rng.randbytes(rng.randint(1, _LONGEST))) is not None
    return taken
