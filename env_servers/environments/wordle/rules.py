"""What a guess tells: both ways of giving feedback, and which words still fit.

Contains the accumulated knowledge of the original (five slots per letter) and the letter-counting
rule of real Wordle. Words are `LENGTH` lower-case letters, feedback is as many of b, y, g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

__all__ = [
    "ATTEMPTS",
    "LENGTH",
    "SOLVED",
    "FeedbackRule",
    "Knowledge",
    "Turn",
    "absorb",
    "counted_feedback",
    "fits",
    "remaining",
    "rendered_feedback",
    "simple_feedback",
    "spaced",
]

LENGTH: Final = 5
ATTEMPTS: Final = 6
SOLVED: Final = "g" * LENGTH

Knowledge = Mapping[str, str]
"""Letter -> five slots: `?` possible, `+` here, `-` not here. An absent letter is all `?`."""

Turn = tuple[str, str]
"""A valid guess and its feedback."""

FeedbackRule = Callable[[str, str], str]
"""Feedback of (guess, target)."""

_UNKNOWN: Final = "?" * LENGTH
_ABSENT: Final = "-" * LENGTH


def absorb(knowledge: Knowledge, guess: str, target: str) -> Knowledge:
    """The knowledge after a guess was compared with a target; the argument stays as it is."""
    after = dict(knowledge)
    for i, letter in enumerate(guess):
        if letter not in target:
            after[letter] = _ABSENT
            continue
        slots = after.get(letter, _UNKNOWN)
        mark = "+" if target[i] == letter else "-"
        after[letter] = slots[:i] + mark + slots[i + 1 :]
    return after


def fits(knowledge: Knowledge, word: str) -> bool:
    """Return whether a word agrees with everything that is known."""
    for letter, slots in knowledge.items():
        if slots == _ABSENT:
            if letter in word:
                return False
            continue
        if letter not in word:
            return False
        for slot, own in zip(slots, word, strict=True):
            if (slot == "+" and own != letter) or (slot == "-" and own == letter):
                return False
    return True


def rendered_feedback(knowledge: Knowledge, guess: str) -> str:
    """Feedback of a guess that the knowledge has absorbed, as the original shows it."""
    marks: list[str] = []
    for i, letter in enumerate(guess):
        slots = knowledge[letter]
        marks.append("b" if slots == _ABSENT else "g" if slots[i] == "+" else "y")
    return "".join(marks)


def simple_feedback(guess: str, target: str) -> str:
    """Green in place, yellow wherever the letter occurs at all, else black.

    Equals `rendered_feedback` for every target that fits the knowledge so far.
    """
    return "".join(
        "g" if own == right else "y" if own in target else "b"
        for own, right in zip(guess, target, strict=True)
    )


def counted_feedback(guess: str, target: str) -> str:
    """Real Wordle: a letter is coloured as often as the target has it, greens first."""
    if len(set(guess)) == LENGTH:
        return simple_feedback(guess, target)
    spare = [right for own, right in zip(guess, target, strict=True) if own != right]
    marks: list[str] = []
    for own, right in zip(guess, target, strict=True):
        if own == right:
            marks.append("g")
        elif own in spare:
            spare.remove(own)
            marks.append("y")
        else:
            marks.append("b")
    return "".join(marks)


def remaining(words: Iterable[str], turns: Iterable[Turn], rule: FeedbackRule) -> list[str]:
    """Return the words that would have given the same feedback at every turn, in order."""
    left = list(words)
    for guess, feedback in turns:
        greens = [(i, guess[i]) for i in range(LENGTH) if feedback[i] == "g"]
        yellows = {guess[i] for i in range(LENGTH) if feedback[i] == "y"}
        coloured = yellows | {letter for _, letter in greens}
        absent = set(guess) - coloured
        left = [
            word
            for word in left
            if all(word[i] == letter for i, letter in greens)
            and absent.isdisjoint(word)
            and rule(guess, word) == feedback
        ]
    return left


def spaced(word: str) -> str:
    """Return a word or feedback with blanks between its letters."""
    return " ".join(word)
