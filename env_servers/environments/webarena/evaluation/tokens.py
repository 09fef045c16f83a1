r"""Whether one character is a word of a text, as the original's tokenizer (NLTK's) splits it.

The original asks this of a reference answer of a single character: `0` is not in `10`, and it is
in `0%`, `$0` and `(0)`. The rule here is about that one question: what may stand on either side of
the character. It equals `nltk.word_tokenize` with its English sentence model on lower-case text;
what differs are periods beside rare signs, and the few dozen words that the model learned by heart.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["is_word"]

_APART: Final = re.escape(
    "«»\u201c\u201d\u2018\u2019\u201e;@#$%&?!*()[]{}<>\u2012\u2013\u2014\u2015"
)
"""Signs that are words of their own wherever they stand."""
_EDGE: Final = rf"[\s{_APART}\"`]|''|--|\.\."
_CLITICS: Final = r"'(?:s|m|d|ll|re|ve)?|n't"
_CLOSING: Final = "[\\])}>\"'»\u201d\u2019\\s]"
_OPENS_NUMBER: Final = r"(?:^|(?<=[\s\"(`{\[:;&#*@)}\],-]))"
"""What a number or initial may follow to be one: the model does not know `$5.` as a number."""


def is_word(character: str, text: str) -> bool:
    """Return whether a character is a word of its own in a text of lower case."""
    return _pattern(character).search(text) is not None


@lru_cache(maxsize=64)
def _pattern(character: str) -> re.Pattern[str]:
    sign = re.escape(character)
    if re.fullmatch(rf"[{_APART}]", character):
        return re.compile(sign)
    comma_before = "" if character.isdigit() else r"|(?<=[:,])"
    before = rf"(?:^|(?<=[\s{_APART}\"`])|(?<='')|(?<=--)|(?<=\.\.)|(?<=(?<!\w)'){comma_before})"
    end = rf"(?:$|{_EDGE}|[:,](?:\D|$))"
    stop = rf"\.{_CLOSING}*$|\.[)\"}}\]*@'({{\[]"
    after = rf"(?:{end}|(?:{_CLITICS})(?:{end}|\.\s)|{stop})"
    return re.compile(rf"{before}{sign}{after}|{_before_a_sentence(sign, before, character)}")


def _before_a_sentence(sign: str, before: str, character: str) -> str:
    """The character, a period, and a next sentence.

    After a number or an initial a sentence does not begin with a small letter.
    """
    if not character.isalnum():
        return rf"{before}{sign}\.\s"
    number = rf"{_OPENS_NUMBER}{before}{sign}\.\s++(?![;:,.!?]|[^\W\d_])"
    other = rf"(?!{_OPENS_NUMBER}){before}{sign}\.(?:\s|[;:!?])"
    return rf"{number}|{other}"
