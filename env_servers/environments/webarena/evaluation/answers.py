"""The answer of an agent against reference answers.

Texts are compared without outer blanks, one layer of outer quotes and letter case. Invariant: the
score is the product over all ways of comparing, in the order of the task file, as in the original;
a verdict on an unachievable task replaces what stood before it.
"""

from __future__ import annotations

from typing import Any, cast

from env_servers.environments.webarena.evaluation.criteria import Criteria
from env_servers.environments.webarena.evaluation.errors import UnusableCriteria
from env_servers.environments.webarena.evaluation.judge import Judge, Question, QuestionKind
from env_servers.environments.webarena.evaluation.tokens import is_word

__all__ = ["clean", "exact_match", "includes", "score_answer"]

_NOT_ACHIEVABLE = "N/A"


def clean(text: str) -> str:
    """Return a text as it is compared."""
    text = text.strip()
    for quote in ("'", '"'):
        if text.startswith(quote) and text.endswith(quote):
            text = text[1:-1]
            break
    return text.lower()


def exact_match(reference: str, text: str) -> bool:
    """Return whether two texts are the same."""
    return clean(reference) == clean(text)


def includes(reference: str, text: str, *, as_word: bool = False) -> bool:
    """Return whether a text includes another; a single character may have to be a word of it."""
    part, whole = clean(reference), clean(text)
    if as_word and len(part) == 1 and not part.isspace():
        return is_word(part, whole)
    return part in whole


async def score_answer(criteria: Criteria, intent: str, answer: str, judge: Judge) -> float:
    """Return the product over the reference answers.

    Raises:
        UnusableCriteria: A reference is missing or of the wrong type.
        UnreadableVerdict: The judge said none of its words.
    """
    if criteria.answers is None:
        raise UnusableCriteria(
            "the task has no reference answers", shown="'NoneType' object has no attribute 'items'"
        )
    text, score = clean(answer), 1.0
    for way, reference in criteria.answers.items():
        if way == "exact_match":
            score *= exact_match(_text(reference, way), text)
        elif way == "must_include":
            parts = _list(reference, way)
            alone = len(parts) == 1
            for part in parts:
                score *= includes(part, text, as_word=alone)
        elif way == "fuzzy_match" and reference == _NOT_ACHIEVABLE:
            score *= exact_match(reference, text)
            if score != 1:
                score = await _judge_reason(criteria, intent, text, judge)
        elif way == "fuzzy_match":
            for part in _list(reference, way):
                question = Question(QuestionKind.ANSWER, intent, part, text)
                score *= await judge.judge(question)
    return float(score)


async def _judge_reason(criteria: Criteria, intent: str, text: str, judge: Judge) -> float:
    if criteria.note is None:
        raise UnusableCriteria("the task does not say why it cannot be done", shown="'string_note'")
    return await judge.judge(Question(QuestionKind.REASON, intent, criteria.note, text))


def _list(reference: Any, way: str) -> list[str]:
    if not isinstance(reference, list):
        raise UnusableCriteria(f"{way} is no list", shown="")
    return [_text(part, way) for part in cast("list[Any]", reference)]


def _text(reference: Any, way: str) -> str:
    if not isinstance(reference, str):
        raise UnusableCriteria(f"{way} has a reference that is no text: {reference!r}")
    return reference
