r"""Regular expressions that an agent wrote, searched for in linear time.

Python's own engine needs exponential time for some patterns, and an agent may write any. So a
pattern is read here, translated and handed to RE2, which never backtracks and refuses programs
above a limit. Supported are literals, `.`, classes, `\d \w \s` (capitals for all else), `\n \t \r`,
groups, `|`, greedy or lazy `* + ? {m,n}`, `^` and `$`: what Python's `re` and RE2 agree on, with
Python's Unicode classes. Anything else is a PatternError. A search tells whether a pattern occurs,
not where; `$` is the very end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import re2  # pyright: ignore[reportMissingTypeStubs]

__all__ = ["Pattern", "PatternError", "compile_pattern"]

MAX_PATTERN: Final = 500
"""Longest pattern, in characters."""
MAX_REPEAT: Final = 1_000
"""Most repetitions of one thing; RE2's own limit, which holds for nested ones multiplied too."""
MAX_DEPTH: Final = 40
"""Deepest nesting of groups."""
MAX_MEMORY: Final = 2 * 2**20
r"""Bytes for the program of a pattern and the states that a search keeps. `\w{60}` needs most of
them: a class of Unicode is some thousand instructions. 128 compiled patterns are cached."""

_CONTROLS: Final = frozenset("ntr")
_COUNT: Final = re.compile(r"\{(?P<low>[0-9]{0,4})(?P<comma>,?)(?P<high>[0-9]{0,4})\}")


class PatternError(ValueError):
    """The text is no pattern that can be searched for."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    @property
    def size(self) -> int:
        """Instructions; a search takes at most so many operations for each character."""
        return self._compiled.programsize

    def occurs_in(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in the text."""
        return self._compiled.search(_encodable(text)) is not None


def compile_pattern(text: str) -> Pattern:
    """Return the pattern of a text, whatever it costs elsewhere.

    Raises:
        PatternError: the text is no pattern, is not supported, or is too long or too complex.
    """
    if len(text) > MAX_PATTERN:
        raise PatternError(f"the pattern is longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        return Pattern(re2.compile(_Translator(_encodable(text)).translated(), options))
    except re2.error as error:
        # The translator let nothing else through than what is too large for RE2's limits.
        raise PatternError("the pattern is too complex") from error


def _encodable(text: str) -> str:
    """Return the text with U+FFFD for lone surrogates, which UTF-8 and so RE2 cannot hold."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdecimal,
    "w": _is_word,
    "s": str.isspace,
    "D": lambda char: not char.isdecimal(),
    "W": lambda char: not _is_word(char),
    "S": lambda char: not char.isspace(),
}


@cache
def _class_members(name: str) -> str:
    r"""Return the characters of `\d`, `\w` ... as ranges for RE2's brackets.

    Written out because RE2's `\d` knows ASCII only, Python's does not, and because RE2's tables
    are of another version of Unicode than Python's.
    """
    test = _CLASSES[name]
    members = bytes(test(chr(code)) for code in range(0x110000))
    ranges = ((run.start(), run.end() - 1) for run in re.finditer(b"\x01+", members))
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


def _quoted(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


class _Translator:
    """One pass over a pattern, from Python's syntax to RE2's.

    It finds every mistake itself, so that what agents are shown does not hang on RE2's words.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._repeatable = False
        """Something stands to the left that `*` or `{2}` may repeat."""

    def translated(self) -> str:
        parts: list[str] = []
        while self._position < len(self._text):
            parts.append(self._part())
        if self._depth:
            raise PatternError("the pattern ends too early")
        return "".join(parts)

    def _part(self) -> str:
        count = _COUNT.match(self._text, self._position)
        if count is not None and (count["low"] or count["high"]):
            self._position = count.end()
            return self._repetition(_counted(count))
        char = self._take()
        if char in "*+?":
            return self._repetition(char)
        self._repeatable = char not in "(|"
        if char == "\\":
            name = self._take()
            return f"[{_class_members(name)}]" if name in _CLASSES else _escaped(name)
        if char == "[":
            return self._char_class()
        if char == "(":
            return self._group()
        if char == ")":
            self._depth -= 1
            if self._depth < 0:
                raise PatternError("unbalanced parenthesis")
        return char if char in ".^$|)" else _quoted(char)

    def _repetition(self, sign: str) -> str:
        if not self._repeatable:
            raise PatternError("nothing to repeat")
        if self._peek() == "?":
            sign += self._take()
        if self._peek() in ("*", "+", "?"):
            raise PatternError("multiple repeat")
        self._repeatable = False
        return sign

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise PatternError("the pattern ends too early")
        self._position += 1
        return char

    def _peek(self, distance: int = 0) -> str:
        start = self._position + distance
        return self._text[start : start + 1]

    def _group(self) -> str:
        if self._peek() == "?":
            if self._peek(1) != ":":
                raise PatternError("only plain groups are supported")
            self._position += 2
        self._depth += 1
        if self._depth >= MAX_DEPTH:
            raise PatternError("the pattern is nested too deeply")
        return "(?:"

    def _char_class(self) -> str:
        negated = self._peek() == "^"
        self._position += negated
        members = [self._class_item()]  # a bracket in the first place stands for itself
        while self._peek() != "]":
            members.append(self._class_item())
        self._position += 1
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _class_item(self) -> str:
        char = self._take()
        if char == "\\":
            name = self._take()
            return _class_members(name) if name in _CLASSES else _escaped(name)
        if self._peek() == "-" and self._peek(1) not in ("", "]"):
            self._position += 1
            last = self._take()
            if last < char:
                raise PatternError(f"bad character range {char}-{last}")
            return f"{_quoted(char)}-{_quoted(last)}"
        return _quoted(char)


def _escaped(name: str) -> str:
    """Return a character behind a backslash that names no class."""
    if name in _CONTROLS:
        return f"\\{name}"
    if name.isalnum():
        raise PatternError(f"\\{name} is not supported")
    return _quoted(name)


def _counted(count: re.Match[str]) -> str:
    """`{m}`, `{m,}`, `{,n}` or `{m,n}`; RE2 reads the third as text."""
    low = int(count["low"] or 0)
    high = int(count["high"]) if count["high"] else None
    if high is not None and high < low:
        raise PatternError("min repeat greater than max repeat")
    if max(low, high or 0) > MAX_REPEAT:  # at once, not after hours of unrolling
        raise PatternError("the pattern is too complex")
    return f"{{{low}{count['comma']}{'' if high is None else high}}}"
