"""How alike two short texts are, in the measure that WebShop's reward uses.

Contains the token set ratio with the semantics of thefuzz 0.19 on its standard-library matcher
(WebShop pins that version and does not install the faster matcher). A score is an integer of 0 to
100 and depends on the two texts alone.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final

__all__ = ["resembles", "token_set_ratio"]

THRESHOLD: Final = 85
"""Texts that score more than this count as the same."""

_NOT_WORDS: Final = re.compile(r"\W")
_LATIN_1: Final = dict.fromkeys(range(128, 256))
"""Dropped before comparing; other characters beyond ASCII are kept, as in thefuzz."""


def resembles(first: str, second: str) -> bool:
    """Return whether the reward takes two texts for the same."""
    return token_set_ratio(first, second, floor=THRESHOLD) > THRESHOLD


def token_set_ratio(first: str, second: str, *, floor: int = -1) -> int:
    """Likeness of two texts as sets of words, 0 to 100.

    A result that would be at most `floor` may be returned as 0, which saves most of the work.
    """
    ours, theirs = _words(first), _words(second)
    if not ours or not theirs:
        return 0
    shared = " ".join(sorted(ours & theirs))
    left = f"{shared} {' '.join(sorted(ours - theirs))}".strip()
    right = f"{shared} {' '.join(sorted(theirs - ours))}".strip()
    if shared and shared in (left, right):
        return 100
    return max(
        _ratio(shared, left, floor), _ratio(shared, right, floor), _ratio(left, right, floor)
    )


def _words(text: str) -> set[str]:
    return set(_NOT_WORDS.sub(" ", text.translate(_LATIN_1)).lower().split())


def _ratio(first: str, second: str, floor: int) -> int:
    if not first or not second:
        return 0
    matcher = SequenceMatcher(None, first, second)
    for bound in (matcher.real_quick_ratio, matcher.quick_ratio):
        if round(100 * bound()) <= floor:
            return 0
    return round(100 * matcher.ratio())
