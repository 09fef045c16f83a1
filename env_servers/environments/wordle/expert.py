"""The scripted players of Wordle.

The expert plays fair: it knows the vocabulary and the feedback so far, never the hidden word. It
guesses what is expected to leave the fewest words, judging a bounded number of guesses over a
bounded sample, so that an advice costs a few milliseconds at most. Advice is a pure function of
its arguments; the seed changes only the wording.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from env_servers.environments.wordle.rules import LENGTH, FeedbackRule, Turn, remaining, spaced
from env_servers.environments.wordle.words import Vocabulary
from env_servers.sdk import Advice

__all__ = ["Position", "advise", "advise_random"]

_MOST_COMPARISONS: Final = 480
"""Pairs of guess and possible word that are compared for guesses that fit, and again for others."""
_MOST_SAMPLED: Final = 48
"""Words that fit over which a guess is judged."""
_MOST_PROBES: Final = 400
"""Words considered as guesses that cannot be right but tell much."""

_OPENING: Final = (
    "Nothing is known yet. {word} asks for letters that many of the {count} candidates have.",
    "All {count} candidates are possible. I start with {word}, which should rule out most of them.",
)
_FITTING: Final = (
    "{count} candidates agree with the feedback so far. {word} is one and should tell the most.",
    "I am down to {count} candidates. {word} is one itself and sets them apart well.",
)
_PROBING: Final = (
    "{count} candidates are left. {word} is not one of them, but should tell more than they do.",
    "I cannot win with {word}, yet it should split the {count} candidates that are left best.",
)
_LAST_CHANCE: Final = (
    "{count} candidates are left and this is my last guess, so I take one of them: {word}.",
)
_TWO: Final = (
    "My only candidates that agree with all feedback are {word} and {other}; I try {word} first.",
    "Two candidates are left, {word} and {other}. I take {word}.",
)
_CERTAIN: Final = (
    "{word} is my only candidate that agrees with all feedback.",
    "All feedback together leaves one candidate: {word}.",
)


class Position(NamedTuple):
    """What a fair player knows."""

    vocabulary: Vocabulary
    """Words that are accepted."""
    answers: Vocabulary
    """Words that may be hidden."""
    turns: tuple[Turn, ...]
    """Valid guesses with their feedback."""
    attempts_left: int
    rule: FeedbackRule


def advise(position: Position, seed: int) -> Advice:
    """Return the next guess, with what is known as the thought."""
    left = remaining(position.answers.words, position.turns, position.rule)
    if not left:  # an option hid a word that is accepted but no usual answer
        left = remaining(position.vocabulary.words, position.turns, position.rule)
    if len(left) <= 2:
        return _worded(left[0], left, _CERTAIN if len(left) == 1 else _TWO, seed)
    if position.attempts_left <= 1:
        return _worded(left[0], left, _LAST_CHANCE, seed)
    if not position.turns:
        word = _opening(position.vocabulary.words, tuple(left), position.rule)
        return _worded(word, left, _OPENING, seed)
    word = _choose(_probes(position.vocabulary.words), left, position.rule)
    return _worded(word, left, _FITTING if word in left else _PROBING, seed)


def advise_random(vocabulary: Vocabulary, rng: random.Random) -> Advice:
    """Any accepted word."""
    word = vocabulary.words[rng.randrange(len(vocabulary))]
    return Advice(spaced(word), "I try any word.")


def _worded(word: str, left: Sequence[str], wordings: Sequence[str], seed: int) -> Advice:
    other = left[1] if len(left) > 1 else ""
    thought = wordings[seed % len(wordings)].format(word=word, other=other, count=len(left))
    return Advice(spaced(word), thought)


@lru_cache(maxsize=512)
def _opening(words: tuple[str, ...], left: tuple[str, ...], rule: FeedbackRule) -> str:
    """Return the first guess, which depends on the vocabulary alone."""
    return _choose(_probes(words), left, rule)


@lru_cache(maxsize=512)
def _probes(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words of five different letters, evenly taken from the vocabulary."""
    different = [word for word in words if len(set(word)) == LENGTH]
    stride = -(-len(different) // _MOST_PROBES) or 1
    return tuple(different[::stride])


def _choose(probes: Sequence[str], left: Sequence[str], rule: FeedbackRule) -> str:
    """The guess with the smallest expected number of words left, one that fits before others."""
    counts = Counter(letter for word in left for letter in set(word))
    places = Counter((i, letter) for word in left for i, letter in enumerate(word))
    total = len(left)

    def promise(word: str) -> int:
        """Return how evenly the letters, and the letters in their places, halve what is left."""
        letters = sum(counts[letter] * (total - counts[letter]) for letter in set(word))
        placed = sum(places[i, letter] for i, letter in enumerate(word))
        return 2 * letters + total * placed

    sample = left[:: -(-total // _MOST_SAMPLED)]
    options = _MOST_COMPARISONS // len(sample)
    fitting = sorted(left, key=promise, reverse=True)[:options]
    others = sorted(probes, key=promise, reverse=True)[:options]
    possible = frozenset(left)

    def expected(word: str) -> tuple[int, bool]:
        classes = Counter(rule(word, target) for target in sample)
        return sum(size * size for size in classes.values()), word not in possible

    return min((*fitting, *others), key=expected)
