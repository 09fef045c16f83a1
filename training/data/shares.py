"""How often an epoch takes each environment's sequences: shares of the updates, said by a recipe.

An environment is learned by its share of the updates, so agents that learn from different data are
compared only where these shares are equal. An epoch with shares takes every sequence at least once,
and those of an environment that has too few of them several times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from training.errors import RecipeError

__all__ = ["share_sequences"]


def share_sequences(
    environments: Sequence[str], shares: Mapping[str, float], *, seed: int
) -> NDArray[np.int64]:
    """Return the numbers of the sequences that an epoch takes, in order, some of them repeatedly.

    The epoch is the shortest one in which no sequence is left out and each environment has its
    share, to a sequence. What is left of a whole number of repetitions is drawn by the seed.

    Args:
        environments: The environment of each sequence, [sequences].
        shares: Environment -> its share; they need not add up to 1.
        seed: Of the sequences that are taken once more than others.

    Raises:
        RecipeError: Sequences are of other environments than those that have a share.
    """
    there = sorted(set(environments))
    if set(there) != set(shares):
        raise RecipeError(
            f"are of {', '.join(sorted(shares))}; the data is of {', '.join(there)}: name each "
            "environment of the data, and no other",
            field="shares",
        )
    total = sum(shares.values())
    names = np.array(environments)
    numbers = {name: np.flatnonzero(names == name) for name in there}
    size = max(len(numbers[name]) * total / shares[name] for name in there)
    generator = np.random.Generator(np.random.Philox(key=[seed % 2**64, 0]))
    taken: list[NDArray[np.int64]] = []
    for name in there:
        own = numbers[name]
        count = max(len(own), round(size * shares[name] / total))
        whole, rest = divmod(count, len(own))
        taken += [np.tile(own, whole), np.sort(generator.choice(own, rest, replace=False))]
    return np.sort(np.concatenate(taken))
