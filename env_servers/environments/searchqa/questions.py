"""What a task asks: a question, the answers that count, and how a searcher finds them.

Contains the values that pass between the sources of questions and the episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Clue", "Question"]


@dataclass(frozen=True, slots=True)
class Clue:
    """One thing to find out on the way to an answer; only scripted players see it."""

    title: str
    """Of the passage that tells it, as the retriever gives it; empty = any that has an answer."""
    queries: tuple[str, ...]
    """Searches that should bring the passage, the best first."""
    aim: str
    """A noun phrase for what is to be found out."""
    finding: str
    """A sentence, without full stop, with what the passage tells."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answers."""

    text: str
    answers: tuple[str, ...]
    """Any of these counts; the first is the fullest. At least one."""
    clues: tuple[Clue, ...] = ()
    category: str = ""
