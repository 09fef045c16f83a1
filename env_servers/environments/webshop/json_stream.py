"""Large JSON files, one top-level entry at a time.

Reads a top-level array or object with a bounded buffer, and says where in the file each entry
lies, so that it can be read again alone. Memory depends on the largest entry, not on the file.
A streaming parser such as ijson gives no byte offsets of the entries, which are what the catalogue
of 1.18 million products is read back by; so this module is not replaced by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

__all__ = ["DamagedFile", "Entry", "entries"]

_CHUNK: Final = 1 << 22
_BLANK: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


class DamagedFile(ValueError):
    """When a file is no JSON array or object, or stops before its end."""


class Entry(NamedTuple):
    """One element of an array, or one pair of an object."""

    start: int
    """Byte offset of the value."""
    end: int
    key: str
    """Empty in an array."""
    value: Any


class _Reader:
    """A window on the file, in characters that are its bytes."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._text = ""
        self._base = 0
        """Byte offset of the window's first character."""
        self._place = 0
        self._ended = False

    def _fill(self) -> None:
        chunk = self._file.read(_CHUNK)
        self._ended = not chunk
        self._text = self._text[self._place :] + chunk.decode("latin-1")
        self._base += self._place
        self._place = 0

    def sign(self) -> str:
        """Return the next character that is no blank, consumed; raises DamagedFile at the end."""
        while True:
            text, position = self._text, self._place
            while position < len(text) and text[position] in _BLANK:
                position += 1
            self._place = position
            if position < len(text):
                self._place += 1
                return text[position]
            if self._ended:
                raise self.damage("stops too early")
            self._fill()

    def back(self) -> None:
        """Take the last character as not consumed."""
        self._place -= 1

    def value(self) -> tuple[int, int, Any]:
        """Return the next value with the bytes that it takes."""
        self.sign()
        self.back()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
            except json.JSONDecodeError:
                if self._ended:
                    raise self.damage("is cut off or damaged") from None
                self._fill()
                continue
            piece = self._text[self._place : end]
            if not piece.isascii():
                value = json.loads(piece.encode("latin-1"))
            start, self._place = self._base + self._place, end
            return start, self._base + end, value

    def damage(self, what: str) -> DamagedFile:
        return DamagedFile(f"{self._name} {what} at byte {self._base + self._place:,}")


def entries(path: Path) -> Iterator[Entry]:
    """Yield every entry of the top-level array or object; raises DamagedFile, OSError."""
    with path.open("rb") as file:
        reader = _Reader(file, path.name)
        opening = reader.sign()
        if opening not in "[{":
            raise reader.damage("is no array or object")
        closing = "]" if opening == "[" else "}"
        if reader.sign() == closing:
            return
        reader.back()
        while True:
            key = ""
            if opening == "{":
                key = str(reader.value()[2])
                if reader.sign() != ":":
                    raise reader.damage("has a key without value")
            start, end, value = reader.value()
            yield Entry(start, end, key, value)
            sign = reader.sign()
            if sign == closing:
                return
            if sign != ",":
                raise reader.damage("has no comma between entries")
