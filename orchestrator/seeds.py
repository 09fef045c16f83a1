"""Seeds and episode ids, derived by hashing from what they are for.

There is one derivation: BLAKE2b over a purpose and length-prefixed parts. Two agree exactly if all
their parts agree, on every machine and Python version, so a rerun draws the same numbers
and no two samples of an item share a stream.

The attempt is a part of episode ids only: playing an episode again after a failure repeats the
same draws.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

__all__ = [
    "derive",
    "episode_id",
    "episode_seed",
    "sampling_seed",
    "sampling_seeds",
    "to_31_bits",
    "unit_interval",
]

_PERSON = b"agentgym-seed-1"
"""Version of the derivation: another one must never give the same numbers by accident."""
_SEED_BYTES: Final = 8
_BIG_ENDIAN: Final = struct.Struct(">Q")


def sampling_seed(
    run_seed: int, *, environment: str, item_id: str, sample: int, turn: int, step: int = 0
) -> int:
    """Return the seed of one policy call, in [0, 2**63).

    `turn` counts replies from 0; `step` is the training step that the episode belongs to.
    """
    return derive("sampling", run_seed, step, environment, item_id, sample, turn)


def sampling_seeds(
    run_seed: int, *, environment: str, item_id: str, sample: int, step: int = 0
) -> Callable[[int], int]:
    """Return `sampling_seed` of one episode by turn: what its turns share is hashed once."""
    begun = _begin(("sampling", run_seed, step, environment, item_id, sample), size=_SEED_BYTES)

    def seed(turn: int) -> int:
        digest = begun.copy()
        digest.update(_TURNS[turn] if 0 <= turn < len(_TURNS) else _to_bytes(turn))
        return _to_seed(digest.digest())

    return seed


# Asked for by every sample of an item.
@lru_cache(maxsize=4096, typed=True)
def episode_seed(run_seed: int, *, environment: str, item_id: str, step: int = 0) -> int:
    """Return the seed of an environment's episode, in [0, 2**63).

    All samples of an item share it: a group starts from one state and differs by sampling alone.
    """
    return derive("episode", run_seed, step, environment, item_id)


def episode_id(
    run_id: str, *, environment: str, item_id: str, sample: int, policy: str, attempt: int
) -> str:
    """Return the id of one attempt at one episode: 32 hexadecimal digits, unique within a run."""
    parts = ("episode-id", run_id, environment, item_id, sample, policy, attempt)
    return _begin(parts, size=16).hexdigest()


def derive(purpose: str, *parts: int | str) -> int:
    """Return a number in [0, 2**63) that depends on every part, its type and their order."""
    return _to_seed(_begin((purpose, *parts), size=_SEED_BYTES).digest())


def to_31_bits(seed: int) -> int:
    """Return the upper 31 bits of a 63-bit seed, for engines that take no larger ones."""
    return seed >> 32


def unit_interval(purpose: str, *parts: int | str) -> float:
    """Return a number in [0, 1), derived like a seed."""
    return (derive(purpose, *parts) >> 10) / (1 << 53)


def _to_seed(digest: bytes) -> int:
    # Half the time of `int.from_bytes`, and every reply has a seed.
    (number,) = _BIG_ENDIAN.unpack(digest)
    return number >> 1


def _begin(parts: tuple[int | str, ...], *, size: int) -> hashlib.blake2b:
    return hashlib.blake2b(b"".join(map(_to_bytes, parts)), digest_size=size, person=_PERSON)


# Most parts of an episode's seeds are those of other episodes: the run, the item, the policy.
@lru_cache(maxsize=4096, typed=True)
def _to_bytes(part: int | str) -> bytes:
    # Type and length go first, so that ("a", "bc") != ("ab", "c") and 1 != "1".
    data = str(part).encode("utf-8", "surrogatepass")
    return b"%c%d:%b" % (b"i" if isinstance(part, int) else b"s", len(data), data)


_TURNS: Final = tuple(map(_to_bytes, range(64)))
"""What nearly all turns are hashed as."""
