"""Which games there are, and under which item ids.

Contains the index ranges and what is drawn from an index: hidden word and vocabulary. The words of
a train game (hidden or merely listed) and of an eval game come from two disjoint halves of the
answer list, so no hidden word is in both.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from env_servers.environments.wordle.words import Vocabularies, Vocabulary
from env_servers.sdk import EMBEDDED_BASE, RangeSplit, RangeTaskSet, Task, UnknownItem, item_index

__all__ = [
    "EVAL_BASE",
    "EVAL_OPEN_BASE",
    "OFFICIAL_PREFIX",
    "TRAIN_OPEN_BASE",
    "Puzzle",
    "WordleTasks",
]

OFFICIAL_PREFIX: Final = "lmrlgym_wordle"
TRAIN_SIZE: Final = 2_000
EVAL_SIZE: Final = 200
TRAIN_OPEN_BASE: Final = EMBEDDED_BASE * 3 // 2
EVAL_BASE: Final = EMBEDDED_BASE * 2
EVAL_OPEN_BASE: Final = EMBEDDED_BASE * 5 // 2
_EMBEDDED_END: Final = EMBEDDED_BASE * 3
OFFICIAL_EVAL_SIZE: Final = 25
OFFICIAL_SIZE: Final = 980
"""Instructions of the original; any other seed below EMBEDDED_BASE is accepted, not listed."""
LISTED_SIZES: Final = (40, 80, 160)
"""Words of a listed vocabulary, by turns."""
_EVAL_WORDS: Final = 300
_KEPT: Final = 512
"""Embedded games that are remembered, of 20 KB at most."""
_SPLIT_SEED: Final = 20_240_606


@dataclass(frozen=True, slots=True)
class Puzzle:
    """One game before it starts."""

    vocabulary: Vocabulary
    """The words that are accepted as guesses."""
    answers: Vocabulary
    """The words that may be hidden: what a player may suppose at the start."""
    hidden: str | None
    """None: no word is fixed; a target is drawn anew at every guess (the official game)."""
    seed: int
    """Of the drawing."""
    listed: bool = True
    """The first observation lists the vocabulary."""


class WordleTasks(RangeTaskSet):
    """The official seeds, games with a listed vocabulary, and games over the whole list.

    The listed splits are finite; `get` makes the game of any index below 3,000,000.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self.vocabularies = Vocabularies(data_dir)
        words = list(self.vocabularies.answers.words)
        random.Random(_SPLIT_SEED).shuffle(words)
        self._eval_words = tuple(words[:_EVAL_WORDS])
        self._train_words = tuple(words[_EVAL_WORDS:])
        # All samples of an item play one game, and a listed one is drawn word by word.
        self._puzzle = lru_cache(maxsize=_KEPT)(self._embedded)
        train = len(self._train_words)
        official = OFFICIAL_SIZE - OFFICIAL_EVAL_SIZE
        super().__init__(
            "wordle",
            {
                "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, self._made),
                "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, self._made),
                "train_open": RangeSplit(TRAIN_OPEN_BASE, train, self._made),
                "eval_open": RangeSplit(EVAL_OPEN_BASE, _EVAL_WORDS, self._made),
                "official_train": RangeSplit(OFFICIAL_EVAL_SIZE, official, self._made),
                "official_eval": RangeSplit(0, OFFICIAL_EVAL_SIZE, self._made),
            },
            prefixes={"official_train": OFFICIAL_PREFIX, "official_eval": OFFICIAL_PREFIX},
        )

    def get(self, item_id: str) -> Task:
        index = item_index(item_id, names=(OFFICIAL_PREFIX, "wordle"))
        if index >= _EMBEDDED_END:
            raise UnknownItem(f"unknown item {item_id!r}", valid=f"0..{_EMBEDDED_END - 1}")
        return self._made(index)

    def category(self, item_id: str) -> str:
        return _category(item_index(item_id, names=(OFFICIAL_PREFIX, "wordle")))

    def digest(self) -> bytes:
        lists = (self.vocabularies.answers.digest, self.vocabularies.guesses.digest)
        return hashlib.blake2b(super().digest() + b"".join(lists), digest_size=8).digest()

    def _made(self, index: int) -> Task:
        if index < EMBEDDED_BASE:
            words = self.vocabularies.official
            item_id, puzzle = f"{OFFICIAL_PREFIX}_{index}", Puzzle(words, words, None, index)
        else:
            item_id, puzzle = f"wordle_{index}", self._puzzle(index)
        return Task(item_id, puzzle, _category(index))

    def _embedded(self, index: int) -> Puzzle:
        words = self._train_words if index < EVAL_BASE else self._eval_words
        offset = index % (EMBEDDED_BASE // 2)
        hidden = words[offset % len(words)]
        if _is_open(index):
            lists = self.vocabularies
            return Puzzle(lists.guesses, lists.answers, hidden, index, listed=False)
        rng = random.Random(index)
        size = LISTED_SIZES[offset % len(LISTED_SIZES)]
        others = [word for word in rng.sample(words, size) if word != hidden]
        listed_words = [hidden, *others[: size - 1]]
        rng.shuffle(listed_words)
        vocabulary = Vocabulary(f"listed_{index}", tuple(listed_words))
        return Puzzle(vocabulary, vocabulary, hidden, index)


def _is_open(index: int) -> bool:
    return index >= EVAL_OPEN_BASE or TRAIN_OPEN_BASE <= index < EVAL_BASE


def _category(index: int) -> str:
    if index < EMBEDDED_BASE:
        return "adaptive_40"
    if _is_open(index):
        return "open"
    return f"listed_{LISTED_SIZES[index % (EMBEDDED_BASE // 2) % len(LISTED_SIZES)]}"
