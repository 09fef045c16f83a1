"""What a Wordle conversation begins with: rules, vocabulary, worked example, action formats.

As in the original, the rules stand in the first observation and only the reply format stands before
it. The example's feedback is what `rules` gives: a test holds that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from env_servers.environments.wordle.rules import ATTEMPTS, spaced
from env_servers.environments.wordle.tasks import Puzzle
from env_servers.sdk import (
    ActionFormat,
    ConversationStart,
    Grammar,
    Parameter,
    Verb,
    read_first_action,
)

__all__ = ["CONVERSATION_STARTS", "EXAMPLE", "GRAMMAR", "instructions"]

_RULES: Final = f"""\
This is Wordle. A word of five letters is hidden from you, and you have {ATTEMPTS} guesses to find \
it; the fewer you need, the better. A guess is one word, its letters separated by blanks, such as \
"p l a n t". Each guess is answered with five marks, one for each of its letters:

"g" means that the hidden word has this letter in this very place.
"y" means that the hidden word has this letter, but in another place.
"b" means that the hidden word does not have this letter.
"""
_AS_ORIGINAL: Final = """\

A guess that is not an accepted word is answered with "invalid word" and is used up all the same. \
Repeated letters are not counted: "y" says nothing about how often a letter occurs.
"""
_FIXED: Final = """\

Letters are counted as in the newspaper's game: if you guess a letter more often than the hidden \
word has it, the surplus ones are marked "b". A guess that is not an accepted word is answered \
with "invalid word" and costs no guess.
"""
_LISTED: Final = """\

Only the following words are accepted, and the hidden word is one of them:
```
{words}
```
"""
_OPEN: Final = """\

Any English word of five letters that a dictionary of everyday language has is accepted; the \
hidden word is a common one, no plain plural in -s and no plain past tense in -ed.
"""
_EXAMPLE_TEXT: Final = """\

To see how marks are read, suppose that another game went like this:
```
guess 1: s t o n e
marks 1: b b b b g
guess 2: b r e a d
marks 2: b g y y b
```
The word ends in "e" and has "r" in second place. It has an "a", not in fourth place, so "a" can \
only stand first or third. It has none of "s", "t", "o", "n", "b" and "d". "g r a p e" and \
"c r a v e" agree with all of this, so either would be a sensible third guess.
"""
_CLOSING: Final = """\

A new game begins here. Make your first guess, in the reply format that was agreed on.
"""

EXAMPLE: Final = ("grape", ("stone", "bread"))
"""Hidden word and guesses of the worked example."""


def instructions(puzzle: Puzzle, *, fixed: bool) -> str:
    """Return the first observation of a game."""
    words = "\n".join(puzzle.vocabulary.words)
    accepted = _LISTED.format(words=words) if puzzle.listed else _OPEN
    return "".join((_RULES, _FIXED if fixed else _AS_ORIGINAL, accepted, _EXAMPLE_TEXT, _CLOSING))


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    return "guess", {"word": "".join(action.split())}


def _render(arguments: Mapping[str, Any]) -> str:
    return spaced("".join(str(arguments["word"]).split()))


GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "guess",
            "Guess the hidden word.",
            _render,
            (Parameter("word", description="A word of five letters, such as plant."),),
        ),
    ),
    read_react=read_first_action,
    express=_express,
    drops_end_mark=True,
)

_ROLE: Final = "You are good at word puzzles, and you will now play a game of Wordle. "

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(
        _ROLE + "Every reply of yours makes one guess and has exactly this form:\n\n"
        "Thought:\n<what you conclude and why you choose this word>\n\n"
        "Action:\n<the word, for example: p l a n t>\n\nWrite nothing after the word."
    ),
    ActionFormat.FUNCTION_CALLING: ConversationStart(
        _ROLE + "Every reply of yours makes one guess and is a single JSON object with the keys "
        '"thought" (what you conclude and why you choose this word), "function_name" and '
        '"arguments". There is one function, "guess", whose argument "word" is written without '
        "blanks. For example:\n"
        '{"thought": "Five different and frequent letters are a good start.", '
        '"function_name": "guess", "arguments": {"word": "plant"}}'
    ),
    ActionFormat.CODE_AS_ACTION: ConversationStart(
        _ROLE + "Every reply of yours makes one guess and is a fenced Python block: a comment that "
        "says what you conclude and why you choose this word, then one call of guess(word), the "
        "word written without blanks. For example:\n"
        "```python\n# Five different and frequent letters are a good start.\n"
        'guess(word="plant")\n```'
    ),
}
