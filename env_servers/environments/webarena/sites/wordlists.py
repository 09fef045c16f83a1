"""How word lists are written in the modules that generate content."""

from __future__ import annotations

__all__ = ["entries", "words"]


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


def entries(text: str, separator: str = ";") -> tuple[str, ...]:
    """Return the entries of a text, which may be several words long and several lines apart."""
    return tuple(" ".join(entry.split()) for entry in text.split(separator) if entry.strip())
