"""Multiword tokens: runs of whole words that recur so often that one token each pays off.

Agents read and write the same few sentences over and over, with other names and numbers in them.
The words of a text are merged pairwise, the most frequent pair first, as byte-pair encoding merges
bytes. A multiword token consists of whole words, has neither digits nor spelled letters, and was
seen in a share of all texts, so names stay words of their own wherever they stand. Equal texts give
equal tokens.

`tokenizers` could merge words, too, but it counts occurrences and not the share of texts that a
pair is in, and breaks ties in another order: the vocabulary of the trained agent would change.
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
    """Return at most `count` tokens, each in at least `share` of the texts; longest first."""
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
    return sorted(_used(rows, chosen), key=lambda token: (-len(token), token))


def _most_frequent(rows: list[tuple[list[str], int]], *, least: float) -> tuple[str, str] | None:
    """Return the pair of neighbours that occurs most often, and in enough texts."""
    occurrences: Counter[tuple[str, str]] = Counter()
    texts: Counter[tuple[str, str]] = Counter()
    for words, times in rows:
        pairs = Counter(zip(words, words[1:], strict=False))
        for pair, number in pairs.items():
            if not _stands_alone(pair[0]) and not _stands_alone(pair[1]):
                occurrences[pair] += number * times
                texts[pair] += times
    usable = [
        (number, pair) for pair, number in occurrences.items() if texts[pair] >= max(least, 2)
    ]
    # The pair itself breaks ties, so that equal texts give equal tokens.
    return max(usable)[1] if usable else None


def _merge(words: list[str], pair: tuple[str, str]) -> None:
    """Join every occurrence of the pair, in place."""
    index = 0
    while index < len(words) - 1:
        if words[index] == pair[0] and words[index + 1] == pair[1]:
            words[index : index + 2] = [pair[0] + pair[1]]
        index += 1


def _used(rows: list[tuple[list[str], int]], chosen: dict[str, None]) -> list[str]:
    """Return the tokens that still occur by themselves, not only as parts of longer ones."""
    remaining = {word for words, _ in rows for word in words}
    return [token for token in chosen if token in remaining]


def _stands_alone(word: str) -> bool:
    """Tell whether a word keeps a token of its own: a digit, or a letter that is spelled."""
    bare = word.strip()
    return word.isdigit() or (len(bare) == 1 and bare.isalpha() and bare not in ("a", "I"))
