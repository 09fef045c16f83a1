"""Text to index terms, as Lucene's English analysis does it.

Contains the word boundaries (Unicode's UAX #29 as far as product texts and encyclopedias need it,
emoji included), possessives, the 33 stop words of Lucene's default set, and stemming. Documents and
queries are analysed by the same function.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from env_servers.toolkit.retrieval.stemmer import stem

__all__ = ["STOP_WORDS", "terms"]

_STOP_WORDS: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())

_KANA: Final = "\u30a0-\u30ff"
_IDEOGRAPH: Final = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff"
_LETTER: Final = rf"[^\W\d_{_KANA}{_IDEOGRAPH}]"
_MARKS: Final = "[\u0300-\u036f\u200d\ufe0f]*"
_IN_WORD: Final = (
    "[.':\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a]"
)
"""Stays inside a word when letters stand on both sides."""
_IN_NUMBER: Final = (
    "[.',;\u037e\u0589\u060c\u060d\u066c\u2018\u2019\u2024\u2044"
    "\ufe10\ufe14\ufe50\ufe52\ufe54\uff07\uff0c\uff0e\uff1b]"
)
"""Stays inside a number when digits stand on both sides."""
_PICTOGRAPH: Final = (
    "[\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0"
    "\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716"
    "\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767"
    "\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171"
    "\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f201-\U0001f20f\U0001f21a\U0001f22f"
    "\U0001f232-\U0001f23a\U0001f249-\U0001f3fa\U0001f400-\U0001f53d\U0001f546-\U0001f64f"
    "\U0001f680-\U0001f6ff\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f90c-\U0001f93a"
    "\U0001f93c-\U0001f945\U0001f947-\U0001fffd][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*"
)
_TOKEN: Final = re.compile(
    rf"_*(?:{_LETTER}{_MARKS}|\d)"
    rf"(?:_*(?:{_LETTER}{_MARKS}|\d)|_+"
    rf"|(?<={_LETTER}){_IN_WORD}(?={_LETTER})|(?<=\d){_IN_NUMBER}(?=\d))*"
    rf"|[{_IDEOGRAPH}]|[{_KANA}]+|{_PICTOGRAPH}(?:\u200d{_PICTOGRAPH})*"
)
_ASCII_TOKEN: Final = re.compile(
    r"(?=_*[a-z0-9])[a-z0-9_]+"
    r"(?:(?:(?<=[a-z])[.':](?=[a-z])|(?<=[0-9])[.',;](?=[0-9]))[a-z0-9_]+)*"
)
"""The same words as by `_TOKEN` in texts without other characters, several times as fast."""
_POSSESSIVE: Final = ("'s", "\u2019s", "\uff07s")
_LONGEST: Final = 255
"""Lucene cuts longer tokens into pieces of this length."""


def terms(text: str) -> list[str]:
    """Return the index terms of a text, in order and with repetitions."""
    lowered = text.lower()
    pattern = _ASCII_TOKEN if lowered.isascii() else _TOKEN
    stems: list[str] = []
    for token in pattern.findall(lowered):
        # Longer tokens are no words, and would fill the cache with whatever strangers send.
        term = _term(token) if len(token) <= _LONGEST else token[:_LONGEST]
        if term:
            stems.append(term)
    return stems


@lru_cache(maxsize=200_000)
def _term(token: str) -> str:
    """Return the index term of a token; empty for a stop word.

    Cached because an index of a million products asks for the same words a hundred times each.
    """
    word = token[:-2] if token.endswith(_POSSESSIVE) else token
    return "" if word in STOP_WORDS else stem(word)
