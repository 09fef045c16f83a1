"""The guesses as coloured tiles, and what is known of each letter."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Final

from env_servers.environments.wordle.rules import ATTEMPTS, LENGTH, Turn
from env_servers.sdk import View
from env_servers.toolkit.drawing import Drawing, text_view

__all__ = ["draw"]

_TILE: Final = 48
_GAP: Final = 6
_KEY: Final = 20
_COLORS: Final = {"g": "#2f7d32", "y": "#8a6400", "b": "#5b5f63"}
"""Dark enough for white letters in any surroundings."""
_SIGNS: Final = {"g": "G", "y": "y", "b": "."}
_WORTH: Final = "byg"
"""Colours of a letter from least to most telling."""


def draw(turns: Sequence[Turn], attempts: int, hidden: str) -> list[View]:
    """Draw a game.

    Args:
        turns: Valid guesses and their feedback.
        attempts: Guesses that were counted, words that do not exist included.
        hidden: What is said of the word that is looked for.
    """
    wasted = attempts - len(turns)
    said = f"attempts {attempts} of {ATTEMPTS}" + (f", {wasted} with no word" if wasted else "")
    known = _letters(turns)
    lines = [f"{_spaced(guess.upper())}   {_spaced(_signs(marks))}" for guess, marks in turns]
    letters = " ".join(f"{letter.upper()}{_SIGNS[mark]}" for letter, mark in known.items())
    text = "\n".join([*lines, said, f"letters: {letters or 'none tried'}", hidden])
    return [_tiles(turns, known, [said, hidden]), text_view("text", "Guesses as text", text)]


def _spaced(word: str) -> str:
    return " ".join(word)


def _signs(marks: str) -> str:
    return "".join(_SIGNS[mark] for mark in marks)


def _letters(turns: Sequence[Turn]) -> dict[str, str]:
    """The best colour that each tried letter had."""
    best: dict[str, str] = {}
    for guess, marks in turns:
        for letter, mark in zip(guess, marks, strict=True):
            best[letter] = max(mark, best.get(letter, "b"), key=_WORTH.index)
    return dict(sorted(best.items()))


def _tiles(turns: Sequence[Turn], known: dict[str, str], said: Sequence[str]) -> View:
    step = _TILE + _GAP
    height = ATTEMPTS * step + _GAP
    drawing = Drawing(max(LENGTH * step, 13 * _KEY) + _GAP, height + 2 * _KEY + 2 * 20 + 12)
    for row in range(ATTEMPTS):
        guess, marks = turns[row] if row < len(turns) else (" " * LENGTH, "")
        for column in range(LENGTH):
            x, y = _GAP + column * step, _GAP + row * step
            if not marks:
                drawing.rectangle(x, y, _TILE, _TILE, stroke="var(--line)", radius=4)
                continue
            drawing.rectangle(x, y, _TILE, _TILE, fill=_COLORS[marks[column]], radius=4)
            letter = guess[column].upper()
            middle = (x + _TILE / 2, y + _TILE / 2)
            drawing.text(*middle, letter, size=28, fill="#ffffff", anchor="middle", bold=True)
    for number, letter in enumerate(ascii_lowercase):
        x, y = _GAP + number % 13 * _KEY, height + number // 13 * _KEY
        mark = known.get(letter)
        if mark:
            drawing.rectangle(x, y, _KEY - 2, _KEY - 2, fill=_COLORS[mark], radius=3)
        fill = "#ffffff" if mark else "var(--muted)"
        middle = (x + _KEY / 2 - 1, y + _KEY / 2 - 1)
        drawing.text(*middle, letter.upper(), size=12, fill=fill, anchor="middle")
    for number, line in enumerate(said):
        drawing.text(_GAP, height + 2 * _KEY + 16 + 20 * number, line, size=12)
    return drawing.view("tiles", "Guesses")
