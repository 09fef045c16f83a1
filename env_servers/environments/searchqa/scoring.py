"""When an answer counts: exact match after SQuAD's normalisation.

Contains the normalisation as SQuAD, FlashRAG and Search-R1 publish it: lower case, no ASCII
punctuation, no English articles, single blanks; in this order.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import Final

__all__ = ["exact_match", "normalised"]

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """What is left of an answer when case, punctuation, articles and blanks do not matter."""
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(reply: str, answers: Iterable[str]) -> bool:
    """Return whether the given answer is one of the answers after normalisation."""
    normal_answer = normalised(reply)
    return any(normalised(answer) == normal_answer for answer in answers)
