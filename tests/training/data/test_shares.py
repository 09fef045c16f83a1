from __future__ import annotations

from collections import Counter

import pytest

from training.data.shares import share_sequences
from training.errors import RecipeError

NAMES = ["maze"] * 10 + ["wordle"] * 40 + ["babyai"] * 7


@pytest.mark.parametrize(
    "shares", [{"maze": 1, "wordle": 1, "babyai": 1}, {"maze": 0.5, "wordle": 0.3, "babyai": 0.2}]
)
def test_an_epoch_has_the_shares_and_every_sequence(shares):
    order = share_sequences(NAMES, shares, seed=0)
    counts = Counter(NAMES[number] for number in order)
    total = sum(shares.values())
    for name, share in shares.items():
        assert abs(counts[name] - len(order) * share / total) <= 1
    times = Counter(int(number) for number in order)
    assert set(times) == set(range(len(NAMES)))
    for name in shares:
        own = [times[number] for number, it in enumerate(NAMES) if it == name]
        assert max(own) - min(own) <= 1


def test_equal_seeds_give_equal_epochs():
    shares = {"maze": 3.0, "wordle": 2.0, "babyai": 2.0}
    assert list(share_sequences(NAMES, shares, seed=1)) == list(
        share_sequences(NAMES, shares, seed=1)
    )


def test_an_environment_without_a_share_is_refused():
    with pytest.raises(RecipeError, match="shares: are of maze; the data is of babyai, maze"):
        share_sequences(["maze", "babyai"], {"maze": 1.0}, seed=0)
