"""Beginnings and endings that many texts share: an environment's rules, its worked example.

Where agents keep to an environment's own prompts, most of a conversation is text that never
changes. One token for each such passage leaves the context, and the time, to what does change.
Equal texts give equal passages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["find_shared_passages", "without_passages"]

_SHORTEST: Final = 160
"""Characters of a passage: shorter ones are phrases, which `data.multiword` finds."""


def find_shared_passages(
    texts: Iterable[str], count: int, *, share: float = 0.002, shortest: int = _SHORTEST
) -> list[str]:
    """Return at most `count` passages, those that save the most characters; longest first.

    Texts that agree in their first `shortest` characters have one beginning, up to where they part,
    and end at a whole word; endings likewise.

    Args:
        texts: What is looked at.
        count: Most passages.
        share: Of the texts that have a passage, at least; never fewer than two.
        shortest: Characters of a passage, at least.
    """
    listed = list(texts)
    least = max(2, share * len(listed))
    found: dict[str, int] = {}
    for group in _groups(listed, least, shortest):
        beginning = _whole_words(_common_beginning(group), group)
        found[beginning] = len(beginning) * len(group)
    turned = [text[::-1] for text in _rests(listed, found)]
    for group in _groups(turned, least, shortest):
        ending = _whole_words(_common_beginning(group), group)[::-1]
        found[ending] = len(ending) * len(group)
    usable = [passage for passage in found if len(passage) >= shortest]
    most = sorted(usable, key=lambda passage: (-found[passage], passage))[:count]
    return sorted(most, key=lambda passage: (-len(passage), passage))


def without_passages(texts: Iterable[str], passages: Sequence[str]) -> list[str]:
    """Return what is left of texts, piece by piece, where passages are taken out."""
    pieces = list(texts)
    for passage in passages:
        pieces = [piece for text in pieces for piece in text.split(passage) if piece]
    return pieces


def _groups(texts: Sequence[str], least: float, shortest: int) -> list[list[str]]:
    """Return the texts that agree in their first characters, where they are enough."""
    by_beginning: defaultdict[str, list[str]] = defaultdict(list)
    for text in texts:
        if len(text) >= shortest:
            by_beginning[text[:shortest]].append(text)
    return [group for _, group in sorted(by_beginning.items()) if len(group) >= least]


def _rests(texts: Sequence[str], beginnings: Iterable[str]) -> list[str]:
    """Return texts without the beginnings that they have."""
    ordered = sorted(beginnings, key=len, reverse=True)
    cuts = (next((it for it in ordered if text.startswith(it)), "") for text in texts)
    return [text[len(cut) :] for text, cut in zip(texts, cuts, strict=True)]


def _common_beginning(group: Sequence[str]) -> str:
    """Return what all texts begin with."""
    # What the first and the last in order share, all between them share.
    first, last = min(group), max(group)
    differs = (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differs, len(first))]


def _whole_words(passage: str, group: Sequence[str]) -> str:
    """Cut a passage back to where a word ends in all texts; a number is a word."""
    if all(len(text) == len(passage) or text[len(passage)].isspace() for text in group):
        return passage
    while passage and not passage[-1].isspace():
        passage = passage[:-1]
    return passage.rstrip()
