"""Who decides whether an answer means what a reference says.

A judge is asked with two or three texts and says yes or no. `PolicyJudge` asks a language model,
as the original does; its prompts say in our words what the original's say, with the same verdicts.
`OfflineJudge` is a rule of our own that needs no model: scores that it decided are marked as such
(`Score.judged_by`), and are not those of a published benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from env_servers.environments.webarena.evaluation.errors import UnreadableVerdict

__all__ = ["OFFLINE", "Judge", "OfflineJudge", "PolicyJudge", "Question", "QuestionKind", "Reply"]

OFFLINE: Final = "offline rule"
Reply = Callable[[Sequence[Mapping[str, str]]], Awaitable[str]]
"""A language model: messages of `role` and `content` in, its text out."""


class QuestionKind(Enum):
    """What is asked of a judge."""

    ANSWER = auto()
    """Does the answer mean what the reference answer says?"""
    REASON = auto()
    """Is the reason that was given why the task cannot be done the true one?"""


@dataclass(frozen=True, slots=True)
class Question:
    """One comparison."""

    kind: QuestionKind
    intent: str
    reference: str
    answer: str
    """In lower case, without outer quotes."""


class Judge(Protocol):
    """Compares an answer with a reference."""

    @property
    def name(self) -> str:
        """What a score that it decided is marked with."""
        ...

    async def judge(self, question: Question) -> float:
        """Return 1.0 or 0.0; raises UnreadableVerdict, and whatever keeps it from judging."""
        ...


class PolicyJudge:
    """Asks a language model, which must say one of the verdicts."""

    def __init__(self, name: str, reply: Reply) -> None:
        self.name = name
        self._reply = reply

    async def judge(self, question: Question) -> float:
        verdict = (await self._reply(messages(question))).lower()
        if question.kind is QuestionKind.REASON:
            return _decide(verdict, no=("different",), yes="same")
        return _decide(verdict, no=("partially correct", "incorrect"), yes="correct")


def messages(question: Question) -> list[dict[str, str]]:
    """Return the messages of a question."""
    text = _REASON if question.kind is QuestionKind.REASON else _ANSWER
    content = text.format(
        intent=question.intent, reference=question.reference, answer=question.answer
    )
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": content}]


def _decide(verdict: str, *, no: Sequence[str], yes: str) -> float:
    if any(word in verdict for word in no):
        return 0.0
    if yes not in verdict:
        wanted = ", ".join((yes, *no))
        raise UnreadableVerdict(f"the judge said {verdict[:200]!r}, none of: {wanted}", shown="")
    return 1.0


class OfflineJudge:
    """Compares words: every number, and two of three of the other words of the reference.

    Words are compared without endings of the plural, in any order, and without articles and the
    like. An answer that says `N/A` to an achievable task is wrong. For a reason why a task cannot
    be done, one of three words of the true reason is enough.
    """

    name = OFFLINE

    async def judge(self, question: Question) -> float:
        wanted, given = _words(question.reference), _words(question.answer)
        numbers = {word for word in wanted if word[0].isdigit()}
        rest = wanted - numbers
        share = 1 / 3 if question.kind is QuestionKind.REASON else 2 / 3
        if not wanted or not numbers <= given:
            return 0.0
        return float(len(rest & given) >= share * len(rest))


_SYSTEM: Final = "You compare two texts and answer with one of the verdicts that you are given."
_ANSWER: Final = """\
A question was put to somebody. Does the answer say the same as the reference answer? Other words,
another order and another form of dates or numbers are fine; anything missing or wrong is not.
Question: {intent}
Reference answer: {reference}
Given answer: {answer}
"N/A" in any of these means that the question has no answer.
Verdict, one of: correct, incorrect, partially correct."""
_REASON: Final = """\
A task cannot be done, and somebody who tried it said why. Is that, at least in substance, the true
reason?
Task: {intent}
True reason: {reference}
Given reason: {answer}
Verdict, one of: same, different."""

_WORD: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
_EMPTY: Final = frozenset(
    (
        *("a", "an", "and", "are", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on"),
        *("or", "that", "the", "there", "thi", "to", "wa", "were", "with"),
    )
)
"""Words that say nothing, as `_words` leaves them."""


def _words(text: str) -> set[str]:
    found = {word.removesuffix("s") or word for word in _WORD.findall(text.lower())}
    return found - _EMPTY
