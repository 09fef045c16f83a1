"""Patterns find what Python's own expressions find, in linear time and bounded memory."""

from __future__ import annotations

import random
import re
import sys
import warnings
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.sheet.pattern import PatternError, compile_pattern

ALPHABET = "ab1()|*+?[]^$.-\\dwsDWSnt_:{},2é٣ "
LETTERS = "ab1 -_é٣²x\t\u2028ß三"


def python_finds(pattern: str, text: str) -> bool | None:
    """What Python's own engine says; None = it refuses the pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.search(pattern, text) is not None
        except re.error:
            return None


def test_what_is_supported_means_what_it_means_in_python() -> None:
    rng = random.Random(20_261_122)
    supported = 0
    for _ in range(20_000):
        pattern = "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(1, 9)))
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(9)))
        try:
            occurs = compile_pattern(pattern).occurs_in(text)
        except PatternError:
            continue
        supported += 1
        assert occurs == python_finds(pattern, text) or python_finds(pattern, text) is None
    assert supported > 5_000


@pytest.mark.parametrize("name", list("dwsDWS"))
def test_classes_hold_exactly_the_characters_of_pythons(name: str) -> None:
    for pattern in (f"^\\{name}$", f"^[\\{name}]$"):
        ours, theirs = compile_pattern(pattern), re.compile(pattern)
        for code in (*range(0x3400), *range(0xA000, 0xD800, 7), *range(0xE000, 0x32000, 31)):
            char = chr(code)
            if char != "\n":  # Python's `$` matches before a final newline, too
                assert ours.occurs_in(char) == (theirs.search(char) is not None), hex(code)


@settings(max_examples=500, deadline=None)
@given(st.text("ab1()|*+?[]^$.-\\dws", min_size=1, max_size=9), st.text("ab1 -", max_size=8))
def test_a_pattern_that_both_read_finds_the_same(pattern: str, text: str) -> None:
    try:
        ours = compile_pattern(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = re.compile(pattern)
    except (PatternError, re.error):
        return
    assert ours.occurs_in(text) == (theirs.search(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^(Vegetables|Fruits)$", "Fruits", True),
        ("^(Vegetables|Fruits)$", "Fruits and more", False),
        (r"8[1-9]|[9]\d|\d{3,}", "80", False),
        (r"8[1-9]|[9]\d|\d{3,}", "100", True),
        ("a{2,3}b", "ab", False),
        ("[^a-c]", "abc", False),
        ("", "", True),
        ("(?:x|y)+?z", "xyz", True),
        ("x{,2}y", "xxxy", True),
        ("^x{,2}y", "xxxy", False),
        ("a{,}", "a{,}", True),
        ("[]a]", "]", True),
        ("^[^\\W_]+$", "Grüße٣", True),
        (".", "\ud800", True),
        ("a$", "a\n", False),
    ],
)
def test_usual_patterns_work(pattern: str, text: str, found: bool) -> None:
    assert compile_pattern(pattern).occurs_in(text) is found


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(a*)*b", "^" + "a*" * 30 + "$"])
def test_patterns_that_explode_elsewhere_stay_quick(pattern: str) -> None:
    assert not compile_pattern(pattern).occurs_in("a" * 2000 + "!")


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[a",
        "*a",
        "a**",
        "a{3,2}",
        "[z-a]",
        "\\",
        r"\1",
        "(?=a)",
        "(?P<n>a)",
        "(" * 100 + ")" * 100,
        "((a{500}){500}){500}",
        "a" * 501,
    ],
)
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "the pattern ends too early"),
        ("[a", "the pattern ends too early"),
        (")", "unbalanced parenthesis"),
        ("a|*", "nothing to repeat"),
        ("a*+", "multiple repeat"),
        ("a{3,2}", "min repeat greater than max repeat"),
        ("[z-a]", "bad character range z-a"),
        ("(?i)a", "only plain groups are supported"),
        (r"\ba", r"\b is not supported"),
        ("(" * 40 + ")" * 40, "the pattern is nested too deeply"),
        ("((a{500}){500}){500}", "the pattern is too complex"),
        (r"\w{500}", "the pattern is too complex"),
    ],
)
def test_a_refusal_says_what_is_wrong(pattern: str, message: str) -> None:
    with pytest.raises(PatternError) as refusal:
        compile_pattern(pattern)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    "pattern",
    [
        "((((){9999}){9999}){9999}){9999}",
        "((((){1000}){1000}){1000}){1000}",
        "((((a?){999}){999}){999}){999}",
        "(" * 12 + "x" + "{2})" * 12,
        "((()*)*)*{999}{999}",
    ],
)
def test_repetitions_of_repetitions_are_refused_without_unrolling_them(pattern: str) -> None:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        with pytest.raises(PatternError):
            compile_pattern(pattern)
    finally:
        sys.setprofile(None)
    assert calls < 2_000


def test_programs_are_bounded() -> None:
    assert compile_pattern("a" * 500).size < 1_000
    assert compile_pattern(r"(\w+ ){30}").size < 100_000
