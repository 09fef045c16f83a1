"""A passage, the stores that hold passages, and what every retriever of them promises.

Contains the vocabulary between episodes, corpora and retrievers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["Passage", "Retriever", "as_contents", "from_contents"]


class Passage(NamedTuple):
    """A piece of text that a search can find."""

    id: str
    title: str
    """As the corpus writes it; the published Wikipedia corpora put it in double quotes."""
    text: str


class Retriever(Protocol):
    """Finds passages for queries; shared by all episodes of a process."""

    def search(self, queries: Sequence[str]) -> list[tuple[Passage, ...]]:
        """Return the best passages of each query, best first; equal queries get equal answers.

        Raises EnvironmentUnavailable where passages cannot be had.
        """
        ...

    def close(self) -> None:
        """Release connections and files."""
        ...


def from_contents(identifier: str, contents: str) -> Passage:
    """Return a corpus entry: its first line is the title."""
    title, _, text = contents.partition("\n")
    return Passage(identifier, title, text)


def as_contents(passage: Passage) -> str:
    """Return the passage as a corpus entry and as the text that is indexed."""
    return f"{passage.title}\n{passage.text}"
