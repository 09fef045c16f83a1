"""Phrases: runs of whole words that recur so often that one token each pays off.

Agents read and write the same few sentences over and over, with other names and numbers in them.
Owns the choice of what stands between those: the words of a text are merged pairwise, the most
frequent pair first, as byte-pair encoding merges bytes. Invariants: a phrase consists of whole
words, has neither digits nor spelled letters, and was seen in a share of all texts, so names stay
words of their own wherever they stand. Equal texts give equal phrases.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

__all__ = ["find_multiword_tokens"]

_WORD: Final = re.compile(r" ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]+|\s")
_MOST_TEXTS: Final = 800
"""Texts that are looked at, evenly taken; more change little and take time."""
_LONGEST: Final = 4000
"""Characters of a text that are looked at."""


def find_multiword_tokens(texts: Iterable[str], count: int, *, share: float = 0.02) -> list[str]:
    """At most `count` phrases, each in at least `share` of the texts; longest first."""
    listed = list(texts)
    listed = listed[:: -(-len(listed) // _MOST_TEXTS) or 1]
    kinds = Counter(tuple(_WORD.findall(text[:_LONGEST])) for text in listed)
    total = sum(kinds.values())
    rows = [(list(words), times) for words, times in sorted(kinds.items())]
    chosen: dict[str, None] = {}
    while len(chosen) < count:
        pair = _most_frequent(rows, least=share * total)
        if pair is None:
            break
        chosen[pair[0] + pair[1]] = None
        for words, _ in rows:
            _merge(words, pair)
    return sorted(_used(rows, chosen), key=lambda it: (-len(it), it))


def _most_frequent(rows: list[tuple[list[str], int]], *, least: float) -> tuple[str, str] | None:
    """The pair of neighbours that occurs most often, and in enough texts."""
    found: Counter[tuple[str, str]] = Counter()
    present: Counter[tuple[str, str]] = Counter()
    for words, times in rows:
        pairs = Counter(zip(words, words[1:], strict=False))
        for pair, number in pairs.items():
            if not _stands_alone(pair[0]) and not _stands_alone(pair[1]):
                found[pair] += number * times
                present[pair] += times
    usable = [(number, pair) for pair, number in found.items() if present[pair] >= max(least, 2)]
    return max(usable, default=(0, None), key=lambda it: (it[0], it[1] or ("", "")))[1]


def _merge(words: list[str], pair: tuple[str, str]) -> None:
    """Join every occurrence of the pair, in place."""
    at = 0
    while at < len(words) - 1:
        if words[at] == pair[0] and words[at + 1] == pair[1]:
            words[at : at + 2] = [pair[0] + pair[1]]
        at += 1


def _used(rows: list[tuple[list[str], int]], chosen: dict[str, None]) -> list[str]:
    """Phrases that still stand somewhere, not only as parts of longer ones."""
    standing = {word for words, _ in rows for word in words}
    return [phrase for phrase in chosen if phrase in standing]


def _stands_alone(word: str) -> bool:
    """Digits, and letters that are spelled, keep a token of their own wherever they stand."""
    bare = word.strip()
    return word.isdigit() or (len(bare) == 1 and bare.isalpha() and bare not in ("a", "I"))
