"""Regular expressions that take linear time, for searches with patterns that an agent wrote.

Python's own engine needs exponential time for some patterns, and an agent may write any. This one
follows all alternatives at once. It owns a subset of the usual syntax: literals, `.`, classes,
digits, words and blanks (`d`, `w`, `s` after a backslash; capitals for all else), groups, `|`,
greedy or lazy `* + ? {m,n}`, `^` and `$`. Anything else raises PatternError. It
tells whether a pattern occurs, not where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

__all__ = ["Pattern", "PatternError", "compile_pattern"]

MAX_PATTERN: Final = 500
"""Longest pattern, in characters."""
MAX_STATES: Final = 2_000
"""Largest automaton; repetitions such as `(a{50}){50}` multiply."""
MAX_DEPTH: Final = 40
"""Deepest nesting of groups."""

_Test = Callable[[str], bool]
_SPLIT: Final = 0
_CHAR: Final = 1
_START: Final = 2
_END: Final = 3
_MATCH: Final = 4


class PatternError(ValueError):
    """The text is no pattern that can be searched for."""


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CLASSES: Final[dict[str, _Test]] = {
    "d": str.isdecimal,
    "w": _is_word,
    "s": str.isspace,
    "D": lambda char: not char.isdecimal(),
    "W": lambda char: not _is_word(char),
    "S": lambda char: not char.isspace(),
}
_BOUNDS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r"}


class _Node:
    """A part of the automaton under construction: appends itself to a program."""

    def __init__(self, emit: Callable[[_Program], None]) -> None:
        self.emit = emit


class _Program:
    """States: (kind, test, next states)."""

    def __init__(self) -> None:
        self.states: list[tuple[int, _Test | None, list[int]]] = []

    def add(self, kind: int, test: _Test | None = None) -> int:
        if len(self.states) >= MAX_STATES:
            raise PatternError("the pattern is too complex")
        self.states.append((kind, test, [len(self.states) + 1]))
        return len(self.states) - 1

    @property
    def end(self) -> int:
        return len(self.states)


class Pattern:
    """A compiled pattern."""

    def __init__(self, program: _Program) -> None:
        program.add(_MATCH)
        self._states = program.states

    @property
    def size(self) -> int:
        """States; a search takes at most so many operations for each character."""
        return len(self._states)

    def occurs_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        current: set[int] = set()
        for place in range(len(text) + 1):
            current.add(0)
            current = self._closure(current, place, len(text))
            if len(self._states) - 1 in current:
                return True
            if place < len(text):
                current = self._advance(current, text[place])
        return False

    def _advance(self, current: set[int], char: str) -> set[int]:
        following: set[int] = set()
        for number in current:
            kind, test, after = self._states[number]
            if kind == _CHAR and test is not None and test(char):
                following.update(after)
        return following

    def _closure(self, current: set[int], place: int, length: int) -> set[int]:
        waiting, found = list(current), set(current)
        while waiting:
            kind, _, after = self._states[waiting.pop()]
            passes = (
                kind == _SPLIT
                or (kind == _START and place == 0)
                or (kind == _END and place == length)
            )
            if passes:
                new = [number for number in after if number not in found]
                found.update(new)
                waiting.extend(new)
        return found


class _Parser:
    """Recursive descent over the pattern's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.depth = 0

    def peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise PatternError("the pattern ends too early")
        self.place += 1
        return char

    def alternatives(self) -> _Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise PatternError("the pattern is nested too deeply")
        options = [self.sequence()]
        while self.peek() == "|":
            self.place += 1
            options.append(self.sequence())
        self.depth -= 1
        return options[0] if len(options) == 1 else _choice(options)

    def sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated(self.atom()))

        def emit(program: _Program) -> None:
            for part in parts:
                part.emit(program)

        return _Node(emit)

    def repeated(self, node: _Node) -> _Node:
        char = self.peek()
        bounds = _BOUNDS.get(char)
        if bounds is not None:
            self.place += 1
        elif char == "{" and (counted := self.counted()):
            bounds = counted
        if bounds is None:
            return node
        if self.peek() == "?":  # lazy: the same for a yes or no
            self.place += 1
        if self.peek() in ("*", "+", "?"):
            raise PatternError("multiple repeat")
        return _repeat(node, *bounds)

    def counted(self) -> tuple[int, int | None] | None:
        """`{m}`, `{m,}` or `{m,n}`; None = the brace stands for itself."""
        close = self.text.find("}", self.place)
        least, comma, most = self.text[self.place + 1 : max(close, 0)].partition(",")
        numbers = [text for text in (least, most) if text]
        if not numbers or not all(n.isascii() and n.isdigit() and len(n) < 5 for n in numbers):
            return None
        self.place = close + 1
        low = int(least or 0)
        high = low if not comma else int(most) if most else None
        if high is not None and high < low:
            raise PatternError("min repeat greater than max repeat")
        return low, high

    def atom(self) -> _Node:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return _char(self.char_class())
        if char == ".":
            return _char(lambda found: found != "\n")
        if char in "*+?":
            raise PatternError("nothing to repeat")
        if char in "^$":
            kind = _START if char == "^" else _END
            return _Node(lambda program: _ignore(program.add(kind)))
        return _char(self.escaped() if char == "\\" else char.__eq__)

    def group(self) -> _Node:
        if self.peek() == "?":
            if self.text[self.place : self.place + 2] != "?:":
                raise PatternError("only plain groups are supported")
            self.place += 2
        inner = self.alternatives()
        if self.take() != ")":
            raise PatternError("missing )")
        return inner

    def escaped(self) -> _Test:
        char = self.take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _CONTROLS:
            return _CONTROLS[char].__eq__
        if char.isalnum():
            raise PatternError(f"\\{char} is not supported")
        return char.__eq__

    def char_class(self) -> _Test:
        negated = self.peek() == "^"
        self.place += negated
        tests: list[_Test] = []
        while not tests or self.peek() != "]":
            tests.append(self.class_item())
        self.place += 1
        return lambda found: any(test(found) for test in tests) != negated

    def class_item(self) -> _Test:
        char = self.take()
        if char == "\\":
            return self.escaped()
        if self.peek() == "-" and self.text[self.place + 1 : self.place + 2] not in ("", "]"):
            self.place += 1
            last = self.take()
            if last < char:
                raise PatternError(f"bad character range {char}-{last}")
            return lambda found: char <= found <= last
        return char.__eq__


