"""What the scripted players do: follow the clues of a question, or act at random.

Contains the order of searches and the wording of thoughts. The expert knows which passages tell
what is to be found out. It searches for one after the other, rewords a search that does not bring
the passage, and answers when it has seen all of them or has no wording left. Everything is a pure
function of the question and of what was searched and seen so far.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Final

from env_servers.environments.searchqa.protocol import ANSWER, SEARCH, act
from env_servers.environments.searchqa.questions import Clue, Question
from env_servers.sdk import Advice

__all__ = ["advise", "noop_advice", "random_advice"]

_FIRST: Final = (
    "I have to find out {aim} first, so I search for that.",
    "The question turns on {aim}. I do not know it yet, so I look it up.",
    "What I need to begin with is {aim}.",
    "Before I can answer I need {aim}. A search should tell.",
)
_NEXT: Final = (
    "The information says that {finding}. What is missing now is {aim}.",
    "So {finding}. Next I need {aim}.",
    "Now I know that {finding}. I go on to {aim}.",
    "{finding}: that is one piece. The other is {aim}.",
)
_AGAIN: Final = (
    "None of these passages tells {aim}. I try other words.",
    "That search did not bring {aim}, so I word it differently.",
    "The passage that I want is not among these. I search for {aim} once more, in other words.",
)
_DONE: Final = (
    "The information says that {finding}. With that the answer is {answer}.",
    "I have read that {finding}. So I can answer: {answer}.",
    "{finding}, so the answer must be {answer}.",
    "That is all I need, because {finding}. My answer is {answer}.",
)
_COMPARED: Final = (
    "I have both facts: {findings}. So the answer is {answer}.",
    "{findings}. Compared with each other, they give the answer {answer}.",
    "Now I can compare: {findings}. The answer is {answer}.",
)
_UNFOUND: Final = (
    "My searches do not bring a passage that settles it. The best answer I have is {answer}.",
    "I have no better words left to search with. As far as I know it is {answer}.",
)
_RANDOM: Final = "I try something at random."
_COMPARISONS: Final = ("comparison", "yes or no")


def advise(
    question: Question, searched: Collection[str], seen: Collection[str], wording: int
) -> Advice:
    """Return the next action; `searched` are earlier queries, `seen` the titles that were shown."""
    known_clues: list[Clue] = []
    for clue in question.clues:
        if clue.title in seen:
            known_clues.append(clue)
            continue
        left = [query for query in clue.queries if query not in searched]
        if left:
            return Advice(act(SEARCH, left[0]), _reason(clue, left, known_clues, wording))
    return Advice(act(ANSWER, question.answers[0]), _conclusion(question, known_clues, wording))


def _reason(clue: Clue, left: Sequence[str], known_clues: Sequence[Clue], wording: int) -> str:
    if len(left) < len(clue.queries):
        return _say(_AGAIN, wording, aim=clue.aim)
    if known_clues:
        return _say(_NEXT, wording, aim=clue.aim, finding=known_clues[-1].finding)
    return _say(_FIRST, wording, aim=clue.aim)


def _conclusion(question: Question, known_clues: Sequence[Clue], wording: int) -> str:
    answer = question.answers[0]
    if not known_clues or len(known_clues) < len(question.clues):
        return _say(_UNFOUND, wording, answer=answer)
    if question.category in _COMPARISONS and len(known_clues) > 1:
        findings = ", and ".join(clue.finding for clue in known_clues)
        return _say(_COMPARED, wording, findings=findings, answer=answer)
    return _say(_DONE, wording, finding=known_clues[-1].finding, answer=answer)


def _say(thoughts: Sequence[str], wording: int, **words: str) -> str:
    thought = thoughts[wording % len(thoughts)].format(**words)
    return thought[0].upper() + thought[1:]


def random_advice(question: Question, rng: random.Random) -> Advice:
    """Return a search for some words of the question, or one of its words as the answer."""
    words = question.text.replace("<", " ").replace(">", " ").split() or ["anything"]
    start = rng.randrange(len(words))
    if rng.random() < 0.8:
        return Advice(act(SEARCH, " ".join(words[start : start + 4])), _RANDOM)
    return Advice(act(ANSWER, words[start]), _RANDOM)


def noop_advice() -> Advice:
    """Return a reply without search and without answer."""
    return Advice("", "I wait and do nothing.")
