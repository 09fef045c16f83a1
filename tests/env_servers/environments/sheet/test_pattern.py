"""Patterns find what Python's own expressions find, in linear time."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.sheet.pattern import PatternError, compile_pattern


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