def _ignore(_: int) -> None:
    """Discards a state's number."""


def _char(test: _Test) -> _Node:
    return _Node(lambda program: _ignore(program.add(_CHAR, test)))


def _choice(options: Sequence[_Node]) -> _Node:
    def emit(program: _Program) -> None:
        exits: list[int] = []
        for option in options[:-1]:
            split = program.add(_SPLIT)
            option.emit(program)
            exits.append(program.add(_SPLIT))
            program.states[split][2].append(program.end)
        options[-1].emit(program)
        for number in exits:
            program.states[number][2][:] = [program.end]

    return _Node(emit)


def _repeat(node: _Node, low: int, high: int | None) -> _Node:
    def emit(program: _Program) -> None:
        for _ in range(low):
            node.emit(program)
        if high is None:
            split = program.add(_SPLIT)
            node.emit(program)
            back = program.add(_SPLIT)
            program.states[back][2][:] = [split]
            program.states[split][2].append(program.end)
            return
        splits: list[int] = []
        for _ in range(high - low):
            splits.append(program.add(_SPLIT))
            node.emit(program)
        for split in splits:
            program.states[split][2].append(program.end)

    return _Node(emit)


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Raises PatternError."""
    if len(text) > MAX_PATTERN:
        raise PatternError(f"the pattern is longer than {MAX_PATTERN} characters")
    parser = _Parser(text)
    node = parser.alternatives()
    if parser.peek():
        raise PatternError("unbalanced parenthesis")
    program = _Program()
    node.emit(program)
    return Pattern(program)
