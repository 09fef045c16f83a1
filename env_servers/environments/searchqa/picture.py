"""The question with what it takes to answer it, and the passages found, with what matched."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from env_servers.environments.searchqa.passages import Passage
from env_servers.environments.searchqa.questions import Question
from env_servers.sdk import View
from env_servers.toolkit.drawing import (
    Markup,
    Table,
    document,
    element,
    facts,
    join,
    section,
    text_view,
)

__all__ = ["QUERY_CHARS", "draw"]

QUERY_CHARS: Final = 300
"""Of a query, as it is shown."""
_PASSAGE_CHARS: Final = 4_000
_COMMON_CHARS: Final = 3
"""Words of a query this short are not marked: they are everywhere."""
_WORD: Final = re.compile(r"\w+")


def draw(
    question: Question,
    queries: Sequence[str],
    passages: Sequence[Passage],
    seen: Collection[str],
) -> list[View]:
    """Draw an episode.

    Args:
        question: With its answers, which agents do not see.
        queries: What was searched for, in order.
        passages: What the last search found.
        seen: Titles of clues that were shown so far; an empty one = a passage that has the answer.
    """
    known = {
        "question": question.text,
        "answers that count": " | ".join(question.answers),
        "searched for": "; ".join(queries) or "nothing yet",
    }
    clues = Table(
        ["found", "to find out", "in"],
        [
            ("yes" if clue.title in seen else "no", clue.aim, clue.title or "any passage")
            for clue in question.clues
        ],
        "Clues, which agents do not see",
    )
    last = queries[-1] if queries else ""
    marked = _pattern((*_words(last), *question.answers))
    parts = [facts(known), *([clues.html()] if question.clues else [])]
    parts += [
        section(passage.title, element("p", _marked(passage.text[:_PASSAGE_CHARS], marked)))
        for passage in passages
    ]
    lines = [f"{name}: {value}" for name, value in known.items()]
    lines += ["", clues.text()] if question.clues else []
    for passage in passages:
        text = passage.text[:_PASSAGE_CHARS]
        lines += ["", f"# {passage.title}", marked.sub(r"[\g<0>]", text) if marked else text]
    return [
        document("passages", "Question and passages", *parts),
        text_view("text", "Passages as text", "\n".join(lines)),
    ]


def _words(query: str) -> list[str]:
    return [word for word in _WORD.findall(query) if len(word) > _COMMON_CHARS]


def _pattern(phrases: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern of any of the phrases as whole words; None = there is nothing to mark."""
    longest_first = sorted({phrase for phrase in phrases if phrase.strip()}, key=len, reverse=True)
    if not longest_first:
        return None
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)


def _marked(text: str, pattern: re.Pattern[str] | None) -> Markup:
    if pattern is None:
        return join((text,))
    parts: list[object] = []
    end = 0
    for match in pattern.finditer(text):
        parts += [text[end : match.start()], element("mark", match[0])]
        end = match.end()
    return join((*parts, text[end:]))
