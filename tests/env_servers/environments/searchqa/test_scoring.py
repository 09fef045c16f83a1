"""Exact match is SQuAD's: the same normalisation, whatever the texts."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_servers.environments.searchqa.scoring import exact_match, normalised


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Beatles!", "beatles"),
        ("  a   dog  ", "dog"),
        ("An apple, a pear;", "apple pear"),
        ("The United States of America!", "united states of america"),
        ("U.S.A.", "usa"),
        ("Arthur's Magazine", "arthurs magazine"),
        ("100 - 150", "100 150"),
        ("100 % 150", "100 150"),
        ("1,240", "1240"),
        ("NorMaliZation teSt", "normalization test"),
        ("theatre and anatomy", "theatre and anatomy"),
        ("The the THE", ""),
        ("", ""),
        ("a.b", "ab"),
        ("the-end", "theend"),
        ("Z\u00fcrich\u2013Bern", "z\u00fcrich\u2013bern"),
        ("\u0130stanbul", "i\u0307stanbul"),
        ("tab\tand\nline", "tab and line"),
        ("x\u00a0the\u2003y", "x y"),
        ("a\u0301 b", "\u0301 b"),
    ],
)
def test_known_texts_are_normalised_as_published(text: str, expected: str) -> None:
    assert normalised(text) == expected


def published(text: str) -> str:
    """The four steps of the SQuAD evaluation script, one after the other."""
    lowered = text.lower()
    without = "".join(sign for sign in lowered if sign not in set(string.punctuation))
    bare = re.sub(r"\b(a|an|the)\b", " ", without)
    return " ".join(bare.split())


signs = st.text(alphabet="aAtThHeEnN .,-'\u2019\u0130\u00df\t\n!$_9") | st.text()


@given(signs)
def test_any_text_is_normalised_as_by_the_published_steps(text: str) -> None:
    assert normalised(text) == published(text)


@given(signs)
def test_normalising_again_changes_only_articles_that_punctuation_had_joined(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == published(once)


def test_any_of_the_answers_counts() -> None:
    assert exact_match("the Eiffel tower.", ("Tour Eiffel", "Eiffel Tower"))
    assert not exact_match("Eiffel", ("Tour Eiffel", "Eiffel Tower"))
    assert not exact_match("anything", ())


def test_an_answer_of_articles_matches_only_its_like() -> None:
    assert exact_match("the", ("A",))
    assert not exact_match("", ("x",))
