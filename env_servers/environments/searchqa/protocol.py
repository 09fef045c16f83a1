"""Search-R1's tags: how a reply is read, and how what was found is shown.

Contains the tags and the observation strings of a step, as the original has them. Any text is legal
to read, and reading takes time linear in its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from env_servers.environments.searchqa.passages import Passage

__all__ = ["Move", "act", "information", "last_answer", "read_move", "without_thoughts"]

RIGHT: Final = "Congratulations! You have answered the question correctly."
WRONG: Final = "Sorry, your answer is incorrect. Please try again."
WRONG_FINAL: Final = "Sorry, your answer is incorrect."
INVALID: Final = (
    "Your previous action is invalid. If you want to search, you should put the query between "
    "<search> and </search>. If you want to give the final answer, you should put the answer "
    "between <answer> and </answer>. Please try again."
)
SEARCH: Final = "search"
ANSWER: Final = "answer"
_VERBS: Final = (SEARCH, ANSWER)


class Move(NamedTuple):
    """What a reply asks for."""

    verb: str
    """SEARCH, ANSWER, or empty where the reply has neither."""
    content: str
    """Between the tags, stripped."""


def read_move(reply: str) -> Move:
    """The first search or answer whose tag is closed; tags may stand anywhere, as in the original.

    A tag counts from its opening to the first closing tag of the same name, whatever lies between.
    """
    best: tuple[int, str] | None = None
    for verb in _VERBS:
        start = reply.find(f"<{verb}>")
        if start >= 0 and reply.find(f"</{verb}>", start) >= 0:
            best = min(best or (start, verb), (start, verb))
    if best is None:
        return Move("", "")
    start, verb = best
    inner = start + len(verb) + 2
    return Move(verb, reply[inner : reply.find(f"</{verb}>", inner)].strip())


def last_answer(reply: str) -> str:
    """Return the content of the last closed answer tag; empty where there is none.

    Tags are paired from the front, so an opening tag inside an answer belongs to it.
    """
    answer, position = "", 0
    opening, closing = f"<{ANSWER}>", f"</{ANSWER}>"
    while (start := reply.find(opening, position)) >= 0:
        inner = start + len(opening)
        end = reply.find(closing, inner)
        if end < 0:
            break
        answer, position = reply[inner:end].strip(), end + len(closing)
    return answer


def without_thoughts(reply: str) -> str:
    """Return the reply without its `<think>` blocks; one that is not closed reaches to the end."""
    parts: list[str] = []
    position = 0
    while (start := reply.find("<think>", position)) >= 0:
        parts.append(reply[position:start])
        end = reply.find("</think>", start)
        if end < 0:
            return "".join(parts)
        position = end + len("</think>")
    parts.append(reply[position:])
    return "".join(parts)


def act(verb: str, content: str) -> str:
    """Return a native action."""
    return f"<{verb}> {content} </{verb}>"


def information(passages: Iterable[Passage]) -> str:
    """Return what a search shows."""
    listing = "".join(
        f"Doc {number}(Title: {title}) {text}\n"
        for number, (_, title, text) in enumerate(passages, start=1)
    )
    return f"<information>{listing.strip()}</information>"
